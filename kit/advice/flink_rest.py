"""The checkpoints of a job that Flink runs, as its REST API tells them, live or saved.

A saved job is one JSON file: an object with the answer of each path below `/jobs/<id>`, "" for the job itself. It holds
figures only, no data, so it can be attached to a ticket and read elsewhere.

Flink: `CheckpointingStatistics`, `CheckpointStatistics`, `TaskCheckpointStatisticsWithSubtaskDetails` and
`CheckpointConfigInfo` of `org.apache.flink.runtime.rest.messages`.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from kit.advice.figures import SETTINGS, CheckpointFigures, tables

TIMEOUT_S = 30.0
_ASK = "give the URL of a job, like http://localhost:8081/jobs/<id>, or a file in which such answers were saved"


class FlinkRestError(ValueError):
    """The answer is missing, or is not Flink's answer about checkpoints."""


def read_flink(place: str | PathLike[str]) -> CheckpointFigures:
    """Read the checkpoints of a job, from its URL or from a saved file. Raises FlinkRestError.

    The URL is that of a job, `http://localhost:8081/jobs/<id>`; of a cluster with one job, the cluster's will do. Only
    the checkpoints that Flink remembers are there (`web.checkpoints.history`, 10 by default).
    """
    return _figures(_answers(place))


def save_flink(place: str, path: str | PathLike[str]) -> Path:
    """Save what `read_flink` reads from a URL as one JSON file, and return its path. Raises FlinkRestError."""
    target = Path(path)
    answers = _answers(place)
    _figures(answers)  # what cannot be read is not saved
    target.write_text(json.dumps(answers, separators=(",", ":")) + "\n", encoding="utf-8")
    return target


# --- answers ----------------------------------------------------------------------------------------------------------


def _answers(place: str | PathLike[str]) -> Mapping[str, Any]:
    where = fspath(place)
    if where.startswith(("http://", "https://")):
        return _collect(_job_url(where.rstrip("/")))
    try:
        found = json.loads(Path(where).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FlinkRestError(f"{where} cannot be read as saved figures: {error}; {_ASK}") from error
    if not isinstance(found, dict) or "/checkpoints" not in found:
        raise FlinkRestError(f"{where} has no answer for /checkpoints; {_ASK}")
    return found


def _job_url(where: str) -> str:
    """Return the URL of the job: the only one of a cluster if the URL names none."""
    if "/jobs/" in where:
        return where
    base = where.removesuffix("/jobs")
    jobs = [job["id"] for job in _get(f"{base}/jobs").get("jobs", ())]
    if len(jobs) != 1:
        raise FlinkRestError(f"{base} has {len(jobs)} jobs, expected one: {', '.join(jobs) or 'none'}; {_ASK}")
    return f"{base}/jobs/{jobs[0]}"


def _collect(url: str) -> dict[str, Any]:
    job = _get(url)
    answers = {"": {name: job.get(name) for name in ("jid", "name")}}
    answers[""]["vertices"] = [{name: each[name] for name in ("id", "name", "parallelism")} for each in job["vertices"]]
    for path in ("/checkpoints", "/checkpoints/config"):
        answers[path] = _get(url + path)
    for checkpoint in answers["/checkpoints"].get("history", ()):
        detail = f"/checkpoints/details/{checkpoint['id']}"
        for path in (detail, *(f"{detail}/subtasks/{vertex['id']}" for vertex in job["vertices"])):
            try:
                answers[path] = _get(url + path)
            except FlinkRestError:
                continue  # it was forgotten meanwhile
    return answers


def _get(url: str) -> Any:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            return json.load(answer)
    except (OSError, ValueError) as error:
        raise FlinkRestError(f"{url} gave no answer of Flink's REST API: {error}; {_ASK}") from error


# --- figures ----------------------------------------------------------------------------------------------------------


def _figures(answers: Mapping[str, Any]) -> CheckpointFigures:
    try:
        names = {vertex["id"]: vertex["name"] for vertex in answers.get("", {}).get("vertices", ())}
        history = answers["/checkpoints"]["history"]
        checkpoints = [_checkpoint(answers.get(f"/checkpoints/details/{each['id']}", each)) for each in history]
        subtasks = [
            _subtask(each["id"], names.get(vertex, vertex), part)
            for each in history
            for vertex in each.get("tasks") or names
            for part in answers.get(f"/checkpoints/details/{each['id']}/subtasks/{vertex}", {}).get("subtasks", ())
        ]
        config = answers.get("/checkpoints/config", {})
        settings = {name: config[flink] for flink, name in SETTINGS.items() if flink in config}
        return tables(str(answers.get("", {}).get("name") or "job"), checkpoints, subtasks, settings)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise FlinkRestError(f"the answers are not those of Flink's REST API: {error!r}; {_ASK}") from error


def _checkpoint(answer: Mapping[str, Any]) -> dict[str, Any]:
    status = {"IN_PROGRESS": "PENDING"}.get(answer["status"], answer["status"])
    return {
        "checkpoint_id": answer["id"],
        "kind": "SAVEPOINT" if answer["is_savepoint"] else "CHECKPOINT",
        "status": status,
        "duration_ms": answer["end_to_end_duration"],
        "checkpointed_bytes": answer.get("checkpointed_size", answer["state_size"]),
        "full_bytes": answer["state_size"],
        "processed_bytes": answer.get("processed_data"),
        "persisted_bytes": answer.get("persisted_data"),
        "acknowledged": answer["num_acknowledged_subtasks"],
        "subtasks": answer["num_subtasks"],
        "failure": answer.get("failure_message") or "",
    }


def _subtask(checkpoint_id: int, vertex: str, part: Mapping[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {"checkpoint_id": checkpoint_id, "vertex": vertex, "subtask": part["index"]}
    if "checkpoint" not in part:
        return {**row, "status": "missing"}
    alignment = part["alignment"]
    figures = {
        "start_delay_ms": part["start_delay"],
        "alignment_ms": alignment["duration"],
        "sync_ms": part["checkpoint"]["sync"],
        "async_ms": part["checkpoint"]["async"],
        "duration_ms": part["end_to_end_duration"],
        "checkpointed_bytes": part.get("checkpointed_size", part["state_size"]),
        "processed_bytes": alignment.get("processed", 0),
        "persisted_bytes": alignment.get("persisted", 0),
    }
    numbers = {name: None if figure < 0 else figure for name, figure in figures.items()}  # -1: not known
    status = "reported" if part.get("aborted") else "acknowledged"
    return {**row, **numbers, "status": status, "unaligned": part.get("unaligned_checkpoint")}
