"""The brain: what is true and what to do next. No I/O, no clock, no chance; `now` is always an argument."""
