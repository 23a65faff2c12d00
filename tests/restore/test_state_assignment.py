"""State assignment against what Flink answers, subtask by subtask."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kit.restore.errors import RestoreError
from kit.restore.state_assignment import assign_states
from tests.flink_data import vectors
from tests.restore import build

FILES = (
    "assign_plain",
    "assign_error",
    "assign_finished",
    "assign_channels",
    "assign_channels_real",
    "assign_channels_topo",
    "assign_big",
)
JAVAS_NAME_OF_A_VERTEX = re.compile(r"org\.apache\.flink\S+ExecutionJobVertex@<hash>|(?<=for task )[0-9a-f]{32}")


def outcome(row: build.Row) -> dict[str, Any]:
    try:
        assignment = assign_states(
            build.vertices(row),
            build.edges(row),
            build.operator_states(row),
            row["restore_checkpoint_id"],
            allow_non_restored_state=row["allow_non_restored_state"],
            recover_output_on_downstream=row["recover_output_on_downstream"],
        )
    except RestoreError as error:
        return {"error": (error.flink_class, vertex_names_out(error.flink_message, row))}
    restores = {
        (vertex, subtask): build.unordered(build.restore(assignment, vertex, subtask))
        for vertex, subtasks in enumerate(assignment.restores)
        for subtask in range(len(subtasks))
    }
    return {"vertices": [(v.parallelism, v.max_parallelism) for v in assignment.vertices], "restores": restores}


def vertex_names_out(message: str | None, row: build.Row) -> str:
    for vertex in row["vertices"]:
        message = re.sub(
            rf"(?<=for task ){vertex['name']}\b|(?<=job vertex ){vertex['name']}\b", "<vertex>", message or ""
        )
    return message or ""


def expected(answer: build.Row) -> dict[str, Any]:
    if answer["error"]:
        message = JAVAS_NAME_OF_A_VERTEX.sub("<vertex>", answer["error"]["message"])
        return {"error": (answer["error"]["class"], message)}
    return {
        "vertices": [(v["parallelism"], v["max_parallelism"]) for v in answer["vertices_after"]],
        "restores": {(t["vertex"], t["subtask"]): build.unordered(t["restore"]) for t in answer["tasks"]},
    }


@pytest.mark.parametrize("file", FILES)
def test_every_vector(file: str) -> None:
    for row in vectors(file):
        found = outcome(row)
        answers = [expected(answer) for answer in row.get("alternatives", [row])]
        assert found in answers, f"{file} {row['id']}"
