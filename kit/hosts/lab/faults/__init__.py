"""Faults that a lab injects."""
