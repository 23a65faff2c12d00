"""The time to read a savepoint of Flink to Arrow, beside Flink itself: `python -m benchmarks savepoint`."""
