"""Fakes that pass the contract suites, builders, and the faulty store and network of the simulation tests."""
