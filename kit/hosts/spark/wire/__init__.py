"""Connections between driver and slots: frames, credits, authentication, TLS."""
