"""Blobs: bytes by digest, in a directory here; an object store takes the same seat."""
