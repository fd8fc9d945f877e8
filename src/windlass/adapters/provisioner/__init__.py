"""Makers of workers."""
