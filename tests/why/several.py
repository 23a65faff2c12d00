"""The answers about two runs with several of everything: `python -m tests.why.several` writes `several.txt` again.

The file has `#` for each duration, which depends on the order of messages. After a change of words, read the output
of `git diff`.
"""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

from tests.several_run import moments
from tests.timed_run import timed_moments

STORED = Path(__file__).with_suffix(".txt")
_LENGTH = re.compile(r"(\d+ min )?\d[\d,.]* (ms|s)\b")


def written() -> str:
    """The answers as they are stored."""
    both = chain(moments(), timed_moments())
    told = ((moment, str(lab.why(about))) for moment, lab, asked in both for about in asked)
    return "\n".join(f"# {moment}: {_LENGTH.sub('#', why)}\n" for moment, why in told)


if __name__ == "__main__":
    STORED.write_text(written(), encoding="utf-8")
