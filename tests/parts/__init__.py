"""The real servers that tests run against: each a context manager that starts one, waits until it works, and leaves nothing.

`process` is the base; one module per server stands on it. `tests/conftest.py` turns them into fixtures.
"""
