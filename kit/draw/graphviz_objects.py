"""Graphs as objects of the `graphviz` package, drawn with or without Graphviz' own program.

A `Dot` is a `graphviz.Digraph`: a notebook shows it, `.source` is its text, and `.render()` and `.pipe()` draw it. If
the program `dot` is installed, it draws the graph, as in the package. Otherwise the Graphviz library in the wheel of
`pygraphviz` draws it in this process. A notebook shows the drawing in the colours of the theme; a file or an image
keeps the light colours.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any

import graphviz
import pygraphviz

from kit.core.trace.json_lines import file_of
from kit.draw.picture import page_html, recoloured

NOISE = b"Fontconfig"
"""The prefix of the lines that the library's font finder writes about the machine's settings."""


class Dot(graphviz.Digraph):
    """A directed graph in Graphviz' language; `caption` says in words what it shows."""

    def __init__(self, name: str, caption: str = "", **attributes: Any) -> None:
        super().__init__(name, **attributes)
        self.caption = caption or name

    def pipe(
        self, format: str | None = None, *, engine: str | None = None, encoding: str | None = None, **also: Any
    ) -> Any:
        """Return the drawing in this format (default "pdf") as bytes, or as text if an encoding is given.

        Raises ValueError if the graph cannot be drawn; with a program `dot`, the errors of `graphviz`.
        """
        engine, format = engine or self.engine, format or self.format
        if shutil.which(engine) is not None:
            return super().pipe(format=format, engine=engine, encoding=encoding, **also)
        drawn = drawn_in_process(self.source, format, engine)
        return drawn if encoding is None else drawn.decode(encoding)

    def save(self, filename: Any = None, directory: Any = None, *, skip_existing: bool | None = False) -> str:
        """Write the source to `filename` (default `<name>.gv`) and return its path.

        Raises FileNotFoundError when its directory does not exist.
        """
        file_of(Path(directory or self.directory, filename or self.filename))
        return str(super().save(filename, directory=directory, skip_existing=skip_existing))

    def render(
        self,
        filename: Any = None,
        *,
        directory: Any = None,
        format: str | None = None,
        view: bool = False,
        cleanup: bool = False,
        engine: str | None = None,
        **also: Any,
    ) -> str:
        """Write the source to `filename` (default `<name>.gv`) and the drawing beside it; returns the drawing's path.

        Raises ValueError for `view` where no program `dot` is installed.
        """
        engine, format = engine or self.engine, format or self.format
        if shutil.which(engine) is not None:
            places = {"filename": filename, "directory": directory, "view": view, "cleanup": cleanup}
            return str(super().render(**places, format=format, engine=engine, **also))
        if view:
            raise ValueError("view=True opens another program, which needs Graphviz installed; open the returned file")
        drawn = drawn_in_process(self.source, format, engine)
        source = Path(self.save(filename, directory=directory))
        target = Path(f"{source}.{format}")
        target.write_bytes(drawn)
        if cleanup:
            source.unlink()
        return str(target)

    def _repr_mimebundle_(self, *which: Any, **named: Any) -> dict[str, str]:
        forms: dict[str, str] = super()._repr_mimebundle_(*which, **named)
        before, start, drawn = forms.get("image/svg+xml", "").partition("<svg")
        if drawn:
            start = f'{start} role="img" aria-label="{escape(self.caption)}"'
            forms["image/svg+xml"] = f"{before}{start}{drawn}"
            inked = recoloured(f'{start} fill="var(--kit-ink)"{drawn}')
            forms["text/html"] = page_html(inked, self.caption)
        return forms

    def __repr__(self) -> str:
        return f"Dot({self.caption!r})"


def drawn_in_process(source: str, format: str, engine: str = "dot") -> bytes:
    """Draw a graph with the library in this process. Raises ValueError for a source that it cannot read or draw."""
    with _without_font_noise():
        try:
            graph = pygraphviz.AGraph(string=source)
        except Exception as error:
            raise ValueError(f"Graphviz cannot read {source[:80]!r}: {error}") from error
        try:
            return bytes(graph.draw(format=format, prog=engine))
        except Exception as error:
            raise ValueError(f"Graphviz cannot draw the format {format!r} with {engine!r}: {error}") from error
        finally:
            graph.close()


@contextmanager
def _without_font_noise() -> Iterator[None]:
    """Drop the C library's lines about the machine's fonts; pass on everything else that it writes."""
    sys.stderr.flush()
    try:
        kept = os.dup(2)
    except OSError:  # no standard error
        yield
        return
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            said.seek(0)
            for line in said:
                if not line.startswith(NOISE):
                    os.write(kept, line)
            os.close(kept)
