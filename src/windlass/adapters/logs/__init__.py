"""Where the logs of runs are kept."""
