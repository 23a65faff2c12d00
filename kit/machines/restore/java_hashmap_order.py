"""The iteration order of a `java.util.HashMap`.

Flink redistributes list states in that order, and where one state ends the next begins, so the order decides which
subtask gets which entry. A map is a table of buckets whose length is a power of two. A key's bucket is its spread hash
modulo the length, and iteration goes bucket by bucket. The table doubles once the map is more than three quarters full,
or if a bucket of a small table gets long; keys that share a bucket then keep their order.

`put` and `computeIfAbsent` differ: `put` adds at the end of a bucket and doubles afterwards, while `computeIfAbsent`
adds at its head and doubles before the next call. In tables of 64 and more, Java turns buckets of eight into trees;
here they are iterated like lists.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from kit.stream.backend.keys.key_hashing import java_hash_code

DEFAULT_CAPACITY = 16
_LOAD_FACTOR = 0.75
_TREEIFY_LENGTH = 8
_MIN_TREEIFY_CAPACITY = 64

Key = TypeVar("Key", bound=Hashable)


def operator_id_hash(operator_id: str) -> int:
    """Return Java's `OperatorID.hashCode` of 32 hex digits: the xor of the four 32-bit words."""
    words = int(operator_id, 16)
    folded = words ^ words >> 32 ^ words >> 64 ^ words >> 96
    return folded & 0xFFFFFFFF


def operator_instance_hash(operator_id: str) -> Callable[[int], int]:
    """Return Java's `OperatorInstanceID.hashCode` as a function of the operator's subtask."""
    of_operator = 31 * (31 + operator_id_hash(operator_id))
    return lambda subtask: of_operator + subtask


def capacity_for(expected_size: int) -> int:
    """Return the table length of Flink's `CollectionUtil.newHashMapWithExpectedSize`."""
    required = expected_size + 1 if expected_size <= 2 else -int(-expected_size // _LOAD_FACTOR)
    return 1 << max(required - 1, 0).bit_length()


class _Table(Generic[Key]):
    """The buckets of one map, each a list of keys in iteration order."""

    def __init__(self, capacity: int, hash_code: Callable[[Key], int]) -> None:
        self.buckets: list[list[Key]] = [[] for _ in range(capacity)]
        self.hash_code = hash_code
        self.size = 0

    def bucket(self, key: Key) -> list[Key]:
        code = self.hash_code(key) & 0xFFFFFFFF
        return self.buckets[(code ^ code >> 16) & len(self.buckets) - 1]

    def double(self) -> None:
        keys = self.walk()
        self.buckets = [[] for _ in range(2 * len(self.buckets))]
        for key in keys:
            self.bucket(key).append(key)

    def double_if_full(self) -> None:
        if self.size > len(self.buckets) * _LOAD_FACTOR:
            self.double()

    def double_if_small(self, bucket_length: int) -> None:
        if bucket_length >= _TREEIFY_LENGTH and len(self.buckets) < _MIN_TREEIFY_CAPACITY:
            self.double()

    def walk(self) -> list[Key]:
        return [key for bucket in self.buckets for key in bucket]


def put_order(
    keys: Iterable[Key], hash_code: Callable[[Key], int] = java_hash_code, capacity: int = DEFAULT_CAPACITY
) -> list[Key]:
    """Return the iteration order after `put` of each key in turn; keys may repeat."""
    table = _Table(capacity, hash_code)
    for key in keys:
        bucket = table.bucket(key)
        if key not in bucket:
            bucket.append(key)
            table.size += 1
            table.double_if_small(len(bucket) - 1)
            table.double_if_full()
    return table.walk()


def compute_if_absent_order(
    keys: Iterable[Key], hash_code: Callable[[Key], int] = java_hash_code, capacity: int = DEFAULT_CAPACITY
) -> list[Key]:
    """Return the iteration order after `computeIfAbsent` of each key in turn; keys may repeat."""
    table = _Table(capacity, hash_code)
    for key in keys:
        table.double_if_full()
        bucket = table.bucket(key)
        if key not in bucket:
            bucket.insert(0, key)
            table.size += 1
            table.double_if_small(len(bucket))
    return table.walk()
