"""The places in the site of the files that the repository's documents link to."""

from __future__ import annotations

import re
from pathlib import Path

from scripts.site.api import ROOT, module_of, rooms

DOCUMENTS = {
    "ARCHITECTURE.md": "reference/architecture",
    "docs/GLOSSARY.md": "reference/glossary",
    "docs/TERMS.md": "reference/terms",
    "docs/TEACHING.md": "guide/teaching",
    "docs/FAULTS.md": "reference/faults",
    "docs/SCENARIOS.md": "scenarios/index",
    "docs/state-machines.md": "reference/state-machines",
    "docs/WRITING-A-HOST.md": "reference/writing-a-host",
    "docs/decisions/README.md": "reference/decisions/index",
    **{
        path.relative_to(ROOT).as_posix(): f"reference/decisions/{path.stem}"
        for path in sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    },
}
"""Documents of the repository and where they are in the site."""
LABS = ROOT / "notebooks" / "labs" / "source"
LINK = re.compile(r"\[([^\[\]]*)\]\(([^)#\s]+)(#[^)]*)?\)")


def relinked(text: str, here: Path, target: str) -> str:
    """Return Markdown of the directory `here` with its links changed for the page `target` of the site.

    A link to a file that is not in the site becomes its name. Raises ValueError for a broken link.
    """
    return LINK.sub(lambda found: _link(found, here, "../" * target.count("/")), text)


def _link(found: re.Match[str], here: Path, up: str) -> str:
    text, where, anchor = found[1], found[2], found[3] or ""
    if "://" in where or where.startswith("mailto:"):
        return found[0]
    path = (here / where).resolve()
    if not path.exists():
        raise ValueError(f"{here.name}: {found[0]} leads nowhere")
    relative = path.relative_to(ROOT).as_posix()
    page = _page(path, relative)
    return f"[{text}]({up}{page}{anchor if '#' not in page else ''})" if page else f"{text} (`{relative}`)"


def _page(path: Path, relative: str) -> str:
    """The site's page for a file; "" when there is none."""
    if relative in DOCUMENTS:
        return f"{DOCUMENTS[relative]}.md"
    if path.suffix == ".scenario":
        return f"scenarios/{path.stem}.md"
    if path.suffix == ".ipynb" and path.parent == ROOT / "notebooks":
        return f"notebooks/{path.name}"
    if path.suffix == ".ipynb" and path.parent.parent == LABS and path.parent.name == path.stem:
        return f"labs/{path.name}"
    if relative.startswith("docs/site/"):
        return relative.removeprefix("docs/site/")
    room = next((name for name, files in rooms().items() if path in files), None)
    return f"api/{room}.md#{module_of(path)}" if room else ""
