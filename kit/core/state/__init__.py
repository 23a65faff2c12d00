"""The contents of a checkpoint, as values: key groups, handles, the state of each operator, rescale mappings."""

from kit.core.state.errors import (
    SavepointNotFoundError,
    StateDescriptorError,
    StateError,
    StateRestoreError,
    StateTypeError,
    StorageError,
)
from kit.core.state.key_groups import (
    default_max_parallelism,
    key_group_partitions,
    key_group_range_for_operator_index,
    operator_index_for_key_group,
    operator_indexes,
)

__all__ = [
    "SavepointNotFoundError",
    "StateDescriptorError",
    "StateError",
    "StateRestoreError",
    "StateTypeError",
    "StorageError",
    "default_max_parallelism",
    "key_group_partitions",
    "key_group_range_for_operator_index",
    "operator_index_for_key_group",
    "operator_indexes",
]
