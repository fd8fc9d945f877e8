"""One transition table per noun that lives. The table is the specification; docs draw it, tests walk it."""
