"""What crosses to a Kubernetes API server: the CRD, its status, and the objects made for a job. Plain dictionaries, no client."""
