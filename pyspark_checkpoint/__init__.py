"""The data source `spark.read.format("checkpoint")`, where Spark finds it by itself.

Spark imports each package whose name begins with `pyspark_` when a query first names a format that it does not know,
and takes its `DefaultSource`. Registering the source with each session would cost every job a second at its start.
"""

from kit.hosts.spark.frames.checkpoint_state import CheckpointState as DefaultSource

__all__ = ["DefaultSource"]
