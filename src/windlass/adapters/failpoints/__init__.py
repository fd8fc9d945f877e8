"""Failpoints that a test can arm."""
