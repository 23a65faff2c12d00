"""Giving a checkpoint back to a job: which subtask restores which state, also at another parallelism."""
