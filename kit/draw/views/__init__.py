"""Views: each answers one question about a run."""
