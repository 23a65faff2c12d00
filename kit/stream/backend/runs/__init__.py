"""Incremental snapshots: runs of changed rows, the order of the runs of a checkpoint, and which of them are reused."""
