"""Reaching addresses that users name: `addresses` says which may be reached, `http` reaches those and no others."""
