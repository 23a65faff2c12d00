"""The contents of a checkpoint, as values: key groups, handles, the state of each operator, rescale mappings."""
