"""The hook with which hatchling puts the course into the wheel (`pyproject.toml` names it)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CourseHook(BuildHookInterface[Any]):
    """Packs the notebooks and the labs when a wheel is built, and not when the project is installed from a checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the pack and add it to the wheel."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        from scripts.handout import write

        pack = Path(self.root) / "build" / "course.zip"
        write(pack)
        build_data["force_include"][str(pack)] = "kit/course/course.zip"
