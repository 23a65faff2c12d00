"""Arrow types, values and columns of values."""
