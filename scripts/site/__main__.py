"""Put the site's source together in `build/docs/source`, build it into `build/docs/html`, and follow its links.

    python -m scripts.site [--only-check]

What people write is in `docs/site/` (the guide, the settings of Sphinx) and `notebooks/`; all else is made from the kit
itself. A warning of Sphinx's ends it, and so does a link that leads nowhere, or a page that asks another host for
anything.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

from sphinx.cmd.build import build_main

from kit.draw.assets import asset
from scripts.site import api, links, notebooks, pages
from scripts.site.api import ROOT

BUILD = ROOT / "build" / "docs"
SOURCE, RUNS, HTML = BUILD / "source", BUILD / "runs", BUILD / "html"
WRITTEN = ROOT / "docs" / "site"


def write(name: str, text: str) -> None:
    """Write a page of the source; one that is as it was is left alone, for Sphinx builds only what changed."""
    path = SOURCE / name
    path.parent.mkdir(parents=True, exist_ok=True)
    _made.add(path)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


_made: set[Path] = set()


def put_together() -> None:
    """Write the whole source."""
    RUNS.mkdir(parents=True, exist_ok=True)
    for path in sorted(WRITTEN.rglob("*")):
        if path.is_file() and path.suffix in (".md", ".py", ".css"):
            write(path.relative_to(WRITTEN).as_posix(), path.read_text(encoding="utf-8"))
    write("_static/kit-theme.css", theme())
    for picture in sorted((ROOT / "docs").glob("explorer-*.png")):
        _made.add(SOURCE / picture.name)
        shutil.copyfile(picture, SOURCE / picture.name)
    course = sorted((ROOT / "notebooks").glob("*.ipynb"))
    for path in course:
        write(f"notebooks/{path.name}", notebooks.as_shown(path))
    write("notebooks/index.md", contents(course))
    for name, text in pages.documents():
        write(f"{name}.md", text)
    write("guide/settings.md", pages.settings())
    write("reference/behaviours.md", pages.behaviours())
    for name, text in pages.plays(RUNS):
        write(f"plays/{name}.md", text)
    for name, text in api.pages():
        write(f"api/{name}.md", text)
    for path in SOURCE.rglob("*"):
        if path.is_file() and path not in _made:
            path.unlink()


def contents(course: list[Path]) -> str:
    """The page that lists the notebooks."""
    rows = "\n".join(f"| [{path.stem}]({path.name}) | {notebooks.title_of(path)} |" for path in course)
    toc = "\n".join(path.stem for path in course)
    return (
        "# The course\n\nEach notebook opens with a question, takes less than fifteen minutes, and ends with what to "
        "try. Here they are read; `make lab` opens them to be run.\n\n"
        f"| notebook | |\n|---|---|\n{rows}\n\n```{{toctree}}\n:hidden:\n\n{toc}\n```\n"
    )


def theme() -> str:
    """The kit's dark colours for pictures in a page of the site, by the reader's choice or the system's."""
    text = asset("theme.css")
    dark = text[text.index("{", text.index("data-jp-theme-light")) :]
    which = ("body[data-theme='dark'] .kit-picture", "body[data-theme='dark'] .kit-still")
    auto = ", ".join(each.replace("dark", "auto") for each in which)
    return f"{', '.join(which)} {dark}\n@media (prefers-color-scheme: dark) {{\n{auto} {dark}}}\n"


def main() -> int:
    """Build; 0 when there was no warning, and every link leads somewhere."""
    began = time.monotonic()
    if "--only-check" not in sys.argv:
        put_together()
        print(f"put together in {time.monotonic() - began:.0f} s", flush=True)
        options = ["-W", "--keep-going", "-q", "-j", "2", "-d", str(BUILD / "doctrees")]
        failed = build_main([*options, "-b", "html", str(SOURCE), str(HTML)])
        if failed:
            return failed
        shutil.copytree(RUNS, HTML / "runs", dirs_exist_ok=True)
    faults = list(links.faults(HTML))
    print(*faults, sep="\n")
    print(f"{HTML}/index.html: {sum(1 for _ in HTML.rglob('*.html'))} pages in {time.monotonic() - began:.0f} s")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
