"""The action with which a user of the lab deletes a savepoint. It never happens by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from kit.hosts.lab.world.actions import Action, Group


@dataclass(frozen=True, slots=True, repr=False)
class DisposeSavepoint(Action):
    """A savepoint is deleted: its `_metadata` and its files."""

    path: str

    group: ClassVar = Group.FILES
    verb: ClassVar = "dispose"
    pattern: ClassVar = "dispose of the savepoint {path}"

    def perform(self, world: Any) -> None:
        world.edge.dispose(self.path, world.master.checkpoints.store.in_use)
