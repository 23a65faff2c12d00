"""The README's examples do what it says, as a newcomer would run them: each by itself, in an empty directory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).resolve().parents[2]
IN_THE_LAB, START_ON_SPARK, WAIT_ON_SPARK, OPENED = re.findall(
    r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL
)
ON_SPARK = START_ON_SPARK + WAIT_ON_SPARK


def run(code: str, directory: Path) -> str:
    """Run the code, which must not fail, and return what it prints."""
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_the_lab(tmp_path: Path) -> None:
    said = run(
        f"{IN_THE_LAB}\nprint(lab.position > 0, lab.look.svg().startswith('<'), len(lab.enabled()) > 0)\n"
        "lab.run()\nprint(lab.ended, lab.output('out').groupby('letter')['total'].last().tolist())",
        tmp_path,
    )
    lab, enabled, *_, first, second = said.splitlines()
    assert lab.startswith("Lab(letters, step ")
    assert re.fullmatch(r"\d+ things may happen next", enabled)
    assert first == "True True True"
    assert second == f"True {[sum(range(rest, 40, 3)) for rest in range(3)]}"


def test_a_checkpoint_of_the_lab_is_opened_twice(tmp_path: Path) -> None:
    said = run(f"{IN_THE_LAB}\n{OPENED}\n{OPENED}\n{IN_THE_LAB}\n{OPENED}\nprint(type(checkpoint.show()))", tmp_path)
    assert said.count("Checkpoint 1 restores") == 3
    assert "CheckpointBrowser" in said.splitlines()[-1]


def test_every_block_runs_as_it_stands() -> None:
    blocks = re.findall(r"^```(\w*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert blocks == ["python", ""] * 4
    commands = re.findall(r"^    (\S.*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    others = [line for line in commands if not line.startswith('pip install ".[')]
    assert {line.split()[0] for line in others} == {"make"}
    assert [line for line in others if line.split()[1] not in targets] == []


@pytest.mark.spark
def test_spark_twice_in_a_row_and_with_a_worker_that_dies_the_second_time(tmp_path: Path) -> None:
    faults = "job.wait_until_running()\njob.faults.kill(0)\nfrom widgets import Monitor\nMonitor()\n"
    said = run(f"{ON_SPARK}\n{START_ON_SPARK}{faults}{WAIT_ON_SPARK}", tmp_path)
    assert said.count("COMPLETED") >= 2
    assert len(re.findall(r"key *\| *total", said)) == 2
    parts = [pq.read_table(part) for part in (tmp_path / "sums").glob("part-*.parquet")]
    assert sum(part.num_rows for part in parts) == 1_000


def test_what_the_examples_leave_is_ignored_by_git() -> None:
    left = [*re.findall(r'directory="(\w+)"', ON_SPARK), *re.findall(r'ParquetSink\("(\w+)"', ON_SPARK)]
    assert len(left) == 2
    for name in [*left, "spark-warehouse", "metastore_db"]:
        asked = ["git", "-c", "safe.directory=*", "check-ignore", "-q", f"{name}/part-0"]
        assert subprocess.run(asked, cwd=ROOT, check=False).returncode == 0, name


def test_the_readmes_links_and_pictures_are_there_and_light() -> None:
    text = (ROOT / "README.md").read_text()
    named = re.findall(r"\]\(([^)#]+)\)|(?:src|srcset)=\"([^\"]+)\"", text)
    paths = [ROOT / (link or picture) for link, picture in named]
    assert [path for path in paths if not path.exists()] == []
    pictures = [path for path in paths if path.suffix in (".png", ".gif", ".svg")]
    assert {path.name for path in pictures} == {"explorer-dark.png", "explorer-light.png", "barrier.gif"}
    assert max(path.stat().st_size for path in pictures) <= 1_000_000
