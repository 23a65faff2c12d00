"""A run as one HTML file to step through offline."""
