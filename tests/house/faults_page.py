"""`docs/FAULTS.md`, made from the tables of faults.

    python -m tests.house.faults_page        writes it

A test compares the file with the present tables.
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

In the lab, you can inject every fault around a job, by name, at any step. A fault is a step like any other: it is
among `lab.past.actions`, `lab.back()` undoes it, and `lab.replay()` repeats it. It leaves a record in the trace with
the machine `lab` and the role `fault`. A killed worker is recorded as `SlotLost` instead, and a change of slots as
`SlotsChanged`. `lab.faults.possible()` lists the faults that are possible now, and the others with the reasons.
`lab.step(fault)` injects one from the list.

A method with a target takes a few words, as below, an action of `lab.enabled()` or `lab.faults.possible()`, an action's
key, or a record of the trace or its id. Words that match several targets, or none, are rejected with the nearest
matches.

`python -m tests.house.faults_page` writes this page from the tables of faults.
"""


def page() -> str:
    """The page as the tables are now."""
    return INTRODUCTION + "\n".join((*_faults(), *_failures(), *_messages(), *_on_spark())) + "\n"


def _faults() -> Iterator[str]:
    yield "\n## Faults in the lab\n"
    yield "| fault | injected by | effect |\n|---|---|---|"
    for name, fault in faults.FAULTS.items():
        yield f"| `{name}` | `{fault.example}` | {words_of(fault)} |"


def _failures() -> Iterator[str]:
    yield "\n## How commands fail\n"
    yield "Each command declares its failures (`Command.failures`). In the lab it fails as on any host, and is answered"
    yield "with the event that the command makes of the error. After a failure that is marked so, the work is done.\n"
    yield "| command | failure | error | answered with |\n|---|---|---|---|"
    for command in COMMANDS:
        for failure in command.failures:
            told = f"{failure.text}{', after the work is done' if failure.done else ''}"
            answers = " or ".join(f"`{each.__name__}`" for each in command.answers if "Failed" in each.__name__)
            with_error = " or ".join(f"`{each.__name__}` with an error" for each in command.answers[-1:])
            yield f"| `{command.__name__}` | `{failure.name}` | {told} | {answers or with_error} |"


def _messages() -> Iterator[str]:
    yield "\n## Which messages may be lost or doubled\n"
    yield "Messages between two processes arrive in order and once. If one is lost, the connection is closed."
    yield "The lab loses or doubles a single message if the protocol handles that, and rejects the rest."
    yield "Elements of a channel can be neither lost nor doubled. Any message can be delayed, with those behind it.\n"
    yield "| message | lost | doubled |\n|---|---|---|"
    for message, rule in MESSAGE_RULES.items():
        lost = rule.lost or f"no: {rule.why_not_lost}"
        yield f"| `{message.__name__}` | {lost} | {rule.doubled or f'no: {rule.why_not_doubled}'} |"


def _on_spark() -> Iterator[str]:
    yield "\n## On Spark, for real\n"
    yield "Faults of a job's environment. Each has a test in `tests/hosts/spark` that injects it and"
    yield "compares the output with the batch result. `python -m examples.faults` injects most of them from"
    yield "outside the job.\n"
    yield "| fault | effect | test | mutant that disables the handling |\n|---|---|---|---|"
    for fault in FAULTS:
        told = (", ".join(f"`{each}`" for each in names) for names in (fault.tests, fault.mutants))
        yield f"| {fault.what} | {fault.comes} | {' | '.join(told)} |"
    yield "\n### Handling that is tested by mutants\n"
    yield "A mutant disables one part of the handling. `make mutants ARGS=silence-not-noticed` runs the kit without it,"
    yield "and the test in its row must fail. A worker that hangs ends itself. On the driver's machine the driver ends"
    yield "it too, whichever is first.\n"
    yield "| mutant | handling that it disables | test that fails |\n|---|---|---|"
    for name, handling, *_, finder in SURROUNDINGS:
        yield f"| `{name}` | {handling} | `{str(finder).removeprefix('spark/')}` |"


if __name__ == "__main__":
    PAGE.write_text(page())
    print(PAGE)
