"""A Sphinx extension that finds Python's names by their last part.

Sphinx resolves each type in a signature, and compares a name that is not known in full (`int`, `Callable`) with the end
of every documented name. With five thousand names that is a third of the build. Here it compares only those whose last
part is the same, which gives the same result.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sphinx.application import Sphinx
from sphinx.domains.python import ObjectEntry, PythonDomain


class Names(PythonDomain):
    """Sphinx's domain for Python, with an index of names by their last part."""

    _by_last_part: dict[str, dict[str, ObjectEntry]] | None = None
    _alike: dict[str, ObjectEntry] | None = None

    @property
    def objects(self) -> dict[str, ObjectEntry]:
        """All documented names; while one is looked for, those with the same last part."""
        return super().objects if self._alike is None else self._alike

    def find_obj(self, env: Any, modname: str, classname: str, name: str, type: str | None, searchmode: int = 0) -> Any:
        if self._by_last_part is None:
            self._by_last_part = defaultdict(dict)
            for known, entry in super().objects.items():
                self._by_last_part[_last_part(known)][known] = entry
        self._alike = self._by_last_part.get(_last_part(name.removesuffix("()")), {})
        try:
            return super().find_obj(env, modname, classname, name, type, searchmode)
        finally:
            self._alike = None

    def forget(self) -> None:
        """Drop the index: pages have been read."""
        self._by_last_part = None


def _last_part(name: str) -> str:
    return name.rpartition(".")[2]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension with Sphinx."""
    app.add_domain(Names, override=True)
    app.connect("env-updated", lambda app, env: env.get_domain("py").forget())
    return {"parallel_read_safe": True, "parallel_write_safe": True}
