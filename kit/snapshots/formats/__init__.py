"""The layouts of state on disk: canonical savepoints, the heap's snapshots, RocksDB's SST files, operator state.

Each module takes bytes and returns values; which bytes to read is decided by `kit.snapshots.checkpoints`.
"""
