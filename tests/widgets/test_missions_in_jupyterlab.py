"""The twelve missions in a real JupyterLab: with mouse, menus and search, as their hints say.

Each run is then saved as a page. The page has the mission and its verdict, and is stepped through from its start to its
end.

To record this, run `make missions`. It plays all twelve, and sets `KIT_LOOKS` to the folder of the recording: a
screenshot of each mission and of its page, and `missions.gif`, which shows every move.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from kit.course.missions.missions import MISSIONS
from tests.draw.looks import KEEP_TEXTS, WRONG, photograph, picture_file
from tests.widgets.hands import ABORTED, ACKNOWLEDGED, BEGINS, COMPLETE, ENDED, MOST_STEPS, RUNNING, Player
from tests.widgets.jupyter import Notebook, jupyter_lab, write_notebook

CELL = 'import kit\nexplorer = kit.show("keyed-sum")\nexplorer'
FRAME_MS, LAST_MS, COLOURS = 700, 2_500, 64
PATIENCE_MS = 30_000


def hold_back(player: Player, sender: str, receiver: str) -> None:
    player.offered(player.channel(sender, receiver), "Hold it back", moved=False)


def running(player: Player) -> None:
    player.until(RUNNING)
    player.trigger()


def two_checkpoints(player: Player) -> None:
    running(player)
    player.until(COMPLETE)
    player.trigger()
    player.until(COMPLETE)


def expire(player: Player) -> None:
    running(player)
    player.until(COMPLETE)
    player.offered('[data-name="t:letters/1:name"]', "Freeze worker 1")
    player.trigger()
    player.until(ABORTED)


def lost_acknowledgement(player: Player) -> None:
    running(player)
    player.until(ACKNOWLEDGED)
    player.offered('[data-name^="m:"][data-name$=":out"]', "Lose it")
    player.until(ENDED)


def failed_write(player: Player) -> None:
    running(player)
    for _ in range(MOST_STEPS):
        if player.ask("any('WriteSnapshot' in each.text for each in explorer.lab.faults.possible())"):
            break
        player.step()
    player.fault("WriteSnapshot io")
    player.until(ABORTED)
    player.trigger()
    player.until(COMPLETE)


def blocked_channel(player: Player) -> None:
    player.until(RUNNING)
    hold_back(player, "letters/1", "sums/0")
    player.trigger()
    player.step_until_done()


def overtaking(player: Player) -> None:
    running(player)
    player.until(COMPLETE)


def restore(player: Player) -> None:
    running(player)
    player.until(COMPLETE)
    player.offered('[data-name="t:totals/1:name"]', "Kill worker 1")
    player.until(RUNNING)


def lost_checkpoint(player: Player) -> None:
    running(player)
    player.until(BEGINS)
    player.offered('[data-name="t:sums/1:name"]', "Kill worker 1")
    running(player)
    player.until(COMPLETE)


def lost_notification(player: Player) -> None:
    running(player)
    player.until(COMPLETE)
    player.offered('[data-name="m:sums/1:in"]', "Lose it")
    player.trigger()
    player.step_until_done()


def late_acknowledgement(player: Player) -> None:
    running(player)
    player.until(ACKNOWLEDGED)
    player.offered('[data-name^="m:"][data-name$=":out"]', "Hold it back for a second")
    player.until(ABORTED)
    player.until(ENDED)


def duplicate(player: Player) -> None:
    player.until(RUNNING)
    hold_back(player, "right/0", "sums/0")
    player.trigger()
    player.until(COMPLETE)
    player.offered('[data-name="t:sums/0:name"]', "Kill worker 0")
    player.until(ENDED)


def rescale(player: Player) -> None:
    player.until(RUNNING)
    player.press("Rescale")
    player.app.get_by_label("sums", exact=True).fill("3")
    player.app.get_by_label("letters", exact=True).fill("3")
    player.page.keyboard.press("Tab")
    player.press("Rescale", ".mod-primary:visible")
    expect(player.app.get_by_text("was given to the tasks of epoch 2")).to_be_visible()
    player.until(ENDED)


PLAYS: dict[str, Callable[[Player], None]] = {
    "two-checkpoints": two_checkpoints,
    "expire": expire,
    "lost-acknowledgement": lost_acknowledgement,
    "failed-write": failed_write,
    "blocked-channel": blocked_channel,
    "overtaking": overtaking,
    "restore": restore,
    "lost-checkpoint": lost_checkpoint,
    "lost-notification": lost_notification,
    "late-acknowledgement": late_acknowledgement,
    "duplicate": duplicate,
    "rescale": rescale,
}


@pytest.fixture(scope="module")
def player(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Player]:
    """Somebody at an explorer on a small screen; in the end, a video of the session is written."""
    folder = tmp_path_factory.mktemp("missions")
    write_notebook(folder / "notebooks" / "missions.ipynb", [CELL])
    with jupyter_lab(folder) as address:
        page = new_page(browser)
        notebook = Notebook(page, address, "missions.ipynb")
        notebook.run_all()
        page.evaluate("document.querySelector('.jp-Cell').scrollIntoView()")
        player = Player(notebook, page.locator(".kit-explorer"))
        expect.set_options(timeout=PATIENCE_MS)
        yield player
        expect.set_options(timeout=5_000)
        if player.frames:
            film(player.frames, picture_file(folder, "missions").with_suffix(".gif"))
        page.close()


def new_page(browser: Browser) -> Page:
    page = browser.new_page(viewport={"width": 1366, "height": 768})
    page.add_init_script(KEEP_TEXTS)
    return page


def test_each_mission_has_a_play() -> None:
    assert list(PLAYS) == list(MISSIONS)


@pytest.mark.soak
@pytest.mark.parametrize("name", PLAYS)
def test_a_mission_is_played_by_hand(player: Player, browser: Browser, name: str, tmp_path: Path) -> None:
    wrong: list[str] = []
    pages = new_page(browser)
    for each in (player.page, pages):
        each.on("pageerror", lambda error: wrong.append(str(error)))
    begin(player, name)
    PLAYS[name](player)
    wrong += accomplished(player, name)
    saved = save(player, tmp_path / f"{name}.html")
    wrong += stepped_through(pages, saved, name, int(str(player.ask("explorer.lab.position"))))
    pages.close()
    assert wrong == []


def begin(player: Player, name: str) -> None:
    """Choose a mission, and start it."""
    player.tab("Missions")
    player.app.locator(".jupyter-widget-tab select:visible").first.select_option(index=list(MISSIONS).index(name))
    player.press("Start")
    expect(player.app.locator(".kit-aside .kit-mission")).to_contain_text(f"○ {MISSIONS[name].title}: ")
    player.look()


def accomplished(player: Player, name: str) -> list[str]:
    """Check that the explorer calls the mission accomplished; return what is wrong in its looks."""
    number, title = list(MISSIONS).index(name) + 1, MISSIONS[name].title
    expect(player.app.locator(".kit-aside .kit-mission")).to_contain_text(f"✓ {title}: ")
    player.tab("Missions")
    expect(player.app.locator(".jupyter-widget-tab select:visible").first).to_contain_text(f"✓ {number}. {title}")
    player.look()
    photograph(player.page, *picture_of(name))
    return [f"{name}: {each}" for each in player.app.evaluate(WRONG)]


def save(player: Player, path: Path) -> Path:
    """Save the run as a page."""
    player.tab("Save")
    player.app.get_by_label("file", exact=True).fill(str(path))
    player.page.keyboard.press("Tab")
    player.app.locator('.jupyter-button[title="write the file"]').click()
    expect(player.app.locator(".widget-html:visible", has_text="Written: ")).to_contain_text(path.name)
    return path


def stepped_through(page: Page, saved: Path, name: str, at: int) -> list[str]:
    """Step through the run of a mission on its page, which calls it accomplished; return what is wrong in its looks.

    The last step has the number `at`, as in the explorer.
    """
    page.goto(saved.as_uri())
    expect(page.locator(".kit-mission")).to_contain_text(f"The run on this page: ✓ {MISSIONS[name].title}: ")
    page.locator(".kit-player").press("Home")
    count, step = page.locator(".kit-count"), page.get_by_role("button", name="Step", exact=True)
    expect(count).to_have_text(re.compile("^step 0 of "))
    while step.is_enabled():
        step.click()
    expect(count).to_have_text(re.compile(f"^step {at:,} of {at:,},"))
    photograph(page, *picture_of(name), "page")
    return [f"{name}, the page: {each}" for each in page.locator(".kit-player").evaluate(WRONG)]


def picture_of(name: str) -> tuple[str, str, str]:
    """Return the words that name a mission's screenshot."""
    return "mission", f"{list(MISSIONS).index(name) + 1:02}", name


def film(frames: list[Image.Image], file: Path) -> None:
    """Write the pictures one after another as one animated picture."""
    first, *others = [frame.quantize(COLOURS) for frame in frames]
    lengths = [FRAME_MS] * len(others) + [LAST_MS]
    first.save(file, save_all=True, append_images=others, duration=lengths, loop=0, optimize=True)
