"""Windlass: one control plane for containers."""

__version__ = "0.1.0"
