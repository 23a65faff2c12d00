"""Faults of state on disk: an entry is lost, counted twice, or comes back when runs are merged."""

from __future__ import annotations

from tests.mutants.finders import ByTest, Finder

_TESTS = "stream/backend/test_spill.py::"
_MERGES = ByTest(f"{_TESTS}test_merges_leave_out_what_has_expired")

SPILLED: tuple[tuple[str, str, str, str, str, Finder], ...] = (
    (
        "removal-forgotten-in-a-merge",
        "a merge drops the note that a key has no entry, though an older run still has one",
        "kit.stream.backend.spill.merging:Merge.proceed",
        "not self.older",
        "True",
        ByTest(f"{_TESTS}test_state_on_disk_is_that_in_memory"),
    ),
    (
        "expired-entries-read-again",
        "entries that a merge has left out are read from its inputs until it ends",
        "kit.stream.backend.spill.merging:Merge.inputs_now",
        "self._unexpired is None",
        "True",
        _MERGES,
    ),
    (
        "expired-entries-counted",
        "entries that a merge has left out still count",
        "kit.stream.backend.states.tables:StateTable._cleaned_on_disk",
        "slots < 0",
        "slots < -1",
        _MERGES,
    ),
    (
        "left-out-twice",
        "an entry that a newer run has counts as gone when a merge leaves out an older one of its key",
        "kit.stream.backend.spill.cold_rows:ColdRows._proceed",
        "_not_in(newer, rows)",
        "rows",
        _MERGES,
    ),
    (
        "left-out-under-an-entry-in-memory",
        "an entry in memory does not learn that a merge has left it out on disk, and is never written again",
        "kit.stream.backend.states.tables:StateTable._cleaned_on_disk",
        "resident.is_written[slots[slots >= 0]] = True",
        "pass",
        ByTest(f"{_TESTS}test_an_entry_in_memory_outlives_the_merge_that_leaves_it_out_on_disk"),
    ),
)
