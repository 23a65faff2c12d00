"""Ready jobs for lessons and plays."""
