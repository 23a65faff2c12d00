"""What every store that outlives its driver must do, whatever its records are kept in."""

from __future__ import annotations

import pytest

from kit.host.store_errors import StoreError
from kit.host.stores import DurableStore, Records
from kit.protocol.properties import RecoveryClaimMode
from kit.protocol.stored import StoredCheckpoint


def stored(checkpoint_id: int, mode: RecoveryClaimMode | None = None) -> StoredCheckpoint:
    """Give an entry."""
    return StoredCheckpoint(checkpoint_id, f"/checkpoints/chk-{checkpoint_id}/_metadata", mode)


class StoreContract:
    """A subclass gives `records`, empty ones; each test opens as many drivers' stores on them as it likes."""

    @pytest.fixture
    def records(self) -> Records:
        """Where the drivers of one job keep what they know."""
        raise NotImplementedError

    @pytest.mark.flink(
        "DefaultCompletedCheckpointStoreTest.testRecoverSortedCheckpoints",
        "DefaultCompletedCheckpointStoreUtilsTest.testRetrievedCheckpointsAreOrderedChronologically",
    )
    def test_the_next_driver_finds_all_entries_oldest_first(self, records: Records) -> None:
        first = DurableStore(records)
        first.begin(recover=False)
        entries = [stored(2), stored(9), stored(10), stored(100, RecoveryClaimMode.NO_CLAIM)]
        for entry in (entries[2], entries[0], entries[3], entries[1]):
            first.add(entry)
        second = DurableStore(records)
        assert second.begin(recover=True) == ""
        assert second.checkpoints() == entries
        assert [entry.is_owned for entry in second.checkpoints()] == [True, True, True, False]

    def test_an_entry_is_removed_once(self, records: Records) -> None:
        store = DurableStore(records)
        store.begin(recover=False)
        store.add(stored(1))
        store.add(stored(2))
        for _ in range(2):
            store.remove(1)
        assert store.checkpoints() == [stored(2)]

    def test_an_entry_added_twice_is_there_once(self, records: Records) -> None:
        store = DurableStore(records)
        for _ in range(2):
            store.add(stored(1))
        assert store.checkpoints() == [stored(1)]

    def test_no_id_is_given_out_twice(self, records: Records) -> None:
        given = []
        for _ in range(3):
            store = DurableStore(records)
            store.begin(recover=True)
            given += [store.next_id(), store.next_id()]
        assert given == [1, 2, 3, 4, 5, 6]
        assert store.ids() == range(1, 7)

    def test_the_counter_goes_up_only(self, records: Records) -> None:
        store = DurableStore(records)
        store.begin(recover=False)
        store.raise_counter(8)
        assert store.ids() == range(8, 8)
        assert store.next_id() == 8
        store.raise_counter(3)
        assert store.next_id() == 9
        store.raise_counter(20)
        assert (store.next_id(), store.ids()) == (20, range(8, 21))

    def test_the_next_run_begins_where_the_last_ended(self, records: Records) -> None:
        store = DurableStore(records)
        store.begin(recover=False)
        store.next_id()
        store.end("CANCELED")
        assert DurableStore(records).begin(recover=True) == "CANCELED"
        assert DurableStore(records).begin(recover=False) == ""
        assert (store.ids(), store.next_id()) == (range(2, 2), 2)

    def test_what_parallelism_is_wanted_is_kept_for_the_run(self, records: Records) -> None:
        store = DurableStore(records)
        store.begin(recover=False)
        assert store.wanted() == {}
        store.want({"rows": 2, "sums": 3})
        store.want({"rows": 4, "sums": 3})
        later = DurableStore(records)
        later.begin(recover=True)
        assert later.wanted() == {"rows": 4, "sums": 3}
        later.begin(recover=False)
        assert later.wanted() == {}, "another run"
        later.want({"rows": 2})
        later.end("CANCELED")
        assert records.read("parallelism") is None
        records.write("parallelism", b"nonsense")
        with pytest.raises(StoreError, match=r"parallelism in .* cannot be read .*nonsense"):
            store.wanted()

    @pytest.mark.parametrize(("ended", "said"), [("", "has not ended"), ("FINISHED", "ended as FINISHED, but was not")])
    def test_a_run_that_left_checkpoints_is_not_begun_anew(self, records: Records, ended: str, said: str) -> None:
        store = DurableStore(records)
        store.begin(recover=False)
        store.add(stored(7))
        if ended:
            store.end(ended)
        with pytest.raises(StoreError, match=rf"checkpoint\(s\) 7 of a run of this job that {said}.*recover=True"):
            DurableStore(records).begin(recover=False)
        assert DurableStore(records).begin(recover=True) == ended

    @pytest.mark.parametrize("name", ["checkpoints/0000000000000000007", "run", "checkpointID"])
    def test_what_makes_no_sense_is_an_error(self, records: Records, name: str) -> None:
        store = DurableStore(records)
        store.begin(recover=False)
        store.add(stored(8))
        records.write(name, b"\xff nonsense")
        ask = store.checkpoints if name.startswith("checkpoints/") else store.ids
        with pytest.raises(StoreError, match="nonsense"):
            ask()

    def test_a_counter_that_is_gone_is_not_begun_anew(self, records: Records) -> None:
        store = DurableStore(records)
        store.begin(recover=False)
        store.next_id()
        records.remove("checkpointID")
        for ask in (store.next_id, store.ids, lambda: store.raise_counter(9)):
            with pytest.raises(StoreError, match=r"the counter of checkpoint ids, checkpointID in .*, is gone"):
                ask()
        assert records.read("checkpointID") is None

    def test_who_is_to_go_on_with_a_run_that_is_gone_is_told_so(self, records: Records) -> None:
        store = DurableStore(records)
        store.begin(recover=False)
        store.add(stored(7))
        records.remove("run")
        with pytest.raises(StoreError, match=r"run in .* is gone, but there are checkpoint\(s\) 7: nobody knows"):
            DurableStore(records).begin(recover=True)
