"""Every name in Flink that a reader knows is found in one guess, at the place of its counterpart in the kit."""

from __future__ import annotations

import importlib
from html import unescape
from typing import Any

import pytest

import kit
from kit.course.reading import ARTICLES, article
from kit.glossary import Entry, glossary, places
from scripts.glossary import PAGE, page
from tests.house.files import ROOT

NAMES = (ROOT / "tests" / "data" / "flink_names.txt").read_text(encoding="utf-8").split()
"""What five articles about Flink's checkpointing call things."""


@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_the_articles_has_an_entry(name: str) -> None:
    found = kit.where(name)
    assert [entry.name for entry in found] == [name] * len(found)
    assert len(found) > 0, f"no docstring says what the kit has for Flink's {name}"


def symbol_of(entry: Entry) -> Any:
    """Return the object that the entry points to."""
    thing: Any = importlib.import_module(entry.module)
    for part in filter(None, entry.symbol.split(".")):
        fields = getattr(thing, "__dataclass_fields__", {}) | getattr(thing, "__annotations__", {})
        thing = fields[part] if part in fields and not hasattr(thing, part) else getattr(thing, part)
    return thing


def test_no_entry_is_without_its_symbol_whose_text_names_it() -> None:
    assert len(glossary()) > len(NAMES)
    for entry in glossary():
        symbol_of(entry)
        lines = (ROOT / entry.file).read_text(encoding="utf-8").splitlines()
        assert entry.name in "\n".join(lines[entry.line - 1 :]), entry
        assert entry.symbol.rpartition(".")[2] in lines[entry.line - 1]
        assert entry.says


def test_the_page_is_what_the_docstrings_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m scripts.glossary"


def test_a_class_may_stand_before_the_name() -> None:
    asked = ("SubtaskCheckpointCoordinatorImpl#checkpointState", "SubtaskCheckpointCoordinatorImpl.checkpointState")
    for name in (*asked, "org.apache.flink.SubtaskCheckpointCoordinatorImpl#checkpointState"):
        (entry,) = kit.where(name)
        assert entry.kit == "kit.machines.task.subtask_coordinator.SubtaskCheckpointCoordinator.checkpoint_state"
    assert kit.where("SubtaskCheckpointCoordinatorImpl#takeSnapshotSync")[0].name == "takeSnapshotSync"


def test_what_is_found_shows_itself_in_a_script_and_in_a_notebook() -> None:
    found = kit.where("takeSnapshotSync")
    entry = found[0]
    assert f"{entry.kit} ({entry.file}:{entry.line})" in repr(found)
    assert entry.says in repr(found)
    assert entry.says in unescape(found._repr_html_())


def test_a_name_that_is_not_known_tells_what_is_near() -> None:
    for wrong in ("takeSnapshotsSync", "takesnapshotsync", "SubtaskCheckpointCoordinatorImpl#takeSnapshotSinc"):
        found = kit.where(wrong)
        assert len(found) == 0
        assert "takeSnapshotSync" in found.nearest
        for text in (repr(found), unescape(found._repr_html_())):
            assert f"the kit has nothing that it calls Flink's {wrong!r}: did you mean " in text
    assert repr(kit.where("xyzzy")).endswith("docs/GLOSSARY.md lists all names")


def test_the_kits_own_names_are_found_too() -> None:
    assert "checkpointState" in {entry.name for entry in kit.where("checkpoint_state")}


SHARED = ("InputChannel", "InputGate", "ResultSubpartition", "CheckpointStartRequest", "AlignmentType")


@pytest.mark.parametrize("name", SHARED)
def test_a_name_that_the_kit_shares_with_flink_needs_no_sentence(name: str) -> None:
    found = kit.where(name)
    assert {entry.symbol.rpartition(".")[2] for entry in found} == {name}
    for entry in found:
        assert symbol_of(entry).__doc__


def test_a_method_of_a_shared_class_is_found_in_that_class_alone() -> None:
    assert [entry.kit for entry in kit.where("InputChannel#receive")] == [
        "kit.machines.channel.input_channel.InputChannel.receive"
    ]
    assert len(kit.where("receive")) > 1


@pytest.mark.parametrize(
    "name", ["PipelineExecutor#execute", "org.apache.flink.core.execution.PipelineExecutor.execute"]
)
def test_of_a_method_that_is_not_known_the_class_is_found(name: str) -> None:
    assert kit.where(name)[0] == kit.where("PipelineExecutor")[0]
    assert kit.where("InputGate#noSuchMethod")[0] == kit.where("InputGate")[0]
    assert not kit.where("NoSuchClass#execute")


def test_an_articles_names_become_a_table() -> None:
    found = places("CheckpointCoordinator#initializeCheckpoint xyzzy\n  SequentialChannelStateReader")
    assert [name for name, _ in found] == [
        "CheckpointCoordinator#initializeCheckpoint",
        "xyzzy",
        "SequentialChannelStateReader",
    ]
    assert found[0][1] == kit.where("initializeCheckpoint")[0]
    assert found[1][1] is None
    first, unknown, last = repr(found).splitlines()
    assert first.endswith("  CheckpointTrigger.on_id_allocated  kit/machines/coordinator/triggering.py")
    assert unknown.endswith("  nothing of that name")
    assert last.endswith("  kit/machines/channel/channel_state/channel_state_reader.py")
    assert ">CheckpointTrigger.on_id_allocated</td>" in found._repr_html_().replace("<wbr>", "")


@pytest.mark.parametrize("letter", ARTICLES)
def test_the_kit_has_every_name_of_the_articles(letter: str) -> None:
    assert [name for name, entry in article(letter) if entry is None] == []


def test_an_article_that_there_is_not_is_told() -> None:
    with pytest.raises(ValueError, match="no article 'F': there are A, B, C, D, E"):
        article("F")
