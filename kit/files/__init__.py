"""The file access that both hosts share: what they do when a machine asks for files to be read or written."""
