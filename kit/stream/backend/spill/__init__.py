"""Keyed state that exceeds memory: rows that are not in use wait in sorted runs, outside the tables."""
