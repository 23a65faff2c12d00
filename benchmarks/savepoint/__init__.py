"""How long a savepoint of Flink takes to become Arrow, beside Flink itself: `python -m benchmarks savepoint`."""
