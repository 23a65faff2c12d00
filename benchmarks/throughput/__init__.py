"""Rows a second of this kit beside its peers, exactly once, a checkpoint every second, every result checked.

    python -m benchmarks throughput
    python -m benchmarks.throughput --workloads W1,W5 --peers kit,spark-sql --rounds 3 --seconds 8
    python -m benchmarks.throughput --checkpoint-cost        # W1 and W1r with checkpoints and without, in turn
    python -m benchmarks.throughput --frames                 # W1 over Parquet files and over DataFrames
    KIT_PROFILE=/tmp python -m benchmarks.throughput.kit_jobs W5 4000000 /tmp/w5    # a profile of each slot

`workloads.py` defines the computations, `peers.py` the systems, and one file for each of these its programs. Peers
alternate, each in an environment that is set up for it below a cache directory (`--cache`, or KIT_BENCH_CACHE).
"""
