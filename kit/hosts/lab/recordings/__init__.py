"""Recorded runs, repeated in a lab."""
