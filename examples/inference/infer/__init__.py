"""The inference workload: one picture in, the five likeliest classes out. `python -m infer` runs it; the README has the rest."""
