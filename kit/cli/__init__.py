"""The command `kit`: what is in a checkpoint, in a shell. It needs no extra, and neither Spark nor Jupyter."""
