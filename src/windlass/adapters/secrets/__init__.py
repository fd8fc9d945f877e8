"""Sealing with keys from a directory."""
