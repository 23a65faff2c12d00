"""The format of scenarios: a header, then blocks of commands, `----`, and their outcomes.

    title: A late acknowledgement
    question: What happens to an acknowledgement that arrives after its checkpoint has ended?
    flink: CheckpointCoordinatorTest.testStateCleanupForLateOrUnknownMessages
    job: keyed-sum, timeout_ms=60

    # Prose for the reader: why this is done, and what to look at.
    trigger checkpoint
    run until CheckpointTriggered
    ----
    job        * CheckpointTriggered chk-1: letters/0, letters/1

Indented lines continue an entry of the header. A blank line ends the header, and each block. A block has prose (`#
...`), then commands, one per line, then their outcomes, which `make scenarios REWRITE=1` writes. The format follows
CockroachDB's datadriven tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from kit.hosts.lab.errors import LabError, enumerated, nearest

HEAD = ("title", "question", "flink", "job")
NEEDED = ("title", "question", "job")
RULE = "----"


class ScenarioError(LabError):
    """A scenario cannot be read or run. The text starts with file and line."""


@dataclass(frozen=True, slots=True)
class Command:
    """One line to carry out, and its place in the file."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Block:
    """Prose, commands and their outcomes, as lines."""

    prose: str
    commands: tuple[Command, ...]
    outcome: tuple[str, ...]

    def __str__(self) -> str:
        prose = [f"# {line}".rstrip() for line in self.prose.splitlines()]
        return "\n".join([*prose, *(command.text for command in self.commands), RULE, *self.outcome])


@dataclass(frozen=True, slots=True)
class ScenarioText:
    """A scenario as in its file; `name` is the file's name without its suffix."""

    name: str
    head: Mapping[str, str]
    blocks: tuple[Block, ...]

    @property
    def title(self) -> str:
        """The subject of the scenario, in a few words."""
        return self.head["title"]

    @property
    def question(self) -> str:
        """The question that the scenario answers."""
        return self.head["question"]

    @property
    def flink(self) -> tuple[str, ...]:
        """The Flink tests whose behaviour it shows, as `Class.method`."""
        return tuple(self.head.get("flink", "").replace(",", " ").split())

    @property
    def job(self) -> str:
        """The ready job that it runs, with settings."""
        return self.head["job"]

    def with_outcomes(self, outcomes: Sequence[Sequence[str]]) -> ScenarioText:
        """Return the same scenario with these outcomes."""
        blocks = (replace(block, outcome=tuple(lines)) for block, lines in zip(self.blocks, outcomes, strict=True))
        return replace(self, blocks=tuple(blocks))

    def __str__(self) -> str:
        indented = {key: value.replace("\n", "\n  ") for key, value in self.head.items()}
        head = "".join(f"{key}: {value}\n" for key, value in indented.items())
        return head + "".join(f"\n{block}\n" for block in self.blocks)

    def __repr__(self) -> str:
        return f"ScenarioText({self.name}: {self.title}, {len(self.blocks)} blocks)"


def parse(name: str, text: str, where: str = "") -> ScenarioText:
    """Parse the text of a scenario; `where` is the file's name for errors. Raises ScenarioError."""
    where = where or f"{name}.scenario"
    lines = list(enumerate(text.splitlines(), 1))
    start = next((at for at, (_, line) in enumerate(lines) if not line.strip()), len(lines))
    head = _head(lines[:start], where)
    return ScenarioText(name, head, tuple(_block(part, where) for part in _parts(lines[start:])))


_Line = tuple[int, str]


def _head(lines: list[_Line], where: str) -> dict[str, str]:
    head: dict[str, str] = {}
    key = ""
    for number, line in lines:
        if line[0].isspace() and key:
            head[key] += f"\n{line.strip()}"
            continue
        key, colon, value = line.partition(":")
        if not colon or key not in HEAD:
            meant = enumerated(nearest(key, HEAD))
            raise ScenarioError(
                f"{where}:{number}: {line!r} is no entry of a scenario's head; expected {meant}, then a colon"
            )
        if key in head:
            raise ScenarioError(f"{where}:{number}: {key!r} is in the header twice: indent the lines that continue it")
        head[key] = value.strip()
    missing = [each for each in NEEDED if not head.get(each)]
    if missing:
        raise ScenarioError(f"{where}:1: the head has no {enumerated(missing)}: write for instance '{missing[0]}: ...'")
    return head


def _parts(lines: list[_Line]) -> Iterator[list[_Line]]:
    """Yield the groups of lines between blank lines."""
    for is_text, part in groupby(lines, lambda line: bool(line[1].strip())):
        if is_text:
            yield list(part)


def _block(lines: list[_Line], where: str) -> Block:
    rules = [at for at, (_, line) in enumerate(lines) if line.rstrip() == RULE]
    first = lines[0][0]
    if len(rules) != 1:
        found = f"{len(rules)} times" if rules else "not at all"
        raise ScenarioError(
            f"{where}:{first}: {RULE!r} stands {found} in this block: expected once, below its commands"
        )
    above, below = lines[: rules[0]], lines[rules[0] + 1 :]
    prose = [line[1:].removeprefix(" ") for _, line in above if line.startswith("#")]
    commands = [Command(line.strip(), number) for number, line in above if not line.startswith("#")]
    if not commands:
        raise ScenarioError(f"{where}:{first}: this block has no command above {RULE!r}")
    late = next((number for number, line in above if line.startswith("#") and number > commands[0].line), None)
    if late is not None:
        raise ScenarioError(f"{where}:{late}: prose stands above a block's commands: move it up, or begin a block here")
    return Block("\n".join(prose), tuple(commands), tuple(line for _, line in below))
