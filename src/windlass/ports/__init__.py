"""Our Protocols: what the loops need of the outside, in our words. Each has a contract suite in `tests/contracts`."""
