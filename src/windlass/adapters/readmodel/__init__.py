"""Where the read model keeps its tables."""
