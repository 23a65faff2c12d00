"""Ready jobs for lessons and scenarios."""
