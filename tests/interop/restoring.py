"""Savepoints restored by Flink to changed jobs, and the kit's verdict before: `restore_cases.CASES`.

`make interop` runs every case with Flink. `python -m tests.interop.restoring` also saves the savepoints and Flink's
outcomes to tests/data/flink_restores, which `tests/restore_check/test_agrees_with_flink.py` reads.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import kit
from kit.restore_check import RestoreCheck
from kit.stream.graph.hashing import operator_id_of_uid
from scripts.flink import VERSION, fetch, run_java
from tests.interop.restore_cases import CASES, Case

SOURCE = Path(__file__).with_name("RestoreCases.java")
SAVED = Path(__file__).resolve().parents[1] / "data" / "flink_restores"
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx1500m")


def job_text(text: str) -> str:
    """Return a job as Java reads it."""
    return text.replace("HASH_OF_a", operator_id_of_uid("a"))


def settings(job: str) -> dict[str, str]:
    """Return the settings of a job, without its classes."""
    return dict(each.split("=", 1) for each in job.partition(" | ")[0].split() if each[0] in "pm" and "=" in each)


def run_with_flink(folder: Path, cases: Iterable[Case] = CASES) -> list[dict[str, Any]]:
    """Let Flink take all savepoints below `folder` and restore them; return a row for each case."""
    cases = list(cases)
    jobs = {job_text(each) for case in cases for each in (case.before, case.after)}
    names = {job: f"{number:03}" for number, job in enumerate(sorted(jobs))}
    lines = "".join(f"save\t{name}\t{folder}/{name}\t{job}\n" for job, name in names.items())
    with tempfile.TemporaryDirectory(prefix="restores-") as work:
        paths = {each["name"]: each["path"] for each in _answers(lines, work)}
        lines = "".join(
            f"restore\t{case.name}\t{paths[names[job_text(case.before)]]}\t{job_text(case.after)}\t"
            f"{'allow' if case.allow else '-'}\n"
            for case in cases
        )
        outcomes = {each["case"]: each for each in _answers(lines, work)}
        for name, path in paths.items():
            shutil.copytree(path, folder / "savepoints" / name)
            shutil.rmtree(folder / name, ignore_errors=True)
    return [_row(case, names, outcomes[case.name]) for case in cases]


def _answers(lines: str, work: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in run_java(SOURCE, work, lines=lines, options=QUICK).split("\n") if line]
    broken = [each for each in found if "broken" in each or "error" in each]
    if broken:
        raise RuntimeError(f"Flink could not run {len(broken)} of the jobs: {broken[0]}")
    return found


def _row(case: Case, names: Mapping[str, str], outcome: Mapping[str, Any]) -> dict[str, Any]:
    before, after = job_text(case.before), job_text(case.after)
    return {
        "case": case.name,
        "before": names[before],
        "after": names[after],
        "max_parallelism": int(settings(after)["maxp"]) if "maxp" in settings(after) else None,
        "allow": case.allow,
        "is_open": case.is_open,
        "uids": [job_text(each) for each in case.uids],
        "restored": outcome["restored"],
        "flink": outcome["causes"][-1] if outcome["causes"] else "",
        "flink_version": VERSION,
    }


def judged(savepoints: Path, row: Mapping[str, Any]) -> RestoreCheck:
    """Return the kit's verdict; a checkpoint of the newer job, and its settings, stand for that job."""
    before, after = (kit.open_checkpoint(savepoints / row[side]) for side in ("before", "after"))
    if row["uids"]:
        return before.check(dict.fromkeys(row["uids"], 2))
    return before.check(after, max_parallelism=row["max_parallelism"], allow_non_restored_state=row["allow"])


def disagreements(savepoints: Path, rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each case in which the kit and Flink differ."""
    for row in rows:
        answer = judged(savepoints, row)
        if row["is_open"]:
            if not any("no snapshot lists" in each.found for each in answer.findings):
                yield f"{row['case']}: the check does not say that the outcome is open"
        elif answer.restores != row["restored"]:
            yield f"{row['case']}: the check says {answer.verdict!r}; Flink: {row['flink'] or 'it restores'}"


def save(rows: Iterable[Mapping[str, Any]], savepoints: Path) -> None:
    """Write rows and savepoints to tests/data."""
    SAVED.mkdir(parents=True, exist_ok=True)
    (SAVED / "cases.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:xz", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(savepoints.rglob("*")):
            if path.is_file():
                archive.add(path, str(path.relative_to(savepoints)))
    (SAVED / "savepoints.tar.xz").write_bytes(held.getvalue())


def main() -> int:
    fetch()
    with tempfile.TemporaryDirectory(prefix="interop-") as folder:
        rows = run_with_flink(Path(folder))
        found = list(disagreements(Path(folder) / "savepoints", rows))
        save(rows, Path(folder) / "savepoints")
    print("\n".join([*found, f"Flink {VERSION} restored {len(rows)} savepoints: {len(found)} disagreements"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
