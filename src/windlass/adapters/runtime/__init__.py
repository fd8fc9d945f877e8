"""What runs things on a node, one package per technology: `docker` (Docker and Podman), `process`."""
