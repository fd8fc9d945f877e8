"""Where guests come from."""
