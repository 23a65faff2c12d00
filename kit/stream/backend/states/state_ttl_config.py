"""Time-to-live: how long state lives after its last access, and when expired state is removed.

    SEEN = ValueStateDescriptor("seen", pa.bool_(), ttl=StateTtlConfig("1h"))

Time is processing time: the host's, which is virtual in a lab. Follows `StateTtlConfig`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kit.core.arguments.allowed import FLAG, check_allowed, count, member, milliseconds, one_of
from kit.core.arguments.durations import Duration
from kit.core.arguments.signposts import TTL, SignedType


class UpdateType(Enum):
    """The accesses from which an entry lives on: writes, or reads too (`StateTtlConfig.UpdateType`)."""

    ON_CREATE_AND_WRITE = "on_create_and_write"
    ON_READ_AND_WRITE = "on_read_and_write"


class StateVisibility(Enum):
    """The result of reading an expired entry that was not removed yet (`StateTtlConfig.StateVisibility`)."""

    NEVER_RETURN_EXPIRED = "never_return_expired"
    RETURN_EXPIRED_IF_NOT_CLEANED_UP = "return_expired_if_not_cleaned_up"


@dataclass(frozen=True)
class StateTtlConfig(metaclass=SignedType):
    """The time-to-live of a state's entries: of each value, each element of a list, each entry of a map.

    An entry has expired `time_to_live_ms` after its last access: after the last write, or with
    `update_type="on_read_and_write"` after the last read or write. The read that finds it expired removes it, and
    returns nothing; with `state_visibility="return_expired_if_not_cleaned_up"` this read still returns it.

    Entries that nobody reads are removed in three other ways. Each access to the state checks `cleanup_size` other
    entries in memory in turn (`cleanupIncrementally`). With `cleanup_for_every_record` each record of the operator does
    so too. With state on disk, merges of runs leave expired entries out, as the compaction filter of RocksDB does.
    `cleanup_size=0` turns both off, as `disableCleanupInBackground` does. And `cleanup_full_snapshot` leaves expired
    entries out of snapshots, but not out of the state.

    Raises SettingError for a value that is not allowed.
    """

    class_signs = TTL

    time_to_live_ms: Duration
    update_type: UpdateType | str = UpdateType.ON_CREATE_AND_WRITE
    state_visibility: StateVisibility | str = StateVisibility.NEVER_RETURN_EXPIRED
    cleanup_full_snapshot: bool = False
    cleanup_size: int = 5
    cleanup_for_every_record: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "update_type", member(UpdateType, self.update_type))
        object.__setattr__(self, "state_visibility", member(StateVisibility, self.state_visibility))
        check_allowed(self, _ALLOWED, "StateTtlConfig")

    @property
    def renews_on_read(self) -> bool:
        """True if an entry lives on from a read, too."""
        return self.update_type is UpdateType.ON_READ_AND_WRITE

    @property
    def returns_expired(self) -> bool:
        """True if an expired entry that was not removed yet is returned."""
        return self.state_visibility is StateVisibility.RETURN_EXPIRED_IF_NOT_CLEANED_UP


_ALLOWED = {
    "time_to_live_ms": milliseconds(1),
    "update_type": one_of(UpdateType),
    "state_visibility": one_of(StateVisibility),
    "cleanup_full_snapshot": FLAG,
    "cleanup_size": count(0),
    "cleanup_for_every_record": FLAG,
}
