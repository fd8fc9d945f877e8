"""The way to a Kubernetes API server: for the operator, and for the command line on that home."""
