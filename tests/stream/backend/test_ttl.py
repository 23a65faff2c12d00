"""States with TTL: when entries expire, what a read returns then, and when they are removed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kit import StateTtlConfig
from kit.core.arguments.allowed import SettingError
from kit.core.state.errors import StateDescriptorError, StateError
from kit.core.state.handles import KeyGroupRange
from kit.core.state.key_groups import key_group_partitions
from kit.stream.backend.files.snapshot import KeyedStateFile
from kit.stream.backend.heap import HeapKeyedStateBackend
from kit.stream.backend.keys.key_hashing import assign_key_to_parallel_operator
from kit.stream.backend.operator_store import OperatorStateStore
from kit.stream.backend.states.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from kit.stream.operators.functions.batch_process import TtlBatchState
from tests.stream.backend.test_snapshot import part
from tests.stream.backend.ttl import KINDS, MAXIMUM, SEVEN, Backend, config, descriptor, read, restored, write

NEVER, ALWAYS = config(), config(update_type="on_read_and_write")
RETURNED = config(state_visibility="return_expired_if_not_cleaned_up")
each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
def test_without_a_write_there_is_nothing(kind: str) -> None:
    assert read(Backend().of("a", descriptor(kind, NEVER)), kind) is None


@each_kind
def test_an_entry_expires_its_ttl_after_the_last_write(kind: str) -> None:
    state, backend = descriptor(kind, NEVER), Backend()
    write(backend.at(1_000).of("a", state), kind, 5)
    write(backend.of("b", state), kind, 1)
    backend = backend.restored()
    if kind not in ("list", "map"):  # their parts expire one by one
        write(backend.at(1_050).of("a", state), kind, 2)
    backend = backend.restored()
    last = 1_000 if kind in ("list", "map") else 1_050
    assert read(backend.at(last + 99).of("a", state), kind) is not None
    assert backend.entries(kind) == 2
    assert read(backend.at(last + 100).of("a", state), kind) is None
    assert backend.entries(kind) == 1, "the read removes the entry"
    assert read(backend.of("b", state), kind) is None
    assert backend.entries(kind) == 0


@each_kind
def test_an_expired_entry_may_be_returned_once(kind: str) -> None:
    state, backend = descriptor(kind, RETURNED), Backend()
    for key in "ab":
        write(backend.at(0).of(key, state), kind, 7)
    backend = backend.restored().at(120)
    assert read(backend.of("a", state), kind) == SEVEN[kind]
    assert backend.entries(kind) == 1
    assert read(backend.of("a", state), kind) is None
    assert read(backend.of("b", state), kind) == SEVEN[kind]


@each_kind
def test_a_read_renews_an_entry_if_the_ttl_says_so(kind: str) -> None:
    backend = Backend()
    renewed, kept = descriptor(kind, ALWAYS), Backend()
    write(backend.of("a", renewed), kind, 7)
    write(kept.of("a", descriptor(kind, NEVER)), kind, 7)
    for at in (50, 120):
        backend = backend.restored().at(at)
        assert read(backend.of("a", renewed), kind) == SEVEN[kind]
    assert read(kept.at(50).of("a", descriptor(kind, NEVER)), kind) == SEVEN[kind]
    assert read(kept.at(120).of("a", descriptor(kind, NEVER)), kind) is None
    assert read(backend.at(220).of("a", renewed), kind) is None
    assert backend.entries(kind) == 0


def test_the_longest_ttl_never_expires() -> None:
    state = ValueStateDescriptor("value", pa.int64(), ttl=StateTtlConfig((1 << 63) - 1))
    backend = Backend().at(1_800_000_000_000)
    backend.of("a", state).update(7)
    backend.of("b", state).update(8)
    assert backend.at(4_000_000_000_000).restored().of("a", state).value() == 7


def test_none_removes_a_value() -> None:
    state = descriptor("value", RETURNED)
    backend = Backend()
    backend.of("a", state).update(7)
    backend.of("a", state).update(None)
    assert backend.of("a", state).value() is None
    assert backend.entries("value") == 0


@each_kind
def test_a_restore_brings_back_the_times_of_the_snapshot(kind: str) -> None:
    state, backend = descriptor(kind, NEVER), Backend()
    write(backend.at(50).of("k1", state), kind, 7)
    write(backend.at(100).of("k2", state), kind, 7)
    before = backend.restored()
    for key in ("k1", "k2"):
        write(backend.at(170).of(key, state), kind, 7)
    before.at(180)
    assert read(before.of("k1", state), kind) is None
    assert read(before.of("k2", state), kind) == SEVEN[kind]


@each_kind
def test_what_is_written_to_an_expired_entry_begins_it_again(kind: str) -> None:
    state, backend = descriptor(kind, NEVER), Backend()
    write(backend.of("a", state), kind, 5)
    write(backend.at(120).of("a", state), kind, 7)
    assert read(backend.at(121).of("a", state), kind) == SEVEN[kind]


@pytest.mark.parametrize(("kind", "found"), [("reducing", 12), ("aggregating", 6.0)])
def test_a_value_is_added_to_an_expired_entry_that_may_be_returned(kind: str, found: Any) -> None:
    state, backend = descriptor(kind, RETURNED), Backend()
    write(backend.of("a", state), kind, 5)
    write(backend.at(120).of("a", state), kind, 7)
    assert read(backend.at(219).of("a", state), kind) == found


@each_kind
def test_each_namespace_has_an_entry_of_its_own(kind: str) -> None:
    state, backend = descriptor(kind, NEVER), Backend()
    backend.heap.set_current_key("a")
    for at, namespace in ((0, "old"), (60, "new"), (0, "older")):
        write(backend.at(at).heap.state(state, namespace), kind, 7)
    backend = backend.restored().at(120)
    backend.heap.set_current_key("a")
    found = [read(backend.heap.state(state, namespace), kind) for namespace in ("old", "new", "older")]
    assert found == [None, SEVEN[kind], None]
    assert backend.entries(kind) == 1


# --- runs and batches -------------------------------------------------------------------------------------------------

MANY = [f"{number}" for number in range(20)]
"""More keys than are processed one by one."""


def run(backend: Backend, state: Any, keys: list[str]) -> Any:
    """Yield the state of one key after another, in one run."""
    view = backend.heap.state(state)
    for _ in backend.heap.in_turn(pa.array(keys)):
        yield view


@each_kind
def test_a_run_removes_and_renews_what_is_read(kind: str) -> None:
    removed, renewed = Backend(), Backend()
    for backend, ttl in ((removed, NEVER), (renewed, ALWAYS)):
        state = descriptor(kind, ttl)
        for view in run(backend.at(0), state, MANY):
            write(view, kind, 7)
        for view in run(backend.at(60), state, MANY[10:] * 2):
            assert read(view, kind) == SEVEN[kind]
        for number, view in enumerate(run(backend.at(120), state, MANY)):
            assert read(view, kind) == (SEVEN[kind] if backend is renewed and number >= 10 else None)
    assert removed.entries(kind) == 0
    assert renewed.entries(kind) == 10
    assert read(renewed.restored().at(219).of("15", descriptor(kind, ALWAYS)), kind) == SEVEN[kind]


@each_kind
def test_a_run_writes_to_an_expired_entry_and_reads_it_again(kind: str) -> None:
    state, backend = descriptor(kind, NEVER), Backend()
    for view in run(backend, state, MANY):
        write(view, kind, 5)
    backend.at(120)
    for view in run(backend, state, MANY):
        write(view, kind, 7)
        assert read(view, kind) == SEVEN[kind]
    assert [read(backend.at(219).of(key, state), kind) for key in MANY] == [SEVEN[kind]] * 20


def batch(backend: Backend, state: Any, keys: list[str]) -> Any:
    return TtlBatchState(backend.heap.table(state), pa.array(keys))  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "both"), [("value", 2), ("list", [1, 2]), ("reducing", 3)])
def test_a_batch_sees_removes_and_renews_entries(kind: str, both: Any) -> None:
    removed, renewed = Backend(), Backend()
    keys = ["a", "b", "a", "new"]
    for backend, ttl in ((removed, NEVER), (renewed, ALWAYS)):
        state = descriptor(kind, ttl)
        write(backend.at(0).of("a", state), kind, 7)
        write(backend.of("b", state), kind, 7)
        assert batch(backend.at(60), state, ["b", "b"]).get().to_pylist() == [SEVEN[kind]] * 2
        found = batch(backend.at(120), state, keys).get().to_pylist()
        assert found == [None, SEVEN[kind] if backend is renewed else None, None, None]
        assert backend.entries(kind) == (1 if backend is renewed else 0)
        written = batch(backend.at(300), state, ["a", "b", "a"])
        numbers = pa.array([1, 7, 2])
        written.update(numbers) if kind == "value" else written.add(numbers)
        found = batch(backend.at(399), state, keys).get().to_pylist()
        assert found == [both, SEVEN[kind], both, None]


def test_what_a_batch_adds_renews_an_entry() -> None:
    state, backend = descriptor("reducing", NEVER), Backend()
    for at in (0, 60):
        batch(backend.at(at), state, ["a", "b", "a"]).add(pa.array([1, 2, None], pa.int64()))
    assert batch(backend.at(159), state, ["a", "b"]).get().to_pylist() == [2, 4]
    assert batch(backend.at(160), state, ["a", "b"]).get().to_pylist() == [None, None]


@pytest.mark.parametrize("kind", ["value", "list", "reducing"])
def test_a_batch_may_be_returned_what_has_expired(kind: str) -> None:
    state, backend = descriptor(kind, RETURNED), Backend()
    for key in "ab":
        write(backend.of(key, state), kind, 7)
    assert batch(backend.at(120), state, ["a", "a"]).get().to_pylist() == [SEVEN[kind]] * 2
    assert batch(backend, state, ["a", "b"]).get().to_pylist() == [None, SEVEN[kind]]


@pytest.mark.parametrize("kind", ["value", "list", "reducing"])
def test_each_row_of_a_batch_is_an_access_that_checks_other_entries(kind: str) -> None:
    state, backend = descriptor(kind, config(cleanup_size=2)), Backend()
    for key in MANY:
        write(backend.of(key, state), kind, 7)
    batch(backend.at(120), state, ["x", "y", "x"]).get()
    assert backend.entries(kind) == 14
    batch(backend, state, ["x", "y"]).get()
    assert backend.entries(kind) == 10
    rows = batch(backend, state, ["x", "y"])
    rows.update(pa.array([1, 2])) if kind == "value" else rows.add(pa.array([1, 2]))
    assert backend.entries(kind) == 8, "four are gone, two are new"


@each_kind
def test_what_a_read_changes_does_not_change_a_snapshot(kind: str) -> None:
    backend, state = Backend(), descriptor(kind, ALWAYS)
    for key in "ab":
        write(backend.of(key, state), kind, 7)
    snapshot = backend.heap.snapshot()
    assert snapshot is not None
    read(backend.at(50).of("a", state), kind)
    if kind == "map":
        backend.of("b", state).get("k7")
    read(backend.at(149).of("b", state), kind)
    table = KeyedStateFile(snapshot.encode()[0], "file")
    rows = [
        row for group, offset in enumerate(snapshot.encode()[1]) if offset >= 0 for row in _rows(table, group, offset)
    ]
    times = [each["last_access"] for each in rows]
    assert len(times) == 2
    assert {str(time) for time in times} == {str(times[0])}, "both are of the write"


def _rows(file: KeyedStateFile, group: int, offset: int) -> list[dict[str, Any]]:
    return [row for _, rows in file.key_group(group, offset) for row in rows.to_pylist()]


# --- lists and maps ---------------------------------------------------------------------------------------------------


def test_the_elements_of_a_list_expire_one_by_one() -> None:
    state, backend = descriptor("list", NEVER), Backend()
    for at, element in ((0, 1), (50, 2), (50, 3)):
        backend.at(at).of("a", state).add(element)
    assert backend.at(120).of("a", state).get() == [2, 3]
    (held,) = backend.heap.tables["list"].get(backend.heap.tables["list"].entries()).to_pylist()
    assert held == [1, 2, 3], "as in Flink, expired elements are left until all have expired"
    backend.of("a", state).add(4)
    assert backend.at(155).restored().of("a", state).get() == [4]


def test_a_read_that_renews_a_list_removes_its_expired_elements() -> None:
    state, backend = descriptor("list", ALWAYS), Backend()
    for at, element in ((0, 1), (50, 2)):
        backend.at(at).of("a", state).add(element)
    assert backend.at(120).of("a", state).get() == [2]
    (held,) = backend.heap.tables["list"].get(backend.heap.tables["list"].entries()).to_pylist()
    assert held == [2]
    assert backend.at(219).restored().of("a", state).get() == [2]


def test_the_entries_of_a_map_expire_one_by_one() -> None:
    state, backend = descriptor("map", NEVER), Backend()
    backend.of("a", state).put_all({"x": 1, "y": None})
    backend.at(50).of("a", state).put("z", 3)
    backend.at(60).of("a", state).put("y", 2)
    found = backend.at(120).restored().of("a", state)
    assert not found.is_empty()
    assert [found.contains(key) for key in "xyz"] == [False, True, True]
    assert found.keys() == ["y", "z"]
    assert found.values() == [2, 3]
    assert found.get("x") is None
    found = backend.at(155).of("a", state)
    assert found.items() == [("y", 2)]
    found = backend.at(160).of("a", state)
    assert not found.is_empty(), "as in Flink, an expired entry counts until it is removed"
    assert found.get("y") is None
    assert found.is_empty()
    assert backend.entries("map") == 0


def test_a_read_renews_the_read_entries_of_a_map_only() -> None:
    state, backend = descriptor("map", ALWAYS), Backend()
    backend.of("a", state).put_all({"x": 1, "y": 2, "z": None})
    assert backend.at(50).of("a", state).get("y") == 2
    assert backend.of("a", state).contains("z")
    assert backend.at(120).of("a", state).items() == [("y", 2), ("z", None)]
    backend.at(200).of("a", state).remove("z")
    assert backend.at(219).of("a", state).keys() == ["y"]


# --- cleanup ----------------------------------------------------------------------------------------------------------


@each_kind
def test_a_snapshot_leaves_expired_entries_out_but_keeps_them_in_memory(kind: str) -> None:
    state = descriptor(kind, config(cleanup_full_snapshot=True))
    backend = Backend()
    for number in range(20):
        write(backend.at(0).of(f"old {number}", state), kind, 7)
        write(backend.at(50).of(f"new {number}", state), kind, 7)
    after = backend.at(120).restored()
    assert backend.entries(kind) == 40
    assert after.entries(kind) == 20
    assert read(after.at(99).of("old 3", state), kind) is None, "it was left out, even if time went back"
    assert read(after.of("new 3", state), kind) == SEVEN[kind]
    assert backend.at(150).heap.snapshot() is None, "nothing is left to write"
    kept = Backend()
    write(kept.of("a", descriptor(kind, NEVER)), kind, 7)
    assert kept.at(120).restored().entries(kind) == 1


def test_a_snapshot_leaves_out_expired_parts_of_lists_and_maps() -> None:
    listed, mapped = (descriptor(kind, config(cleanup_full_snapshot=True)) for kind in ("list", "map"))
    backend = Backend()
    for at, number in ((0, 1), (50, 2)):
        backend.at(at).of("a", listed).add(number)
        backend.of("a", mapped).put(f"k{number}", number)
    after = backend.at(120).restored().at(99)
    assert after.of("a", listed).get() == [2]
    assert after.of("a", mapped).items() == [("k2", 2)]
    assert backend.at(99).of("a", listed).get() == [1, 2]


@each_kind
def test_records_clean_up_the_whole_state(kind: str) -> None:
    state = descriptor(kind, config(cleanup_size=5, cleanup_for_every_record=True))
    backend = Backend()
    for number in range(60):
        write(backend.of(f"{number}", state), kind, 7)
    backend.at(120)
    for record in range(6):
        backend.heap.set_current_key("another")
        assert backend.entries(kind) == 60 - 5 * (record + 1)
    for _ in range(6):
        backend.heap.set_current_key("another")
    assert backend.entries(kind) == 0


@each_kind
def test_each_access_checks_other_entries_in_turn(kind: str) -> None:
    state = descriptor(kind, config(cleanup_size=3))
    backend = Backend()
    for number in range(12):
        write(backend.at(60 if number % 4 else 0).of(f"{number}", state), kind, 7)
    backend.at(120)
    backend.heap.set_current_key("0")
    assert backend.entries(kind) == 12, "a record alone cleans nothing"
    left = []
    for _ in range(4):
        read(backend.of("another", state), kind)
        left.append(backend.entries(kind))
    assert left[0] >= 11, "an access checks three entries"
    assert left[-1] == 9, "four of them check all twelve"
    assert [read(backend.of(f"{n}", state), kind) is None for n in range(5)] == [True, False, False, False, True]


@each_kind
def test_a_run_checks_other_entries_for_all_its_keys(kind: str) -> None:
    state = descriptor(kind, config(cleanup_size=1))
    backend = Backend()
    for number in range(40):
        write(backend.of(f"{number}", state), kind, 7)
    backend.at(120)
    view = backend.heap.state(state)
    keys = pa.array([f"new {number}" for number in range(30)])
    for _ in backend.heap.in_turn(keys):
        write(view, kind, 7)
    assert backend.entries(kind) == 40, "30 of 40 are gone, and 30 are new"
    assert [read(backend.of(f"new {n}", state), kind) for n in range(30)] == [SEVEN[kind]] * 30


def test_cleanup_removes_expired_parts_of_lists_and_maps() -> None:
    listed, mapped = (descriptor(kind, config(cleanup_size=5)) for kind in ("list", "map"))
    backend = Backend()
    for at, number in ((0, 1), (50, 2)):
        backend.at(at).of("a", listed).add(number)
        backend.of("a", mapped).put(f"k{number}", number)
    backend.at(120)
    backend.of("another", listed).get()
    backend.of("another", mapped).get("x")
    for name, left in (("list", [2]), ("map", [("k2", 2)])):
        table = backend.heap.tables[name]
        assert table.get(table.entries()).to_pylist() == [left]


# --- restore ----------------------------------------------------------------------------------------------------------


@each_kind
def test_a_rescale_keeps_values_with_their_times(kind: str) -> None:
    state = descriptor(kind, NEVER)
    ranges = [key_group_partitions(MAXIMUM, parallelism) for parallelism in (3, 2)]
    before = [Backend(groups=groups) for groups in ranges[0]]
    for backend in before[1:]:
        backend.clock = backend.heap._context._clock = before[0].clock
    for number in range(30):
        key = f"{number}"
        owner = before[assign_key_to_parallel_operator(key, MAXIMUM, 3, pa.string())]
        write(owner.at(number).of(key, state), kind, 7)
    after = [restored(before, groups) for groups in ranges[1]]
    for number in range(30):
        key = f"{number}"
        owner = after[assign_key_to_parallel_operator(key, MAXIMUM, 2, pa.string())]
        assert read(owner.at(114).of(key, state), kind) == (SEVEN[kind] if number > 14 else None), key


@each_kind
def test_ttl_can_be_switched_on_with_state(kind: str) -> None:
    before, state = descriptor(kind, None), descriptor(kind, NEVER)
    backend = Backend()
    for key in "ab":
        write(backend.of(key, before), kind, 7)
    after = backend.at(1_000).restored()
    assert read(after.at(1_020).of("a", state), kind) == SEVEN[kind]
    assert after.entries(kind) == 2
    again = after.restored()
    assert read(again.at(1_119).of("b", state), kind) == SEVEN[kind]
    assert read(again.at(1_120).of("b", state), kind) is None


@each_kind
@pytest.mark.parametrize("is_registered", [False, True])
def test_ttl_can_be_switched_off_as_from_flink_2_2_on(kind: str, is_registered: bool) -> None:
    before, state = descriptor(kind, NEVER), descriptor(kind, None)
    backend = Backend()
    for key in "ab":
        write(backend.of(key, before), kind, 7)
    after = Backend(backend.clock)
    if is_registered:
        after.heap.table(state)
    after.heap.restore(part(backend.heap))
    assert read(after.at(1_000).of("a", state), kind) == SEVEN[kind], "expired entries live on"
    assert read(after.restored().of("b", descriptor(kind, None)), kind) == SEVEN[kind]


OLD, NEW = pa.struct([("n", pa.int32())]), pa.struct([("n", pa.int64()), ("note", pa.string())])


@pytest.mark.parametrize(("before", "after"), [(NEVER, NEVER), (None, NEVER), (NEVER, None)])
@pytest.mark.parametrize("is_registered", [False, True])
def test_the_type_of_values_with_ttl_evolves(before: Any, after: Any, is_registered: bool) -> None:
    backend = Backend()
    for at, key in ((0, "a"), (60, "b")):
        backend.at(at).of(key, ValueStateDescriptor("value", OLD, ttl=before)).update({"n": 7})
        backend.of(key, ListStateDescriptor("list", OLD, before)).add({"n": at})
    value, listed = ValueStateDescriptor("value", NEW, ttl=after), ListStateDescriptor("list", NEW, after)
    newer = Backend(backend.clock)
    if is_registered:
        newer.heap.table(value), newer.heap.table(listed)
    newer.heap.restore(part(backend.heap))
    assert newer.at(120).of("b", value).value() == {"n": 7, "note": None}
    assert newer.of("b", listed).get() == [{"n": 60, "note": None}]
    is_expired = before is not None and after is not None
    assert newer.of("a", value).value() == (None if is_expired else {"n": 7, "note": None})
    assert newer.of("a", listed).get() == ([] if is_expired else [{"n": 0, "note": None}])


@each_kind
def test_files_with_and_without_ttl_are_restored_together(kind: str) -> None:
    """After TTL was switched on, a subtask that has not used the state writes it as it was."""
    ranges = key_group_partitions(MAXIMUM, 2)
    before = [Backend(groups=groups) for groups in ranges]
    states = descriptor(kind, None), descriptor(kind, NEVER)
    for number in range(20):
        owner = assign_key_to_parallel_operator(f"{number}", MAXIMUM, 2, pa.string())
        write(before[owner].of(f"{number}", states[owner]), kind, 7)
    for order in (before, before[::-1]):
        order[0].at(1_000)
        after = restored(order, KeyGroupRange(0, MAXIMUM - 1))
        for number in range(20):
            owner = assign_key_to_parallel_operator(f"{number}", MAXIMUM, 2, pa.string())
            found = read(after.at(1_050).of(f"{number}", states[1]), kind)
            assert found == (SEVEN[kind] if owner == 0 else None)


@each_kind
def test_state_that_is_restored_and_not_used_keeps_its_times(kind: str) -> None:
    state, backend = descriptor(kind, config(cleanup_full_snapshot=True)), Backend()
    for at, key in ((0, "a"), (30, "b")):
        write(backend.at(at).of(key, state), kind, 7)
    after = backend.at(90).restored().at(500).restored()
    assert after.entries(kind) == 2
    assert read(after.at(110).of("a", state), kind) is None
    assert read(after.of("b", state), kind) == SEVEN[kind]


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"time_to_live_ms": 0}, "StateTtlConfig: time_to_live_ms = 0: expected 1 or more"),
        ({"time_to_live_ms": "soon"}, "time_to_live_ms = 'soon': expected"),
        ({"time_to_live_ms": 1, "update_type": "never"}, "'on_create_and_write' or 'on_read_and_write'"),
        ({"time_to_live_ms": 1, "state_visibility": None}, "state_visibility = None: expected 'never_return_expired'"),
        ({"time_to_live_ms": 1, "cleanup_size": -1}, "cleanup_size = -1: expected"),
        ({"time_to_live_ms": 1, "cleanup_full_snapshot": 1}, "cleanup_full_snapshot = 1: expected True or False"),
    ],
)
def test_wrong_settings_are_rejected(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        StateTtlConfig(**settings)


def test_a_ttl_is_written_as_any_duration() -> None:
    assert StateTtlConfig("1min") == StateTtlConfig(60_000) != StateTtlConfig("1s")


def test_a_descriptor_rejects_what_is_no_ttl_and_a_default() -> None:
    with pytest.raises(StateDescriptorError, match=r"ttl is '1h', expected a StateTtlConfig, such as"):
        ValueStateDescriptor("n", pa.int64(), ttl="1h")  # type: ignore[arg-type]
    with pytest.raises(StateDescriptorError, match="has a TTL and the default 0"):
        ValueStateDescriptor("n", pa.int64(), 0, NEVER)


def test_flinks_names_are_explained() -> None:
    with pytest.raises(AttributeError, match=r"write StateTtlConfig\('1h'\) and pass it to a descriptor"):
        StateTtlConfig.new_builder  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match=r"ValueStateDescriptor\('seen', pa.bool_\(\), ttl=\.\.\.\)"):
        ValueStateDescriptor("n", pa.int64()).enable_time_to_live  # type: ignore[attr-defined]  # noqa: B018


def test_two_ttls_of_one_state_are_rejected() -> None:
    backend = Backend()
    backend.of("a", descriptor("value", NEVER)).update(7)
    for other, found in ((ALWAYS, "on_read_and_write"), (None, "no TTL")):
        with pytest.raises(StateDescriptorError, match=f"State 'value' was registered with .*requested with .*{found}"):
            backend.of("a", descriptor("value", other))
    backend.of("a", descriptor("list", None)).add(7)
    with pytest.raises(StateDescriptorError, match="registered with no TTL, and is requested with"):
        backend.of("a", descriptor("list", NEVER))


def test_a_backend_without_a_clock_rejects_state_with_ttl() -> None:
    backend = HeapKeyedStateBackend(pa.string(), KeyGroupRange(0, 127), 128)
    backend.set_current_key("a")
    with pytest.raises(StateError, match="needs a clock"):
        backend.state(descriptor("value", NEVER)).update(7)


def test_operator_state_has_no_ttl() -> None:
    store = OperatorStateStore()
    with pytest.raises(StateDescriptorError, match="only keyed state expires"):
        store.list_state(ListStateDescriptor("n", pa.int64(), NEVER))
    with pytest.raises(StateDescriptorError, match="only keyed state expires"):
        store.broadcast_state(MapStateDescriptor("n", pa.string(), pa.int64(), NEVER))


def test_entries_with_ttl_do_not_merge() -> None:
    backend = Backend()
    table = backend.heap.table(descriptor("reducing", NEVER), pa.int64())
    with pytest.raises(StateDescriptorError, match="entries with a TTL do not merge"):
        table.merge(table.slots(pa.array(["a"]), pa.array([1])), table.slots(pa.array(["a"]), pa.array([2])))
