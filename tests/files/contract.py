"""The contract of every store that outlives its driver, whatever its records are kept in."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Barrier, Thread

import pytest

from kit.core.protocol.properties import RecoveryClaimMode
from kit.core.protocol.stored import JobResult, StoredCheckpoint
from kit.files.stores.errors import LeadershipLostError, StoreError
from kit.files.stores.stores import DurableStore, Leader, Records


def stored(checkpoint_id: int, mode: RecoveryClaimMode | None = None) -> StoredCheckpoint:
    """Return an entry."""
    return StoredCheckpoint(checkpoint_id, f"/checkpoints/chk-{checkpoint_id}/_metadata", mode)


OpenRecords = Callable[[], Records]


def begun(records: Records, *, recover: bool = False, driver: str = "") -> DurableStore:
    """Return the store of a driver that has begun."""
    store = DurableStore(records)
    store.begin(recover=recover, driver=driver)
    return store


def ids_given_to_threads(store: DurableStore) -> list[int]:
    """Return the ids that three threads take from a store at once, twenty each."""
    given: list[int] = []

    def take() -> None:
        given.extend(store.next_id() for _ in range(20))

    threads = [Thread(target=take) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return given


class StoreContract:
    """A subclass gives `opened`, which opens the records of one job for another driver; at first there are none."""

    @pytest.fixture
    def opened(self) -> OpenRecords:
        """Open the records of the job for a driver."""
        raise NotImplementedError

    @pytest.fixture
    def records(self, opened: OpenRecords) -> Records:
        """The records as one driver has opened them."""
        return opened()

    @pytest.mark.flink(
        "DefaultCompletedCheckpointStoreTest.testRecoverSortedCheckpoints",
        "DefaultCompletedCheckpointStoreUtilsTest.testRetrievedCheckpointsAreOrderedChronologically",
    )
    def test_the_next_driver_finds_all_entries_oldest_first(self, opened: OpenRecords) -> None:
        first = begun(opened())
        entries = [stored(2), stored(9), stored(10), stored(100, RecoveryClaimMode.NO_CLAIM)]
        for entry in (entries[2], entries[0], entries[3], entries[1]):
            first.add(entry)
        second = DurableStore(opened())
        assert second.begin(recover=True) == ""
        assert second.checkpoints() == entries
        assert [entry.is_owned for entry in second.checkpoints()] == [True, True, True, False]

    def test_an_entry_is_removed_once(self, records: Records) -> None:
        store = begun(records)
        store.add(stored(1))
        store.add(stored(2))
        for _ in range(2):
            store.remove(1)
        assert store.checkpoints() == [stored(2)]

    def test_an_entry_added_twice_is_there_once(self, records: Records) -> None:
        store = begun(records)
        for _ in range(2):
            store.add(stored(1))
        assert store.checkpoints() == [stored(1)]

    def test_no_id_is_given_out_twice(self, opened: OpenRecords) -> None:
        given = []
        for _ in range(3):
            store = begun(opened(), recover=True)
            given += [store.next_id(), store.next_id()]
        assert given == [1, 2, 3, 4, 5, 6]
        assert store.ids() == range(1, 7)

    def test_the_counter_goes_up_only(self, records: Records) -> None:
        store = begun(records)
        store.raise_counter(8)
        assert store.ids() == range(8, 8)
        assert store.next_id() == 8
        store.raise_counter(3)
        assert store.next_id() == 9
        store.raise_counter(20)
        assert (store.next_id(), store.ids()) == (20, range(8, 21))

    def test_the_next_run_begins_where_the_last_ended(self, opened: OpenRecords) -> None:
        store = begun(opened())
        store.next_id()
        store.end(JobResult("CANCELED"))
        assert DurableStore(opened()).begin(recover=True) == "CANCELED"
        store = DurableStore(opened())
        assert store.begin(recover=False) == ""
        assert (store.ids(), store.next_id()) == (range(2, 2), 2)

    def test_how_a_run_has_ended_and_what_stays_of_it_is_kept(self, opened: OpenRecords) -> None:
        store = begun(opened())
        assert store.result() is None
        result = JobResult("CANCELED", "/savepoints/1", keep=(3, 5), shared=("a", "b"))
        store.end(result)
        later = begun(opened(), recover=True)
        assert later.result() == result
        later.raise_counter(9)
        assert later.result() == result
        DurableStore(opened()).begin(recover=False)
        assert DurableStore(opened()).result() is None

    def test_what_parallelism_is_wanted_is_kept_for_the_run(self, opened: OpenRecords) -> None:
        store = begun(opened())
        assert store.wanted() == {}
        store.want({"rows": 2, "sums": 3})
        store.want({"rows": 4, "sums": 3})
        records = opened()
        later = begun(records, recover=True)
        assert later.wanted() == {"rows": 4, "sums": 3}
        later.begin(recover=False)
        assert later.wanted() == {}, "another run"
        later.want({"rows": 2})
        later.end(JobResult("CANCELED"))
        assert records.read("parallelism") is None
        records.write("parallelism", b"nonsense")
        with pytest.raises(StoreError, match=r"parallelism in .* cannot be read .*nonsense"):
            later.wanted()

    @pytest.mark.parametrize(("ended", "said"), [("", "has not ended"), ("FINISHED", "ended as FINISHED, but was not")])
    def test_a_run_that_left_checkpoints_is_not_begun_anew(self, opened: OpenRecords, ended: str, said: str) -> None:
        store = begun(opened())
        store.add(stored(7))
        if ended:
            store.end(JobResult(ended))
        with pytest.raises(StoreError, match=rf"checkpoint\(s\) 7 of a run of this job that {said}.*recover=True"):
            DurableStore(opened()).begin(recover=False)
        store.check_leadership()
        store.add(stored(8))  # the driver that was refused has not taken over
        assert DurableStore(opened()).begin(recover=True) == ended

    @pytest.mark.parametrize("name", ["checkpoints/0000000000000000007", "run", "checkpointID"])
    def test_what_makes_no_sense_is_an_error(self, records: Records, name: str) -> None:
        store = begun(records)
        store.add(stored(8))
        records.write(name, b"\xff nonsense")
        ask = store.checkpoints if name.startswith("checkpoints/") else store.ids
        with pytest.raises(StoreError, match="nonsense"):
            ask()

    def test_a_counter_that_is_gone_is_not_begun_anew(self, records: Records) -> None:
        store = begun(records)
        store.next_id()
        records.remove("checkpointID")
        for ask in (store.next_id, store.ids, lambda: store.raise_counter(9)):
            with pytest.raises(StoreError, match=r"the counter of checkpoint ids, checkpointID in .*, is gone"):
                ask()
        assert records.read("checkpointID") is None

    def test_who_is_to_go_on_with_a_run_that_is_gone_is_told_so(self, opened: OpenRecords) -> None:
        records = opened()
        store = begun(records)
        store.add(stored(7))
        records.remove("run")
        with pytest.raises(StoreError, match=r"run in .* is gone, but there are checkpoint\(s\) 7 of an unknown run"):
            DurableStore(opened()).begin(recover=True)

    def test_a_driver_that_was_replaced_can_do_nothing(self, opened: OpenRecords) -> None:
        first_records, second_records = opened(), opened()
        first = begun(first_records, driver="the first")
        first.next_id()
        first.add(stored(1))
        second = begun(second_records, recover=True, driver="the second")
        before = {name: second_records.read(name) for name in ("run", "checkpointID", "parallelism")}
        for attempt in (
            first.check_leadership,
            first.next_id,
            first.ids,
            first.checkpoints,
            first.wanted,
            lambda: first.raise_counter(50),
            lambda: first.add(stored(1)),
            lambda: first.add(stored(2)),
            lambda: first.remove(1),
            lambda: first.want({"rows": 3}),
            lambda: first.end(JobResult("FINISHED")),
            lambda: first_records.write("run", b"{}"),
            lambda: first_records.remove("run"),
        ):
            with pytest.raises(LeadershipLostError, match=r"driver 2 \(the second\) has taken over this job"):
                attempt()
        assert {name: second_records.read(name) for name in before} == before
        assert second.checkpoints() == [stored(1)]
        assert second.next_id() == 2
        second.add(stored(2))
        third = begun(opened(), recover=True, driver="the third")
        assert third.checkpoints() == [stored(1), stored(2)]
        for deposed in (first, second):
            with pytest.raises(LeadershipLostError, match="driver 3"):
                deposed.next_id()

    def test_a_write_that_another_driver_overtakes_fails(self, opened: OpenRecords) -> None:
        """The takeover happens between the first driver's read and its write."""
        records = opened()
        first = begun(records)
        first.next_id()
        second = DurableStore(opened())

        def change(found: bytes | None) -> bytes:
            if second.begin(recover=True) == "":
                assert found == b"2"
            return b"99"

        with pytest.raises(StoreError):  # a database keeps the second driver waiting until it gives up
            records.update("checkpointID", change)
        assert opened().read("checkpointID") == b"2"

    def test_of_drivers_that_take_over_at_once_one_leads(self, opened: OpenRecords) -> None:
        begun(opened()).add(stored(1))
        stores = [DurableStore(opened()) for _ in range(6)]
        together = Barrier(len(stores))

        def take_over(number: int) -> None:
            together.wait()
            with suppress(LeadershipLostError):  # another one was faster, before this one was through
                stores[number].begin(recover=True, driver=f"number {number}")

        threads = [Thread(target=take_over, args=(number,)) for number in range(len(stores))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        leading = []
        for number, store in enumerate(stores):
            with suppress(LeadershipLostError):
                store.check_leadership()
                leading.append(number)
        assert len(leading) == 1
        assert DurableStore(opened()).leads() == Leader(7, f"number {leading[0]}")

    def test_records_are_changed_by_a_leader_only(self, records: Records) -> None:
        for change in (
            lambda: records.write("run", b"1"),
            lambda: records.update("run", lambda found: b"1"),
            lambda: records.remove("run"),
        ):
            with pytest.raises(StoreError, match="has not taken the leadership"):
                change()
        assert records.read("run") is None
        assert records.leader() is None

    def test_the_leader_of_an_unfinished_run_is_known(self, opened: OpenRecords) -> None:
        onlooker = DurableStore(opened())
        assert onlooker.leads() is None
        store = begun(opened(), driver="process 7 on this host")
        assert onlooker.leads() == Leader(1, "process 7 on this host")
        store.end(JobResult("FINISHED"))
        assert onlooker.leads() is None
