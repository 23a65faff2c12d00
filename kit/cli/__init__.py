"""The command `kit`: what is in a checkpoint, in a shell. It needs the extra `cli`, and neither Spark nor Jupyter."""
