"""`make plays`: run every play and report differences; with REWRITE=1, write the actual outcomes into the files, and
the list of plays into docs/PLAYS.md.

python -m scripts.plays [--rewrite] [name or file ...]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kit.hosts.lab.scenarios.play import DIRECTORY, SUFFIX, Play, all_plays, read_play
from kit.hosts.lab.scenarios.play_text import PlayError

PAGE = Path(__file__).resolve().parent.parent / "docs" / "PLAYS.md"
LIST = "## The plays\n"


def page() -> str:
    """Return docs/PLAYS.md with the present list of plays."""
    before = PAGE.read_text(encoding="utf-8").partition(LIST)[0]
    rows = (
        f"| [{each.name}](../kit/hosts/lab/scenarios/plays/{each.name}.play) | {each.question} |"
        for each in all_plays().values()
    )
    return f"{before}{LIST}\n| play | question |\n|---|---|\n" + "\n".join(rows) + "\n"


def main() -> int:
    """Run the plays; return the number of those with another outcome than expected."""
    parser = argparse.ArgumentParser(prog="python -m scripts.plays")
    parser.add_argument("--rewrite", action="store_true")
    parser.add_argument("plays", nargs="*")
    arguments = parser.parse_args()
    named = [Path(each) if each.endswith(SUFFIX) else DIRECTORY / f"{each}{SUFFIX}" for each in arguments.plays]
    files = named or sorted(DIRECTORY.glob(f"*{SUFFIX}"))
    changed = sum(_play(file, rewrite=arguments.rewrite) for file in files)
    print(f"{len(files)} plays, {changed} {'rewritten' if arguments.rewrite else 'came out differently'}")
    if arguments.rewrite:
        all_plays.cache_clear()
        PAGE.write_text(page(), encoding="utf-8")
    return 0 if arguments.rewrite else changed


def _play(file: Path, *, rewrite: bool) -> bool:
    """Return True if the outcome differs from the expected one."""
    text = read_play(file)
    try:
        play = Play(text, str(file)).run()
    except PlayError as error:
        print(error)
        return True
    written = str(play.as_played)
    changed = written != file.read_text(encoding="utf-8")
    steps = sum(lab.position for lab in play.labs)
    print(f"{text.name:<48} {len(text.blocks):>3} blocks {steps:>5} steps  {text.question}")
    if changed and rewrite:
        file.write_text(written, encoding="utf-8")
    elif changed:
        print(play.differences)
    return changed


if __name__ == "__main__":
    sys.exit(main())
