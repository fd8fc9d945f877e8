"""The keys that sign tokens, kept outside the store."""
