"""The StreamTask machine: what one subtask does with records, barriers and checkpoints."""
