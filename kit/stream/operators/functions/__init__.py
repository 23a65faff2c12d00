"""User-defined functions: per row, per batch, on broadcast state."""
