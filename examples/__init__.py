"""Jobs to read and to run; not shipped."""
