"""Rounds in which peers alternate, and their results: a table with the ratios and the goals.

A round is a run of each peer, in order. The median of a peer's runs counts, and the best peer has the highest median. A
run that fails, or has a wrong result, is reported in a line, and its peer is left out of this workload.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.throughput.measured import Measured, PeerError
from benchmarks.throughput.peers import KIT, NUMPY, TWO_PHASES, Peer

GOALS = {"W1": 10.0, "W1r": 15.0, "W2": 3.0, "W3": 5.0, "W4": 5.0, "W5": 10.0, "W7": 3.0, "W7z": 10.0}
"""How many times the best peer the kit is to be."""
NUMPY_GOAL = 0.5
"""The part of numpy's speed that the kit is to have in W1 and W2, in two phases."""
W6_GOAL = 3 * 1.8e6
"""Of W6 the goal is three times what the kit had: 1.6 to 2 million rows a second."""


@dataclass
class Standing:
    """The runs of a workload by peer, and why a peer has none."""

    workload: str
    runs: dict[str, list[Measured]] = field(default_factory=dict)
    without: dict[str, str] = field(default_factory=dict)

    def median(self, peer: str) -> float | None:
        """Rows a second."""
        runs = self.runs.get(peer)
        return statistics.median(run.rows_per_second for run in runs) if runs and peer not in self.without else None

    def best_peer(self) -> tuple[str, float] | None:
        """Return the fastest peer beside the kit."""
        others = [
            (self.median(name) or 0.0, name)
            for name in self.runs
            if name not in (KIT, TWO_PHASES, NUMPY) and self.median(name)
        ]
        return (max(others)[1], max(others)[0]) if others else None

    def ratio(self) -> float | None:
        """The kit's speed as a multiple of the best peer's."""
        kit, best = self.median(KIT), self.best_peer()
        return kit / best[1] if kit and best else None


def take_turns(
    workload: str, peers: Sequence[Peer], rounds: int, seconds: float, cache: Path, rows: int | None = None
) -> Standing:
    """All rounds of a workload; each run is printed as it ends."""
    standing = Standing(workload)
    for number in range(rounds):
        for peer in peers:
            if workload not in peer.reckoned or peer.name in standing.without:
                continue
            try:
                measured = peer.run(workload, rows or peer.rows(workload, seconds), cache)
            except PeerError as error:
                standing.without[peer.name] = str(error)
                print(f"{workload} {peer.name}: {error}", flush=True)
                continue
            standing.runs.setdefault(peer.name, []).append(measured)
            print(
                f"{workload} round {number + 1}, {peer.name:<10} {millions(measured.rows_per_second):>7} M rows/s, "
                f"{measured.seconds:.1f} s, {measured.checkpoints} checkpoints, checksum right",
                flush=True,
            )
    return standing


def millions(rows_per_second: float | None) -> str:
    """Return millions with two significant digits."""
    if rows_per_second is None:
        return "-"
    value = rows_per_second / 1e6
    digits = 0 if value >= 10 else 1 if value >= 1 else 2 if value >= 0.1 else 3
    return f"{value:.{digits}f}"


def verdict(standing: Standing) -> tuple[str, str]:
    """The ratio, and the goal with whether it is met."""
    ratio, kit, best = standing.ratio(), standing.median(KIT), standing.best_peer()
    said = f"{ratio:.1f} times {best[0]}" if ratio and best else "-"
    if standing.workload == "W6":
        met = "" if kit is None else ", met" if kit >= W6_GOAL else ", missed"
        return said, f"{millions(W6_GOAL)} M rows/s{met}"
    goal = GOALS[standing.workload]
    met = "" if ratio is None else ", met" if ratio >= goal else ", missed"
    alone = standing.median(NUMPY)
    if not kit or not alone:
        return said, f"{goal:g} times{met}"
    part = (standing.median(TWO_PHASES) or kit) / alone
    return (
        f"{said}; {part:.0%} of numpy alone",
        f"{goal:g} times{met}; {NUMPY_GOAL:.0%} of numpy alone, {'met' if part >= NUMPY_GOAL else 'missed'}",
    )


def table(standings: Iterable[Standing], peers: Sequence[Peer]) -> str:
    """Markdown: a line for each workload, a column for each peer, medians in million rows a second."""
    lines = ["| | " + " | ".join(peer.name for peer in peers) + " | kit to best peer | goal |"]
    lines.append("|---" * (len(peers) + 3) + "|")
    for standing in standings:
        figures = [millions(standing.median(peer.name)) for peer in peers]
        lines.append(f"| {standing.workload} | " + " | ".join(figures) + " | " + " | ".join(verdict(standing)) + " |")
    return "\n".join(lines)
