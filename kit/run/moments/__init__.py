"""The state of a job, its tasks, channels and checkpoints at one moment, folded from the records before it."""
