"""Put the site's source together in `build/docs/source`, build it into `build/docs/html`, and follow its links.

    python -m scripts.site [--quick] [--only-check]

What people write is in `docs/site/` (the guide, the settings of Sphinx) and `notebooks/`; all else is made from the kit
itself. A warning of Sphinx's ends it, and so does a link that leads nowhere, or a page that asks another host for
anything.

`--quick` checks the same pages in less than half the time, in `build/docs-quick`. It does not run the scenarios: their
pages have the stored outcomes, which the tests compare, and no page to step through. It also leaves out the theme and
the index of the search. `--only-check` builds nothing and follows the links of the last build.
"""

from __future__ import annotations

import gc
import shutil
import sys
import time
from pathlib import Path

from sphinx.cmd.build import build_main

from kit.draw.assets import asset
from scripts.site import api, links, notebooks, pages
from scripts.site import course as course_pages
from scripts.site.api import ROOT

WRITTEN = ROOT / "docs" / "site"


class Site:
    """The site in one directory: the source that is put together for Sphinx, what Sphinx keeps, and the HTML."""

    def __init__(self, directory: Path, is_quick: bool) -> None:
        self._source, self._runs = directory / "source", directory / "runs"
        self._doctrees, self.html = directory / "doctrees", directory / "html"
        self._is_quick = is_quick
        self._made: set[Path] = set()

    def _write(self, name: str, text: str) -> None:
        """Write a page of the source; one that has not changed is left alone, for Sphinx builds only what changed."""
        path = self._source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self._made.add(path)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")

    def put_together(self) -> None:
        """Write the whole source."""
        for path in sorted(WRITTEN.rglob("*")):
            if path.is_file() and path.suffix in (".md", ".py", ".css", ".js"):
                text = course_pages.with_minutes(path.read_text(encoding="utf-8"))
                self._write(path.relative_to(WRITTEN).as_posix(), text)
        for name, text in static_files().items():
            self._write(name, text)
        for picture in sorted((ROOT / "docs").glob("explorer-*.png")):
            self._made.add(self._source / picture.name)
            shutil.copyfile(picture, self._source / picture.name)
        course = sorted((ROOT / "notebooks").glob("*.ipynb"))
        for path in course:
            self._write(f"notebooks/{path.name}", notebooks.as_shown(path))
        self._write("notebooks/index.md", course_pages.index(course))
        for name, text in course_pages.lab_pages():
            self._write(name, text)
        for name, text in pages.documents():
            is_list = name == "scenarios/index"
            self._write(f"{name}.md", pages.gallery(text, has_pictures=not self._is_quick) if is_list else text)
        self._write("guide/settings.md", pages.settings())
        self._write("guide/json-output.md", pages.json_output())
        self._write("reference/behaviours.md", pages.behaviours())
        for name, text in pages.scenarios_as_stored() if self._is_quick else pages.scenarios(self._runs):
            self._write(f"scenarios/{name}.md", text)
        for name, text in api.pages():
            self._write(f"api/{name}.md", text)
        for path in self._source.rglob("*"):
            if path.is_file() and path not in self._made:
                path.unlink()

    def build(self) -> int:
        """Build the HTML; 0 if Sphinx had nothing to warn of.

        What Sphinx keeps is removed after a warning. Otherwise the next build would pass: it would not read the page
        again.
        """
        options = ["-W", "--keep-going", "-q", "-j", "2", "-d", str(self._doctrees)]
        tags = ["-t", "quick"] if self._is_quick else []
        failed = build_main([*options, *tags, "-b", "html", str(self._source), str(self.html)])
        if failed:
            shutil.rmtree(self._doctrees, ignore_errors=True)
        elif self._runs.exists():
            shutil.copytree(self._runs, self.html / "runs", dirs_exist_ok=True)
        return failed


def static_files() -> dict[str, str]:
    """Return the style sheets and scripts that are made of the kit's own, by their places in the source."""
    return {
        "_static/kit-theme.css": theme(),
        "_static/kit-terms.css": pages.terms_css(),
        "_static/scrollers.js": asset("scrollers.js"),
    }


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
    gc.set_threshold(20_000)  # Sphinx keeps what it makes: with Python's 700, collections take a quarter of the build
    is_quick = "--quick" in sys.argv
    site = Site(ROOT / "build" / ("docs-quick" if is_quick else "docs"), is_quick)
    if "--only-check" not in sys.argv:
        site.put_together()
        print(f"put together in {time.monotonic() - began:.0f} s", flush=True)
        failed = site.build()
        if failed:
            return failed
    faults = list(links.faults(site.html))
    print(*faults, sep="\n")
    count = sum(1 for _ in site.html.rglob("*.html"))
    print(f"{site.html}/index.html: {count} pages in {time.monotonic() - began:.0f} s")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
