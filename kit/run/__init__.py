"""Reading a run: what the records of a trace say about the job, its checkpoints and its channels."""
