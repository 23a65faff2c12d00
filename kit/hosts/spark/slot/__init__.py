"""A slot: one Spark task that runs tasks of the job."""
