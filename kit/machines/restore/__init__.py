"""The restore of a checkpoint: which subtask gets which state, also at another parallelism.

`assign_states` does all of it. `load_and_validate` comes first, when a checkpoint is read from storage.
"""
