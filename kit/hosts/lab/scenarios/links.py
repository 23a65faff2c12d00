"""A run of a ready job as a short text, for a link: the job, its seed, and how the run differs from the scheduler's.

    kit1.eNqLVspO...   in a link: https://example.org/course#kit1.eNqLVspO...

Steps that the scheduler takes by itself are only counted. All others are commands of a scenario (docs/SCENARIOS.md), so
opening a link runs no code of its sender.
"""

from __future__ import annotations

import json
import re
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from typing import Any

from kit.core.protocol.words import Word
from kit.hosts.lab.errors import LabError
from kit.hosts.lab.jobs.ready_jobs import job_of, ready_job
from kit.hosts.lab.lab import Lab
from kit.hosts.lab.scenarios.scenario_commands import Scene, carry_out
from kit.hosts.lab.scenarios.scenario_writing import happens_by_itself, line_of
from kit.hosts.lab.world.actions import Action

MARK = "kit1."
LINK = re.compile(rf"{re.escape(MARK)}[\w=-]+")


def link_of(lab: Lab, job: str) -> str:
    """Return the text that reproduces this lab's steps. `job` is its ready job with the settings: `keyed-sum, rows=12`.

    Raises LabError if the run resumed from another lab's, or if the job is another one.
    """
    again = _begun(job, lab.past.seed)
    other = f"repeated, this run takes another course: is the job {job!r} that of {lab!r}?"
    try:
        steps = list(_steps(lab, again))
    except LabError as error:
        raise LabError(other) from error
    if list(again.trace) != list(lab.trace):
        raise LabError(other)
    told = json.dumps([job, lab.past.seed, steps], separators=(",", ":"), ensure_ascii=False)
    return MARK + urlsafe_b64encode(zlib.compress(told.encode(), 9)).decode().rstrip("=")


def job_in(link: str) -> str:
    """Return the ready job of a link with its settings. Raises LabError if the text contains no link."""
    return str(_read(link)[0])


def open_link(link: str) -> Lab:
    """Return a lab that has taken the steps of a link. Raises LabError if the text contains no link."""
    job, seed, steps = _read(link)
    scene = Scene(job)
    scene.labs[:] = [_begun(job, seed)]
    for step in steps:
        if isinstance(step, int):
            for _ in range(step):
                scene.lab.step()
        elif step.startswith("do "):
            scene.lab.step(step.removeprefix("do "))
        else:
            carry_out(scene, step)
    return scene.lab


def _begun(job: str, seed: int) -> Lab:
    name, settings = job_of(job)
    return Lab(ready_job(name, **settings), seed=seed)


def _read(link: str) -> tuple[str, int, list[Any]]:
    found = LINK.search(link)
    if found is None:
        raise LabError(f"{link[:60]!r} contains no run: expected a text that begins with {MARK!r}")
    packed = found[0].removeprefix(MARK)
    try:
        job, seed, steps = json.loads(zlib.decompress(urlsafe_b64decode(packed + "=" * (-len(packed) % 4))))
    except (ValueError, zlib.error) as error:
        raise LabError(f"the run in {found[0][:40]!r}… is incomplete: copy the whole link") from error
    return job, seed, steps


def _steps(lab: Lab, again: Lab) -> Iterator[int | str]:
    """Yield the steps of a lab, which the other lab takes meanwhile: counts of the scheduler's own, and commands."""
    count = 0
    for action in lab.past.actions[again.position :]:
        if _is_chosen(action, again):
            count += 1
            continue
        if count:
            yield count
            count = 0
        again.replay([action])
        yield f"do {action.key}" if happens_by_itself(action) else line_of(action)
    if count:
        yield count


def _is_chosen(action: Action | Word, again: Lab) -> bool:
    """Return True if the scheduler takes this step by itself, and then take it."""
    if not happens_by_itself(action) or not again.enabled():
        return False
    again.step()
    if again.past.last_action == action:
        return True
    again.back()
    return False
