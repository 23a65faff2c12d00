"""The pictures of the README and the guide, made from real runs.

They show the explorer in JupyterLab, its answers to five questions of a new user, and the path of a barrier as a film.

    python -m scripts.pictures                  writes docs/explorer-*.png and docs/barrier.gif
    python -m scripts.pictures questions        writes docs/explorer-question-*.png only

Needs Chromium (`scripts/setup.sh browser`). All show runs that are the same each time, so what is seen changes only
when the stage does.
"""

from __future__ import annotations

import io
import re
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import Page, ViewportSize, expect, sync_playwright

from kit import CheckpointConfig, CollectionSource, CollectSink, Lab, StreamEnvironment, sum_
from kit.draw.page.page import export_html
from tests.house.files import ROOT
from tests.widgets.five_questions import CELL, QUESTIONS
from tests.widgets.hands import Player
from tests.widgets.jupyter import Notebook, jupyter_lab, write_notebook

DOCS = ROOT / "docs"
WIDTH, FILM_WIDTH = 1280, 900
SMALL_SCREEN: ViewportSize = {"width": 1366, "height": 768}
FRAME_MS, LAST_MS = 800, 4_000
TOLD = re.compile(r"\b(barrier|checkpoint) 1\b|acknowledges|snapshot", re.IGNORECASE)
"""Steps that are in the film: not every record that goes by."""
COLOURS = 128
EXPLORER = """
from kit import Lab
from kit.hosts.lab import ready_job

lab = Lab(ready_job("flights"), seed=0)
lab.run_until(record="AllTasksRunning")
lab.trigger_checkpoint()
lab.run_until(lambda lab: sum(channel.blocked for channel in lab.moment().channels.values()) >= 2)
lab.show()
"""


def letters() -> Lab:
    """A small job whose first checkpoint is complete."""
    env = StreamEnvironment("letters", parallelism=2, checkpoint=CheckpointConfig(interval_ms=None))
    rows = [{"letter": "abcd"[n % 4], "n": n} for n in range(60)]
    stream = env.from_source(CollectionSource(rows, splits=2, batch_rows=1), uid="letters")
    stream.key_by("letter").aggregate(total=sum_("n")).uid("totals").sink_to(CollectSink("out"), uid="out")
    lab = Lab(env, seed=4)
    lab.run_until(lambda lab: lab.look.at_ms >= 30)
    lab.trigger_checkpoint()
    lab.run_until(checkpoint=1)
    return lab


def explorer(page: Page, folder: Path) -> None:
    """The explorer as it opens in a notebook, in both themes."""
    write_notebook(folder / "notebooks" / "n.ipynb", [EXPLORER])
    with jupyter_lab(folder) as address:
        page.set_viewport_size({"width": WIDTH, "height": 1500})
        notebook = Notebook(page, address, "n.ipynb")
        notebook.run_all()
        app = page.locator(".kit-explorer")
        app.wait_for()
        for theme in ("Light", "Dark"):
            notebook.theme(theme)
            page.wait_for_timeout(1_500)
            shot = Image.open(io.BytesIO(app.screenshot()))
            shot.convert("RGB").quantize(128).save(DOCS / f"explorer-{theme.lower()}.png", optimize=True)


def questions(page: Page, folder: Path) -> None:
    """The explorer with the answer to each question of a new user, in both themes."""
    write_notebook(folder / "notebooks" / "questions.ipynb", [CELL])
    with jupyter_lab(folder) as address:
        page.set_viewport_size(SMALL_SCREEN)
        for theme in ("Light", "Dark"):
            notebook = Notebook(page, address, "questions.ipynb")
            notebook.theme(theme)
            notebook.run_all()
            app = page.locator(".kit-explorer")
            page.evaluate("document.querySelector('.jp-Cell').scrollIntoView()")
            player = Player(notebook, app)
            for number, question in enumerate(QUESTIONS, 1):
                expect(question.moves(player)).to_contain_text(question.says)
                page.mouse.move(0, 0)
                page.wait_for_timeout(1_000)
                shot = Image.open(io.BytesIO(app.screenshot()))
                file = DOCS / f"explorer-question-{number}-{theme.lower()}.png"
                shot.convert("RGB").quantize(COLOURS).save(file, optimize=True)


def film(page: Page, folder: Path) -> None:
    """A barrier's path, frame by frame, from the request to the complete checkpoint."""
    path = export_html(letters(), folder / "run.html")
    page.set_viewport_size({"width": FILM_WIDTH, "height": 900})
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    page.goto(path.as_uri())
    part = _part(page)
    shots: list[Image.Image] = []
    for n in range(page.evaluate("kitModel.get('film').frames.length")):
        page.evaluate("(n) => kitModel.set('value', n)", n)
        if TOLD.search(page.locator(".kit-words").inner_text()):
            page.wait_for_timeout(350)
            shots.append(Image.open(io.BytesIO(page.screenshot(clip=part))).convert("RGB"))
    palette = _all(shots).quantize(COLOURS)
    pictures = [shot.quantize(COLOURS, palette=palette, dither=Image.Dither.NONE) for shot in shots]
    lengths = [FRAME_MS] * (len(pictures) - 1) + [LAST_MS]
    pictures[0].save(
        DOCS / "barrier.gif", save_all=True, append_images=pictures[1:], duration=lengths, loop=0, optimize=True
    )


def _all(shots: list[Image.Image]) -> Image.Image:
    """All of them below one another: the film's colours are those of the whole."""
    width, height = shots[0].size
    sheet = Image.new("RGB", (width, height * len(shots)))
    for n, shot in enumerate(shots):
        sheet.paste(shot, (0, n * height))
    return sheet


def _part(page: Page) -> dict[str, float]:
    """Return the part of the page that the film shows: the step's text, the JobMaster and the stage."""
    top, bottom = (page.locator(name).first.bounding_box() for name in (".kit-words", ".kit-stage-side svg.kit-stage"))
    assert top is not None
    assert bottom is not None
    return {"x": 0, "y": top["y"] - 8, "width": FILM_WIDTH, "height": bottom["y"] + bottom["height"] - top["y"] + 12}


def main() -> int:
    """Write them all, or those that are named."""
    named = set(sys.argv[1:]) or {"explorer", "questions", "film"}
    with TemporaryDirectory() as folder, sync_playwright() as browsers:
        browser = browsers.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        for make in (explorer, questions, film):
            if make.__name__ in named:
                page = browser.new_page(device_scale_factor=1)
                make(page, Path(folder))
                page.close()
        browser.close()
    for path in sorted([*DOCS.glob("explorer-*.png"), *DOCS.glob("*.gif")]):
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
