"""The leader's picture of everything alive: facts in, numbered decisions out. Rebuilt from the store, driven by loops."""
