"""Stores: `sqlite` for one machine; what every store shares (checks, leases, watchers) stands beside it."""
