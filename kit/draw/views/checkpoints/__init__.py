"""Views of checkpoint directories: their contents, shared files, comparisons and checks before a restore."""
