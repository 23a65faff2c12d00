"""The main pictures of the course for a teacher's slides, as SVG and PNG in build/slides: `make slides`.

Each is a moment of a run in the lab, drawn by the kit's own doors; nothing is drawn for slides alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import sync_playwright

from kit.course.classroom.running import letters, reached, walked
from kit.draw import at_risk, barriers, chains, checkpoint_life, rescaling, snapshot_contents, space_time
from kit.hosts.lab.lab import Lab

ROOT = Path(__file__).resolve().parent.parent
TO = ROOT / "build" / "slides"
SCALE = 2
"""Pixels of a PNG for each of the SVG's."""


def aligning() -> Lab:
    """A task has one of its two barriers."""
    lab = Lab(letters(), seed=2)
    lab.run_until(until=lambda now: any(each.blocked for task in now._world.tasks.values() for each in task.inputs))
    return lab


def complete() -> Lab:
    """The first checkpoint is complete."""
    return reached(Lab(letters(), seed=2), "CheckpointCompleted")


def rescaled() -> Lab:
    """The job was stopped with two subtasks and has gone on with three."""
    before = Lab(letters(interval_ms=2_000), seed=2)
    before.run_until(until=lambda lab: lab.position >= 40)
    path = before.stop(wait=True)
    return walked(Lab(letters(parallelism=3), restore_path=path, after=before))


PICTURES: dict[str, Callable[[], object]] = {
    "chains": lambda: chains(Lab(letters())).svg(),
    "alignment": lambda: aligning().look.svg(),  # noqa: PLW0108
    "who-waits-for-whom": lambda: barriers(aligning()).svg(),
    "space-time": lambda: space_time(complete()).svg(),
    "checkpoint-life": lambda: checkpoint_life(complete(), checkpoint=1).svg(),
    "snapshot": lambda: snapshot_contents(complete()).svg(),
    "at-risk": lambda: at_risk(aligning()).svg(),
    "rescaling": lambda: rescaling(rescaled()).svg(),
}


def main() -> None:
    """Write all pictures."""
    TO.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as browsers:
        browser = browsers.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(device_scale_factor=SCALE)
        for name, draw in PICTURES.items():
            svg = str(draw())
            (TO / f"{name}.svg").write_text(svg, "utf-8")
            page.set_content(f'<body style="margin:0;background:white">{svg}</body>')
            page.locator("svg").first.screenshot(path=str(TO / f"{name}.png"))
            print(f"{(TO / name).relative_to(ROOT)}.svg, .png")
        browser.close()


if __name__ == "__main__":
    main()
