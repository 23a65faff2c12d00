"""The workloads as dataflows of bytewax: two processes, recovery on, a snapshot every second.

Rows are computed by numpy, a thousand or so at a time, and continue as pairs of a key and a value, as bytewax has them;
keys are strings there. What comes out is summed up by the sink. Joins and windows of event time are left out: its
operators for them call a Python function for each row like those measured here. Timed is from the first row until both
processes have ended.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import bytewax.operators as op
import numpy as np
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition

from benchmarks.throughput import workloads
from benchmarks.throughput.measured import Measured, main_of_peer

PROCESSES = 2
BATCH_ROWS = 4_096


class _Partition(StatefulSourcePartition[Any, int]):
    """Every second row."""

    def __init__(self, workload: str, rows: int, first: int, position: int | None, log: Path) -> None:
        self._workload, self._rows, self._first, self._log = workload, rows, first, log
        self._position = position or 0

    def next_batch(self) -> list[Any]:
        if not self._position:
            (self._log / f"begin-{self._first}").write_text(str(time.time()))
        end = self._position + BATCH_ROWS
        numbers = np.arange(self._position * PROCESSES + self._first, end * PROCESSES, PROCESSES)
        numbers = numbers[numbers < self._rows]
        self._position = end
        if not len(numbers):
            raise StopIteration
        made = workloads.columns(self._workload, numbers)
        keys, values = made["key"].tolist(), made["value"].tolist()
        if self._workload == "W6":
            return list(zip(keys, values))
        return list(zip(map(str, keys), values))

    def snapshot(self) -> int:
        return self._position


class _Lines(StatefulSourcePartition[str, int]):
    """Lines of the files in turn."""

    def __init__(self, texts: list[Path], first: int, position: int | None, log: Path) -> None:
        self._texts, self._first, self._log = texts[first::PROCESSES], first, log
        self._position = position or 0

    def next_batch(self) -> list[str]:
        if not self._position:
            (self._log / f"begin-{self._first}").write_text(str(time.time()))
        lines = workloads.WORDS_PER_FILE // 10
        file, line = divmod(self._position, lines)
        if file >= len(self._texts):
            raise StopIteration
        if line == 0:
            self._read = self._texts[file].read_text().split("\n")
        end = min(line + BATCH_ROWS // 10, lines)
        self._position += end - line
        return self._read[line:end]

    def snapshot(self) -> int:
        return self._position


class _Source(FixedPartitionedSource[Any, int]):
    def __init__(self, given: dict[str, Any]) -> None:
        self._given = given

    def list_parts(self) -> list[str]:
        return [str(number) for number in range(PROCESSES)]

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> Any:
        log = Path(self._given["directory"])
        if self._given["workload"] == "W2":
            return _Lines([Path(path) for path in self._given["texts"]], int(for_part), resume_state, log)
        return _Partition(self._given["workload"], self._given["rows"], int(for_part), resume_state, log)


class _ChecksumPartition(StatelessSinkPartition[Any]):
    def __init__(self, path: Path, words: bool) -> None:
        self._path, self._words, self._sum = path, words, 0

    def write_batch(self, items: list[Any]) -> None:
        if self._words:
            self._sum += workloads.word_checksum(dict(items))
        else:
            rows = [(int(key), *value) if type(value) is tuple else (int(key), value) for key, value in items]
            self._sum += workloads.checksum(*np.array(rows, np.int64).T)

    def close(self) -> None:
        self._path.write_text(str(self._sum))


class _Checksum(DynamicSink[Any]):
    def __init__(self, given: dict[str, Any]) -> None:
        self._given = given

    def build(self, step_id: str, worker_index: int, worker_count: int) -> _ChecksumPartition:
        return _ChecksumPartition(
            Path(self._given["directory"]) / f"sum-{worker_index}", self._given["workload"] == "W2"
        )


def _add(total: tuple[int, int], value: int) -> tuple[int, int]:
    return total[0] + value, total[1] + 1


def _running(total: int | None, value: int) -> tuple[int, int]:
    total = (total or 0) + value
    return total, total


def _words(line: str) -> Iterable[tuple[str, int]]:
    return [(word, 1) for word in line.split(" ")]


def flow_of(given: dict[str, Any]) -> Dataflow:
    """The dataflow of a workload."""
    flow = Dataflow(given["workload"])
    stream: Any = op.input("rows", flow, _Source(given))
    match given["workload"]:
        case "W1" | "W1r":
            stream = op.fold_final("sum", stream, lambda: (0, 0), _add)
        case "W2":
            stream = op.reduce_final("count", op.flat_map("words", stream, _words), int.__add__)
        case "W5":
            stream = op.stateful_map("running", stream, _running)
        case "W6":
            stream = op.map("function", stream, lambda row: workloads.function(*row))
    op.output("out", stream, _Checksum(given))
    return flow


def measure(workload: str, rows: int, directory: Path, texts: list[Path], interval_ms: int = 1_000) -> Measured:
    """Both processes, to their end."""
    given = {"workload": workload, "rows": rows, "directory": str(directory), "texts": [str(path) for path in texts]}
    (directory / "flow.json").write_text(json.dumps(given))
    recovery = directory / "recovery"
    recovery.mkdir()
    subprocess.run([sys.executable, "-m", "bytewax.recovery", str(recovery), str(PROCESSES)], check=True)
    addresses = ";".join(f"127.0.0.1:{port}" for port in _ports())
    command = [sys.executable, "-m", "bytewax.run", "benchmarks.throughput.bytewax_flows:running_flow", "-a", addresses]
    command += ["-r", str(recovery), "-s", str(max(interval_ms // 1_000, 1)), "-b", "0"]
    environment = os.environ | {"KIT_BENCH_FLOW": str(directory / "flow.json")}
    processes = [subprocess.Popen([*command, "-i", str(number)], env=environment) for number in range(PROCESSES)]
    ended = [process.wait() for process in processes]
    if any(ended):
        raise RuntimeError("a process of bytewax failed")
    seconds = time.time() - min(float((directory / f"begin-{number}").read_text()) for number in range(PROCESSES))
    checksum = workloads.added(*(int((directory / f"sum-{number}").read_text()) for number in range(PROCESSES)))
    return Measured(rows, seconds, int(seconds * 1_000 / interval_ms), checksum)


def running_flow() -> Dataflow:
    """The dataflow that a process is to run, as the file says that its environment names."""
    return flow_of(json.loads(Path(os.environ["KIT_BENCH_FLOW"]).read_text()))


def _ports() -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(PROCESSES)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


if __name__ == "__main__":
    main_of_peer(measure)
