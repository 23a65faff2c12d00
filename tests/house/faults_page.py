"""`docs/FAULTS.md`, made from the tables that the lab goes by.

    python -m tests.house.faults_page        writes it

A test compares the file with what the tables give now.
"""

from __future__ import annotations

from collections.abc import Iterator

from kit.core.protocol.vocabulary import COMMANDS
from kit.hosts.lab.faults import faults
from kit.hosts.lab.faults.fault import words_of
from kit.hosts.lab.world.message_rules import MESSAGE_RULES
from tests.house.files import ROOT
from tests.house.spark_faults import FAULTS
from tests.mutants.surroundings import SURROUNDINGS

PAGE = ROOT / "docs" / "FAULTS.md"
INTRODUCTION = """# Faults in the lab, and on Spark

Everything that may go wrong around a job can be injected in the lab, by name, at any step. Every fault is a step: it is
among `lab.past.actions`, `lab.back()` undoes it, `lab.replay()` does it again, and it leaves a record in the trace (the
machine is `lab`, the role `fault`; `SlotLost` tells of a worker that is killed, `SlotsChanged` of slots).
`lab.faults.possible()` lists what may be made to fail now, and what may not and why; `lab.step(fault)` takes one from
the list.

A method that names a target takes a few words, as below, an action of `lab.enabled()` or `lab.faults.possible()`, its
key, or a record of the trace or its id. Words that fit several things, or none, are rejected with the nearest matches.

`python -m tests.house.faults_page` writes this page from the tables that the lab goes by.
"""


def page() -> str:
    """The page as the tables are now."""
    return INTRODUCTION + "\n".join((*_faults(), *_failures(), *_messages(), *_on_spark())) + "\n"


def _faults() -> Iterator[str]:
    yield "\n## What can be done\n"
    yield "| fault | brought about by | what happens |\n|---|---|---|"
    for name, fault in faults.FAULTS.items():
        yield f"| `{name}` | `{fault.example}` | {words_of(fault)} |"


def _failures() -> Iterator[str]:
    yield "\n## How commands fail\n"
    yield "Each command declares it (`Command.failures`), and the lab lets it fail as a host does: with what the"
    yield "command makes of the error. A failure after the deed leaves what was done.\n"
    yield "| command | failure | error | answered with |\n|---|---|---|---|"
    for command in COMMANDS:
        for failure in command.failures:
            told = f"{failure.text}{', after the deed' if failure.done else ''}"
            answers = " or ".join(f"`{each.__name__}`" for each in command.answers if "Failed" in each.__name__)
            with_error = " or ".join(f"`{each.__name__}` with an error" for each in command.answers[-1:])
            yield f"| `{command.__name__}` | `{failure.name}` | {told} | {answers or with_error} |"


def _messages() -> Iterator[str]:
    yield "\n## Which messages may be lost or doubled\n"
    yield "Two processes hear each other in order and nothing twice, and when something is lost the connection is over."
    yield "The lab lets happen to one message what the protocol has an answer to, and refuses the rest. An element of a"
    yield "channel can be neither lost nor doubled; any message can be held back, and holds back what is behind it.\n"
    yield "| message | lost | doubled |\n|---|---|---|"
    for message, rule in MESSAGE_RULES.items():
        lost = rule.lost or f"no: {rule.why_not_lost}"
        yield f"| `{message.__name__}` | {lost} | {rule.doubled or f'no: {rule.why_not_doubled}'} |"


def _on_spark() -> Iterator[str]:
    yield "\n## On Spark, for real\n"
    yield "What may befall a job's surroundings. Each has a test, below `tests/spark`, that brings it about and"
    yield "compares the output with the batch result. `python -m examples.faults` brings most of them about from"
    yield "outside, as a stranger would.\n"
    yield "| fault | what comes of it | shown by | seen to by |\n|---|---|---|---|"
    for fault in FAULTS:
        told = (", ".join(f"`{each}`" for each in names) for names in (fault.tests, fault.mutants))
        yield f"| {fault.what} | {fault.comes} | {' | '.join(told)} |"
    yield "\n### What sees to them, taken out\n"
    yield "Each line is one handling, named after the mutant that takes it out: `make mutants ARGS=silence-not-noticed`"
    yield "runs the kit without it, and the test on its line fails. A worker that hangs on the driver's machine is"
    yield "ended by itself and by the driver, whoever is first; elsewhere by itself.\n"
    yield "| taken out by | what is taken out | fails then |\n|---|---|---|"
    for name, handling, *_, finder in SURROUNDINGS:
        yield f"| `{name}` | {handling} | `{str(finder).removeprefix('spark/')}` |"


if __name__ == "__main__":
    PAGE.write_text(page())
    print(PAGE)
