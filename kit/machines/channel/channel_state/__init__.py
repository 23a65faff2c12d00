"""In-flight data of unaligned checkpoints: captured, written to files, read back."""
