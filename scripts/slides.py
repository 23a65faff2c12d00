"""A deck for a lecture, as one page of 16:9 slides with notes, and its pictures: `make slides` writes build/slides.

    index.html      the slides: arrow keys turn the page, and `n` shows the notes

    notes.md        the notes of all slides

    <name>.svg      each picture alone, also as PNG

Each picture is a moment of a run in the lab or a figure of the course, drawn by the kit's public functions; nothing is
drawn for slides alone.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path

from playwright.sync_api import sync_playwright

from kit.course.classroom.running import letters, reached, walked
from kit.draw import at_risk, barriers, chains, checkpoint_life, rescaling, snapshot_contents, space_time
from kit.draw.ideas.ideas import alignment, cuts, key_groups, lifetime, overtaking
from kit.hosts.lab.lab import Lab

ROOT = Path(__file__).resolve().parent.parent
TO = ROOT / "build" / "slides"
SCALE = 2
"""Pixels of a PNG for each of the SVG's."""


@dataclass(frozen=True)
class Slide:
    """A slide: one statement, one picture, and what the teacher says and asks."""

    name: str
    title: str
    draw: Callable[[], object]
    says: str
    asks: str
    reads: str
    """The notebook to read, by its number."""


def aligning() -> Lab:
    """Return a lab in which a task has one of its two barriers."""
    lab = Lab(letters(), seed=2)
    lab.run_until(until=lambda now: any(each.blocked for task in now._world.tasks.values() for each in task.inputs))
    return lab


def complete() -> Lab:
    """Return a lab whose first checkpoint is complete."""
    return reached(Lab(letters(), seed=2), "CheckpointCompleted")


def rescaled() -> Lab:
    """Return a lab whose job was stopped with two subtasks and resumed with three."""
    before = Lab(letters(interval_ms=2_000), seed=2)
    before.run_until(until=lambda lab: lab.position >= 40)
    path = before.stop(wait=True)
    return walked(Lab(letters(parallelism=3), restore_path=path, after=before))


SLIDES = (
    Slide(
        "chains",
        "A program becomes tasks",
        lambda: chains(Lab(letters())).svg(),
        "Operators in one box run in one task and copy their state together. An arrow between boxes is a "
        "channel for each pair of subtasks.",
        "Which edge separates two tasks here, and why can it not be chained?",
        "01",
    ),
    Slide(
        "cuts",
        "A cut is consistent if no record crosses it backwards",
        cuts,
        "Measure where a record is processed, not where it is sent. On the left the record is on one side "
        "of the cut at both ends; on the right it is counted twice after a restore.",
        "In the wrong cut: which term of the invariant has the record twice?",
        "02",
    ),
    Slide(
        "alignment",
        "A task waits for the last barrier",
        alignment,
        "The channel whose barrier has arrived is blocked, and the other is read. So the state has exactly "
        "the records ahead of the barriers.",
        "What happens to the senders of the blocked channel if this takes a minute?",
        "02",
    ),
    Slide(
        "alignment-in-a-job",
        "Alignment in a running job",
        lambda: aligning().look.svg(),  # noqa: PLW0108
        "The same in a job of the lab. Let the class find the blocked channel before you point at it.",
        "Which event must come next so that the task takes its snapshot?",
        "02",
    ),
    Slide(
        "who-waits-for-whom",
        "Barriers move with the data",
        lambda: barriers(aligning()).svg(),
        "A task can be late only if a task ahead of it is late, or if its own queue is full.",
        "Which single slow task would hold up the whole checkpoint?",
        "02",
    ),
    Slide(
        "space-time",
        "A checkpoint over time",
        lambda: space_time(complete()).svg(),
        "Each line is a task, each arrow a message. The checkpoint is the line through the snapshots: "
        "follow it from top to bottom.",
        "Find an arrow that crosses the line. Is that allowed, and who keeps its record?",
        "02",
    ),
    Slide(
        "overtaking",
        "An unaligned barrier overtakes the queue",
        overtaking,
        "The barrier goes ahead at once, and the overtaken records are stored with the checkpoint: less "
        "time, more bytes.",
        "When do you prefer to wait?",
        "03",
    ),
    Slide(
        "lifetime",
        "The life of a pending checkpoint",
        lifetime,
        "Until it is stored, anything may abort it. From then on it counts, also if nobody has been notified.",
        "A worker dies in each of these phases. From which checkpoint does the job resume?",
        "04",
    ),
    Slide(
        "checkpoint-life",
        "One checkpoint with its clocks",
        lambda: checkpoint_life(complete(), checkpoint=1).svg(),
        "The phases of the previous slide for a checkpoint that was taken in the lab.",
        "Which phase would grow with the size of the state, and which with backpressure?",
        "04",
    ),
    Slide(
        "snapshot",
        "What the files hold",
        lambda: snapshot_contents(complete()).svg(),
        "Each bar is a file, each piece has an owner. `_metadata` lists all others.",
        "A file is missing at a restore. Which tasks cannot start?",
        "06",
    ),
    Slide(
        "key-groups",
        "Key groups move, keys do not",
        key_groups,
        "The number of key groups never changes. A rescale moves whole ranges of them, and in-flight records follow.",
        "Which key groups move from two to three subtasks?",
        "07",
    ),
    Slide(
        "rescaling",
        "A rescale in a job",
        lambda: rescaling(rescaled()).svg(),
        "Old subtasks on one side, new ones on the other, with the ranges they exchange.",
        "Which new subtask reads two files?",
        "07",
    ),
    Slide(
        "at-risk",
        "What a failure would undo",
        lambda: at_risk(aligning()).svg(),
        "Everything since the last completed checkpoint is done again. That is the price of a long interval.",
        "How does the interval change this picture, and what does a short one cost?",
        "08",
    ),
)

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>The checkpoint kit: slides</title><style>
@page { size: 13.333in 7.5in; margin: 0 }
body { margin: 0; font-family: system-ui, sans-serif; color: #1a1a1a; background: #444 }
section { box-sizing: border-box; width: 1280px; height: 720px; margin: 0 auto; padding: 40px 56px; background: #fff;
  display: none; flex-direction: column; page-break-after: always }
section.on { display: flex }
h1 { font-size: 38px; margin: 0 0 20px }
.picture { flex: 1; min-height: 0; display: flex; align-items: center; justify-content: center }
.picture svg { width: 100%; height: 100%; max-height: 100%; max-width: 100% !important }
footer { font-size: 16px; color: #555; display: flex; justify-content: space-between }
aside { display: none; width: 1168px; margin: 0 auto; padding: 16px 56px; background: #ffe; font-size: 20px }
body.notes section.on + aside { display: block }
@media print { body { background: #fff } section { display: flex } }
</style></head><body>
SLIDES
<script>
const slides = [...document.querySelectorAll("section")];
let at = Math.min(slides.length, Math.max(1, +location.hash.slice(1) || 1));
function show() { slides.forEach((each, n) => each.classList.toggle("on", n + 1 === at)); location.hash = at; }
addEventListener("keydown", event => {
  if (["ArrowRight", "PageDown", " "].includes(event.key)) at = Math.min(slides.length, at + 1);
  else if (["ArrowLeft", "PageUp"].includes(event.key)) at = Math.max(1, at - 1);
  else if (event.key === "n") document.body.classList.toggle("notes");
  show();
});
show();
</script></body></html>
"""


def page(slides: Iterable[Slide], pictures: dict[str, str]) -> str:
    """Return the deck, with the pictures by the names of their slides."""
    found = list(slides)
    parts = [
        f"<section><h1>{escape(each.title)}</h1><div class='picture'>{pictures[each.name]}</div>"
        f"<footer><span>notebook {each.reads}</span><span>{number} / {len(found)}</span></footer></section>"
        f"<aside><p>{escape(each.says)}</p><p><b>Ask:</b> {escape(each.asks)}</p></aside>"
        for number, each in enumerate(found, 1)
    ]
    return PAGE.replace("SLIDES", "\n".join(parts))


def notes(slides: Iterable[Slide]) -> str:
    """Return the notes of all slides as Markdown."""
    parts = [
        f"## {number}. {each.title}\n\n{each.says}\n\n**Ask:** {each.asks}\n\nRead: notebook {each.reads}.\n"
        for number, each in enumerate(slides, 1)
    ]
    return "# Notes\n\n" + "\n".join(parts)


def scalable(svg: str) -> str:
    """Return a picture that fills its slide: with a view box, and without a size of its own."""
    head, end, rest = svg.partition(">")
    if "viewBox" not in head:
        sizes = {name: head.partition(f'{name}="')[2].partition('"')[0] for name in ("width", "height")}
        head = f'{head} viewBox="0 0 {sizes["width"]} {sizes["height"]}"'
    return head + end + rest


def main() -> None:
    """Write the deck, the notes and all pictures."""
    TO.mkdir(parents=True, exist_ok=True)
    pictures = {slide.name: str(slide.draw()) for slide in SLIDES}
    (TO / "index.html").write_text(page(SLIDES, {name: scalable(svg) for name, svg in pictures.items()}), "utf-8")
    (TO / "notes.md").write_text(notes(SLIDES), "utf-8")
    with sync_playwright() as browsers:
        browser = browsers.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page_ = browser.new_page(device_scale_factor=SCALE)
        for name, svg in pictures.items():
            (TO / f"{name}.svg").write_text(svg, "utf-8")
            page_.set_content(f'<body style="margin:0;background:white">{svg}</body>')
            page_.locator("svg").first.screenshot(path=str(TO / f"{name}.png"))
        browser.close()
    print(f"{(TO / 'index.html').relative_to(ROOT)}: {len(SLIDES)} slides, and {len(SLIDES)} pictures as SVG and PNG")


if __name__ == "__main__":
    main()
