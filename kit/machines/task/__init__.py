"""The StreamTask machine: one subtask's handling of records, barriers and checkpoints."""
