"""What a play does to a job's parallelism: commands of `kit.hosts.lab.scenarios.play_commands`."""

from __future__ import annotations

from typing import Protocol

from kit.hosts.lab.errors import LabError
from kit.hosts.lab.lab import Lab


class RescaledScene(Protocol):
    """What the play works on."""

    @property
    def lab(self) -> Lab:
        """The newest lab."""


def rescale(scene: RescaledScene, wanted: str, later: str | None) -> None:
    """Ask for `to 3`, or `letters to 3, sums to 1`; with `later` at the next checkpoint. Raises LabError."""
    given: dict[str, int] | int
    if wanted.startswith("to "):
        given = int(wanted.removeprefix("to "))
    else:
        given = {name: int(number) for name, _, number in (each.partition(" to ") for each in wanted.split(", "))}
    try:
        scene.lab.rescale(given, at_once=later is None)
    except ValueError as error:
        raise LabError(str(error)) from error


def lose_slot(scene: RescaledScene, worker: str) -> None:
    """A worker dies, and its slot is gone."""
    scene.lab.lose_slot(int(worker))


def offer_slots(scene: RescaledScene, slots: str) -> None:
    """There are so many slots."""
    scene.lab.offer_slots(int(slots))
