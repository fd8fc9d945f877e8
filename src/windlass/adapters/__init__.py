"""The outside world, one folder per port: `<port>/<technology>.py`. Only `boot` and `testing` name an adapter."""
