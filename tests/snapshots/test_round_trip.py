"""Every value in real snapshots, decoded and encoded again: the same bytes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import kit
from kit.snapshots.checkpoints.keyed_parts import KeyGroupsPart, SstPart, parts_of
from kit.snapshots.checkpoints.state_bytes import StateBytes
from kit.snapshots.formats.headers import TIMER, KeyedState
from kit.snapshots.formats.rows import PairDecoder, PairEncoder, Rows, encoded
from kit.snapshots.serializers.reading import NO_DECODERS
from tests.flink_data import value_cases, values
from tests.snapshots.flink_types import cases, operator_cases, savepoints


def again(state: KeyedState, key: bytes, value: bytes, prefix: bytes) -> tuple[bytes, bytes]:
    """Decode a pair, and encode it."""
    rows = Rows(state)
    PairDecoder(state, len(prefix)).add(rows, 0, prefix + key, value)
    ((held, namespace, map_key, found),) = rows.raw()
    encoder = PairEncoder(state)
    if state.kind == TIMER:
        return encoded(state.value, (found, held, namespace)), b""
    return encoder.key(held, namespace, map_key), encoder.value(found)


FULL = [each for each in value_cases() if "canonical" in each[1] or each[1] == "savepoint-native"]


@pytest.mark.parametrize(("version", "case"), FULL)
def test_every_value_is_encoded_as_flink_did(version: str, case: str) -> None:
    compared = encode_all(values(version) / case)
    assert len(compared) > 15
    assert compared.total() > 500


@pytest.mark.parametrize("case", [*cases(), *operator_cases()])
def test_every_type_is_encoded_as_flink_did(case: str) -> None:
    compared = encode_all(savepoints() / case)
    assert len(compared) > 9


def encode_all(folder: Path) -> Counter[str]:
    """Encode every value of a snapshot; give the number by type."""
    checkpoint, case = kit.open_checkpoint(folder), folder.name
    source = StateBytes(checkpoint._source.files, checkpoint.directory)
    compared: Counter[str] = Counter()
    for operator in checkpoint.metadata.operator_states:
        for state in operator.subtask_states.values():
            for part in parts_of(state.managed_keyed_state, (), source, operator.max_parallelism, NO_DECODERS):
                assert isinstance(part, KeyGroupsPart | SstPart)
                if any(each.value.is_opaque for each in part.states.values()) and case == "savepoint-native":
                    continue
                for group in part.groups():
                    for state_, pairs in part.pairs(group):
                        if state_.key.is_opaque or state_.value.is_opaque:
                            continue
                        for key, value in pairs:
                            found = again(state_, key, value, b"\0")
                            null_in_a_map = state_.map_key is not None and value[:1] == b"\1"
                            assert found == (key, b"\1" if null_in_a_map else value), (state_.name, key, value)
                            compared[state_.value.name] += 1
    return compared
