"""Completed checkpoints: the store that retains them and the registry of the state that they share."""
