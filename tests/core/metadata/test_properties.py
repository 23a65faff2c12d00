"""Checkpoint properties: the bytes Flink writes for each kind of checkpoint and savepoint, and back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kit.core.metadata import CheckpointMetadata, read_metadata, write_metadata
from kit.core.protocol.properties import (
    CheckpointProperties,
    CheckpointType,
    PostCheckpointAction,
    RetentionPolicy,
    SavepointFormatType,
    SavepointType,
    SharingFilesStrategy,
)
from tests.core.metadata.truth import describe
from tests.flink_data import HERE

WITHOUT = len(write_metadata(CheckpointMetadata(1))) - len(bytes.fromhex("aced000570"))

TEMPLATES: dict[str, dict[str, Any]] = json.loads((HERE / "checkpoint-properties.json").read_text())

KINDS = {
    "checkpoint-retain-on-cancellation": CheckpointProperties.for_checkpoint(RetentionPolicy.RETAIN_ON_CANCELLATION),
    "savepoint-canonical": CheckpointProperties.for_savepoint(forced=True),
    "savepoint-native": CheckpointProperties.for_savepoint(forced=True, fmt=SavepointFormatType.NATIVE),
    "stop-with-savepoint-suspend": CheckpointProperties.for_sync_savepoint(forced=True, terminate=False),
    "stop-with-savepoint-drain": CheckpointProperties.for_sync_savepoint(forced=True, terminate=True),
}


def test_every_template_has_a_kind() -> None:
    assert KINDS.keys() == TEMPLATES.keys()


@pytest.mark.flink("MetadataV4SerializerTest.testSerializeProperties")
@pytest.mark.parametrize("kind", KINDS)
def test_the_bytes_are_those_flink_writes(kind: str) -> None:
    written = write_metadata(CheckpointMetadata(1, properties=KINDS[kind]))
    assert written[WITHOUT:].hex() == TEMPLATES[kind]["hex"]


@pytest.mark.parametrize("kind", KINDS)
def test_flinks_bytes_are_read_as_what_they_mean(kind: str) -> None:
    head = write_metadata(CheckpointMetadata(1))[:WITHOUT]
    metadata, _ = read_metadata(head + bytes.fromhex(TEMPLATES[kind]["hex"]), "")
    assert metadata.properties == KINDS[kind]
    said = describe(metadata)["checkpointProperties"]
    meant = TEMPLATES[kind]["decoded"]
    assert {name: said[name] for name in said if name != "checkpointType"} == {
        name: value for name, value in meant.items() if name not in ("class", "suid", "checkpointType")
    }


@pytest.mark.flink("CheckpointPropertiesTest.testIsSavepoint")
@pytest.mark.parametrize(
    "kind",
    [
        *(CheckpointType(name, sharing) for name in ("Checkpoint", "Näme 🧀") for sharing in SharingFilesStrategy),
        *(SavepointType("S", action, form) for action in PostCheckpointAction for form in SavepointFormatType),
    ],
)
def test_every_snapshot_type_is_carried(kind: CheckpointType | SavepointType) -> None:
    properties = CheckpointProperties(kind, unclaimed=True)
    metadata, _ = read_metadata(write_metadata(CheckpointMetadata(1, properties=properties)), "")
    assert metadata.properties == properties
    assert metadata.properties.is_savepoint is isinstance(kind, SavepointType)


def test_no_properties_are_none() -> None:
    metadata, _ = read_metadata(write_metadata(CheckpointMetadata(1)), "")
    assert metadata.properties is None
