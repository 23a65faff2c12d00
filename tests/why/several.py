"""The answers about the run with several of everything: `python -m tests.why.several` writes `several.txt` again.

The file has `#` for each duration, which depends on the order of messages. After a change of words, read the output
of `git diff`.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.several_run import moments

STORED = Path(__file__).with_suffix(".txt")
_LENGTH = re.compile(r"(\d+ min )?\d[\d,.]* (ms|s)\b")


def written() -> str:
    """The answers as they are stored."""
    told = ((moment, str(lab.why(about))) for moment, lab, asked in moments() for about in asked)
    return "\n".join(f"# {moment}: {_LENGTH.sub('#', why)}\n" for moment, why in told)


if __name__ == "__main__":
    STORED.write_text(written(), encoding="utf-8")
