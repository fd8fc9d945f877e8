"""Where identity and chance come from."""
