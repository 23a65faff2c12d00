"""Host 2: the protocol's machines in Spark's barrier tasks, joined by our own sockets."""
