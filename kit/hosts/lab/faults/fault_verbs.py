"""The methods of `lab.faults`, and the corresponding lines of a scenario.

Both derive from the table of faults. Faults that share a method share the line of the first of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any, Protocol

from kit.core.protocol.words import ProtocolMessage
from kit.core.trace.trace import TraceRecord
from kit.hosts.lab.by_words import meant
from kit.hosts.lab.choices import Choices
from kit.hosts.lab.errors import LabError
from kit.hosts.lab.faults.fault import Fault, words_of
from kit.hosts.lab.faults.faults import FAULTS, FileFault, possible_faults
from kit.hosts.lab.refusals import refusal
from kit.hosts.lab.step import Step
from kit.hosts.lab.world.actions import Action
from kit.hosts.lab.world.world import World

What = Action | TraceRecord | str
"""The name of a target: an action, a trace record or its id, a key, or a few words (`kit.hosts.lab.by_words`)."""
WHAT = "what"
_PLACEHOLDER = re.compile(r"\{(\w+)\}|\[|\]")


@dataclass(frozen=True)
class FaultVerb:
    """A method of `lab.faults`, and the faults that it can inject."""

    name: str
    kinds: tuple[type[Fault], ...]

    @property
    def line(self) -> str:
        """The line of a scenario, as the first of its faults declares it."""
        return self.kinds[0].line or self.kinds[0].pattern

    @property
    def takes_words(self) -> bool:
        """Return True if its first argument names one of several targets."""
        return f"{{{WHAT}}}" in self.line

    @property
    def parameters(self) -> list[Parameter]:
        """The parameters of the method, without `self`."""
        if not self.takes_words:
            return list(signature(self.kinds[0]).parameters.values())
        options = list(signature(self.kinds[0].adjusted).parameters.values())[2:]
        return [Parameter(WHAT, Parameter.POSITIONAL_OR_KEYWORD, annotation="What"), *options]

    @property
    def does(self) -> str:
        """The sentences that describe its effect."""
        return " ".join(dict.fromkeys(words_of(kind) for kind in self.kinds))

    @property
    def usage(self) -> str:
        """The line with its arguments in capitals: WORDS for the name of a target, N for a number."""
        return _PLACEHOLDER.sub(lambda found: self._shown(found[1]) if found[1] else found[0], self.line)

    @property
    def pattern(self) -> re.Pattern[str]:
        """The pattern of such a line, with a group for each argument."""
        parts, end = [], 0
        for found in _PLACEHOLDER.finditer(self.line):
            parts.append(re.escape(self.line[end : found.start()]))
            parts.append(f"(?P<{found[1]}>{self._form(found[1])})" if found[1] else {"[": "(?:", "]": ")?"}[found[0]])
            end = found.end()
        return re.compile("".join([*parts, re.escape(self.line[end:])]))

    def arguments(self, groups: Mapping[str, str | None]) -> dict[str, Any]:
        """Return the method's arguments, from the groups of a line that matches."""
        given: dict[str, Any] = {}
        for name, text in groups.items():
            if text is None:
                continue
            if name in self._names:
                given[name] = int(text) if self._is_number(name) else text
            else:
                pairs = (pair.split(" ") for pair in text.split(", "))
                given |= {key: int(value) if self._is_number(key) else value for key, value in pairs}
        return given

    @property
    def _names(self) -> dict[str, str]:
        """Return the names of its parameters, and their types."""
        return {each.name: str(each.annotation) for each in self.parameters}

    def _is_number(self, name: str) -> bool:
        return self._names[name].startswith("int")

    def _shown(self, name: str) -> str:
        if name == WHAT:
            return "WORDS"
        return "N" if name in self._names and self._is_number(name) else name.upper()

    def _form(self, name: str) -> str:
        """Return the pattern of an argument. If it is not a parameter, it stands for names and values of parameters."""
        if name == WHAT:
            return ".+?"
        if name in self._names:
            return r"-?\d+" if self._is_number(name) else r"\S+"
        numbers = [name for name in self._names if self._is_number(name)]
        pair = rf"(?:(?:{'|'.join(numbers)}) \d+|(?:{'|'.join(self._names.keys() - {*numbers, WHAT})}) [^\s,]+)"
        return f"{pair}(?:, {pair})*"


def _verbs() -> Iterable[FaultVerb]:
    kinds: dict[str, tuple[type[Fault], ...]] = {}
    for kind in FAULTS.values():
        kinds[kind.name()] = (*kinds.get(kind.name(), ()), kind)
    verbs = [FaultVerb(name, of_name) for name, of_name in kinds.items()]
    return sorted(verbs, key=lambda verb: verb.takes_words)  # a line with words may match any other line


VERBS: dict[str, FaultVerb] = {verb.name: verb for verb in _verbs()}
"""The methods of `lab.faults`, by name; those with the most specific lines come first."""


class TakesSteps(Protocol):
    """The part of a lab that `lab.faults` uses."""

    @property
    def _world(self) -> World: ...

    def _do(self, action: Action | ProtocolMessage) -> Step: ...


class Faults:
    """The faults of a lab: `possible()` lists those that can be injected, the methods inject them. Each is a step.

    `what` is an action of `lab.enabled()` or `possible()`, a record of the trace or its id, an action's key, or a few
    words (`kit.hosts.lab.by_words`).
    """

    def __init__(self, lab: TakesSteps) -> None:
        self._lab = lab

    def possible(self) -> Choices:
        """Return the faults that can be injected now, by group; `lab.step` accepts each. `.refused` has the others,
        with the reasons.
        """
        world = self._lab._world
        judged = [(fault, refusal(world, fault)) for fault in possible_faults(world)]
        return Choices(
            (fault for fault, why_not in judged if why_not is None),
            what="faults are possible",
            refused=((fault, why_not) for fault, why_not in judged if why_not is not None),
        )

    def inflict(self, fault: Fault) -> Step:
        """Inject a fault. Raises LabError with the reason if it is not allowed."""
        return self._lab._do(self.checked(fault))

    def checked(self, fault: Fault) -> Fault:
        """Return the fault if it is allowed now. Raises LabError with the reason otherwise."""
        why_not = refusal(self._lab._world, fault)
        if why_not is not None:
            raise LabError(why_not)
        return fault

    def _meant(self, verb: FaultVerb, what: What) -> Fault:
        world, doing = self._lab._world, verb.kinds[0].doing
        faults = [fault for kind in verb.kinds for fault in kind.targets(world)]
        if isinstance(what, Action):
            if isinstance(what, verb.kinds):
                return what
            for fault in faults:
                if fault.is_about(what):
                    return fault
            raise LabError(refusal(world, what) or f"{what} is nothing {doing}")
        record_id = what.id if isinstance(what, TraceRecord) else what
        for fault in faults:
            if isinstance(fault, FileFault) and fault.path == record_id:
                return fault
            if record_id in (fault.key, fault.befalls(world)):
                return fault
        return meant(record_id, faults, doing)

    def __repr__(self) -> str:
        return repr(self.possible())

    def _repr_html_(self) -> str:
        return self.possible()._repr_html_()

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Step]: ...


def _method(verb: FaultVerb) -> Callable[..., Step]:
    me = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    whole = Signature([me, *verb.parameters], return_annotation="Step")

    def do(*arguments: Any, **named: Any) -> Step:
        given = whole.bind(*arguments, **named).arguments  # the TypeError names the unknown argument
        faults: Faults = given.pop("self")
        if not verb.takes_words:
            return faults.inflict(verb.kinds[0](**given))
        fault = faults._meant(verb, given.pop(WHAT))
        return faults.inflict(fault.adjusted(faults._lab._world, **given))

    do.__name__, do.__qualname__ = verb.name, f"{Faults.__name__}.{verb.name}"
    examples = "\n".join(f"    {kind.example}" for kind in verb.kinds)
    do.__doc__ = f"{verb.does}\n\n{examples}"
    do.__signature__ = whole  # type: ignore[attr-defined]
    return do


for _verb in VERBS.values():
    setattr(Faults, _verb.name, _method(_verb))

__all__ = ["VERBS", "WHAT", "FaultVerb", "Faults", "What"]
