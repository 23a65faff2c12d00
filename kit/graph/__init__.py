"""The job as a graph: what the user writes, what is chained, and which subtasks and channels run."""
