"""What will be: `why` a job waits, what a manifest would do (`plan`), and the same trace under other rules (`simulate`).

All three drive the real World; nothing here decides who may run, who is next, or where.
"""
