"""The CheckpointCoordinator and its parts."""
