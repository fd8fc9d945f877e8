"""What is counted and measured, as Prometheus reads it. Registries are passed in; nothing here is global."""
