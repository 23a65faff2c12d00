"""The scripts that make calls: they set up the environment, and write generated files."""
