"""The data source `spark.read.format("checkpoint")`, where Spark finds it by itself.

When a session first needs a data source in Python, Spark imports each package whose name begins with `pyspark_` and
takes its `DefaultSource`. Registering the source with each session would cost every job a second at its start.
"""

from kit.core.extras import naming_extras

with naming_extras():
    from kit.hosts.spark.frames.checkpoint_state import CheckpointState as DefaultSource

__all__ = ["DefaultSource"]
