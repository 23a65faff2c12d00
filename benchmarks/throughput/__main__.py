"""The command line of the benchmark."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import benchmarks.throughput as about
from benchmarks._options import options
from benchmarks.throughput import workloads
from benchmarks.throughput.frames import compare
from benchmarks.throughput.measured import DURABILITY, PeerError
from benchmarks.throughput.peers import KIT, NUMPY, PEERS, Peer, default_cache
from benchmarks.throughput.table import Standing, millions, table, take_turns

COST_GOALS = {"W1": 5.0, "W1r": 15.0}
"""How many percent checkpoints every second may cost."""
SMALLEST, FEWEST_ROWS = ["W1", "W3"], 3_000
"""One workload of which the end of the input is timed, and one of which a barrier is; without peers."""
FRAME_ROWS = 50_000_000
SYNC_GOAL = 10.0
"""How many percent a checkpoint that survives a loss of power may cost beside one that does not."""
_COST_CASES = {
    "a checkpoint every second": (1_000, "fsync"),
    "left in the page cache": (1_000, "page_cache"),
    "no checkpoints": (0, "fsync"),
}
"""The interval in ms and the durability of each case."""


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the arguments."""
    parser = options(about.__doc__, "benchmarks throughput")
    parser.add_argument("--workloads", type=_names_of(workloads.NAMES), default=list(workloads.NAMES))
    parser.add_argument("--peers", type=_names_of(PEERS), default=list(PEERS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0, help="about how long a run is")
    parser.add_argument("--rows", type=int, help="rows of a run, instead")
    parser.add_argument("--cache", type=Path, default=default_cache())
    parser.add_argument("--set-up", action="store_true", help="make the peers' environments, and no more")
    parser.add_argument("--checkpoint-cost", action="store_true", help="the kit with checkpoints and without")
    parser.add_argument("--frames", action="store_true", help="the kit with W1's rows from DataFrames of Spark")
    given = parser.parse_args(arguments)
    if given.smallest:
        given.workloads, given.peers, given.rounds, given.rows = SMALLEST, [KIT, NUMPY], 1, FEWEST_ROWS
    return given


def _names_of(known: Sequence[str] | dict[str, Peer]):  # type: ignore[no-untyped-def]
    def names(given: str) -> list[str]:
        wanted = given.split(",")
        unknown = [name for name in wanted if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"there is no {', '.join(unknown)}; there are {', '.join(known)}")
        return wanted

    return names


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print the table; return 1 if a result was wrong or the kit failed."""
    given = parsed(arguments)
    given.cache = given.cache.absolute()
    if given.checkpoint_cost:
        return checkpoint_cost(given)
    if given.frames:
        return compare(given.rounds, given.rows or FRAME_ROWS)
    peers = set_up([PEERS[name] for name in given.peers], given.cache)
    if given.set_up:
        return 0
    standings = [
        take_turns(workload, peers, given.rounds, given.seconds, given.cache, given.rows)
        for workload in given.workloads
    ]
    print(f"\nmillion rows a second, median of {given.rounds} runs in turns, parallelism 2 on {os.cpu_count()} cores\n")
    print(table(standings, peers))
    for standing in standings:
        for name, why in standing.without.items():
            print(f"\n{standing.workload}, {name}: {why}")
    return int(any(failed(standing) for standing in standings))


def failed(standing: Standing) -> bool:
    """Return True if the kit failed, or if any result was wrong."""
    return KIT in standing.without or any("checksum" in why for why in standing.without.values())


def set_up(peers: Sequence[Peer], cache: Path) -> list[Peer]:
    """Return the peers that can be set up; print the reason for the others."""
    there = []
    for peer in peers:
        try:
            peer.start(cache)
            there.append(peer)
        except PeerError as error:
            print(f"{peer.name} cannot be set up: {error}", flush=True)
    return there


def checkpoint_cost(given: argparse.Namespace) -> int:
    """Measure the kit with a checkpoint every second, synced and not, and without; the runs alternate."""
    kit = PEERS[KIT]
    for workload in [name for name in given.workloads if name in COST_GOALS]:
        rows = given.rows or kit.rows(workload, given.seconds)
        speeds: dict[str, list[float]] = {case: [] for case in _COST_CASES}
        for _ in range(given.rounds):
            for case, (interval_ms, durability) in _COST_CASES.items():
                os.environ[DURABILITY] = durability
                speeds[case].append(kit.run(workload, rows, given.cache, interval_ms).rows_per_second)
        synced, unsynced, without = (statistics.median(runs) for runs in speeds.values())
        print(
            f"{workload}: {millions(synced)} M rows/s with a checkpoint every second, {millions(without)} without: "
            f"they cost {100 * (1 - synced / without):.0f} %, at most {COST_GOALS[workload]:g} is the goal; "
            f"{millions(unsynced)} left in the page cache: syncs cost {100 * (1 - synced / unsynced):.0f} %, at most "
            f"{SYNC_GOAL:g} is the goal"
        )
        for case, runs in speeds.items():
            print(f"    {case}: {', '.join(map(millions, runs))}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
