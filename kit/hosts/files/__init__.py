"""Carrying out: what both hosts do when a machine asks for files to be read or written."""
