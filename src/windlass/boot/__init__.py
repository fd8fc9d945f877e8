"""Where everything is put together: the entry points, the settings, one composition root per process."""
