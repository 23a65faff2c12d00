"""The settings of a job: checkpoints, restarts, stores, parts that a user replaces."""
