"""A trace's records as steps: each event with the commands it led its machine to, causes before effects.

In the lab records come in the order in which things happened. On a cluster every worker sends its own, so an effect may
be recorded before its cause; here it waits. Otherwise the order of the trace is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kit.protocol.trace import Trace, TraceRecord, led_by

Step = list[TraceRecord]


def event_of(record: TraceRecord) -> str:
    """The id of the event that the record is, or that its machine was handling."""
    machine, _, number = record.id.rpartition("#")
    return f"{machine}#{number.partition('.')[0]}"


def steps(trace: Iterable[TraceRecord]) -> list[Step]:
    """The steps of a run: none before what caused it, none before an earlier step of its machine."""
    if isinstance(trace, Trace) and trace.detailed:
        return in_order(trace)
    by_event: dict[str, Step] = {}
    event_with: dict[str, str] = {}
    for record in trace:
        event = event_of(record)
        by_event.setdefault(event, []).append(record)
        event_with[record.id] = event
    needs = _needs(by_event, event_with)
    ordered: dict[str, Step] = {}
    for event in by_event:
        waiting = [event]
        while waiting:
            now = waiting[-1]
            missing = [need for need in needs[now] if need not in ordered and need not in waiting]
            if missing:
                waiting.append(missing[0])
            else:
                ordered.setdefault(now, by_event[now])
                waiting.pop()
    return list(ordered.values())


def in_order(records: Iterable[TraceRecord]) -> list[Step]:
    """The steps of records that were told in order, as a lab tells them."""
    grouped: list[Step] = []
    group: Step = []
    last, its_commands = "", "\0"
    for record in records:
        if not record.id.startswith(its_commands):
            event = event_of(record)
            if event != last:
                group = []
                grouped.append(group)
                last, its_commands = event, f"{event}."
        group.append(record)
    return grouped


def _needs(by_event: Mapping[str, Step], event_with: Mapping[str, str]) -> dict[str, list[str]]:
    """For each step the steps that come before it: its machine's last one, and the one with its cause."""
    needs: dict[str, list[str]] = {}
    last: dict[str, str] = {}
    for event, step in by_event.items():
        machine = event.rpartition("#")[0]
        before = (last.get(machine), led_by(step[0].cause, event_with.get))
        needs[event] = [need for need in before if need is not None and need != event]
        last[machine] = event
    return needs
