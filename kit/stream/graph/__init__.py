"""The job as a graph: what is chained, and which subtasks and channels run."""
