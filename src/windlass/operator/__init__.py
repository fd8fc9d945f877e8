"""The operator: drives each EphemeralAccelerationJob by its `core` step. Handlers note what changed, workers look and act."""
