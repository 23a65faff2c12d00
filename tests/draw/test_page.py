"""The exported page shows, frame by frame, what Python draws, and asks the network for nothing."""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from kit import Lab
from kit.draw.page import page as page_module
from kit.draw.page.page import export_html, page_html
from kit.draw.stage.drawing import graph
from kit.draw.stage.film import FilmBuilder, film_layout
from kit.draw.stage.frames import Frame, frames
from kit.draw.stage.scene import Scene
from kit.draw.views.views import VIEWS
from kit.hosts.lab import open_scenario
from kit.run.run import run_of
from tests.draw.labs import lab_of, letters
from tests.draw.script import story
from tests.draw.unpacked import drawn

# What the page shows, for each of these positions of the slider.
LOOK = """
(positions) => positions.map((position) => {
  const slider = document.querySelector(".kit-slider input");
  slider.value = position;
  slider.dispatchEvent(new Event("input"));
  const shown = {};
  for (const node of document.querySelectorAll(".kit-viewport [data-name]")) {
    const sprite = { tag: node.tagName, layer: node.parentNode.dataset.layer, text: node.textContent };
    const ofPlayer = ["data-name", "tabindex", "role", "aria-label"]; // how a keyboard reaches it, not what it is
    for (const { name, value } of node.attributes) if (!ofPlayer.includes(name)) sprite[name] = value;
    shown[node.dataset.name] = sprite;
  }
  return shown;
})
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The story as a page."""
    return export_html(story(), tmp_path_factory.mktemp("page") / "run.html", "Clicks & pages")


def as_shown(scene: Scene) -> dict[str, dict[str, str]]:
    """Return a scene in the form in which a browser reports it."""
    return {
        name: {"text": ""} | {key: value if isinstance(value, str) else f"{value:g}" for key, value in sprite.items()}
        for name, sprite in scene.items()
    }


def every_step(page: Page) -> None:
    page.get_by_label("every step").check()


def test_every_frame_is_what_python_draws(page: Page, exported: Path) -> None:
    made = frames(story())
    page.goto(exported.as_uri())
    every_step(page)
    shown = page.evaluate(LOOK, list(range(len(made))))
    for number, frame in enumerate(made):
        assert shown[number] == as_shown(drawn(frame)), f"frame {number}"


def test_jumping_about_shows_the_same_as_stepping(page: Page, tmp_path: Path) -> None:
    lab = lab_of(seed=2)
    lab.run_until(checkpoint=1)
    lab.faults.kill(0)
    lab.run()
    made = frames(lab)
    page.goto(export_html(lab, tmp_path / "lab.html").as_uri())
    every_step(page)
    some = [len(made) - 1, 0, *range(40, len(made), 97), 33, 32, 31, 5]
    for number, shown in zip(some, page.evaluate(LOOK, some), strict=True):
        assert shown == as_shown(drawn(made[number])), f"frame {number}"


def headline(page: Page) -> str:
    return page.locator("[data-says=what]").text_content() or ""


def told(made: list[Frame], mark: str) -> list[str]:
    return [frame.words.what for frame in made if frame.mark == mark]


def test_keys_step_and_jump(page: Page, exported: Path) -> None:
    made = frames(story())
    page.goto(exported.as_uri())
    assert headline(page) == "Nothing has happened yet"
    page.keyboard.press("ArrowRight")
    first = headline(page)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    assert headline(page) == first
    page.keyboard.press("c")
    assert headline(page) == told(made, "checkpoint")[0]
    page.keyboard.press("f")
    assert headline(page) == told(made, "failure")[0]
    page.keyboard.press("r")
    assert headline(page) == told(made, "restore")[0]
    page.keyboard.press("F")
    assert headline(page) == told(made, "failure")[0]
    page.keyboard.press("End")
    assert headline(page) == made[-1].words.what
    page.keyboard.press("Home")
    assert headline(page) == "Nothing has happened yet"


def test_scenario_runs_to_the_end_and_stops(page: Page, exported: Path) -> None:
    page.goto(exported.as_uri())
    page.clock.install()
    page.get_by_role("button", name="Play").click()
    page.clock.run_for(400_000)
    assert headline(page) == frames(story())[-1].words.what
    assert page.get_by_role("button", name="Play").is_visible()


def test_a_link_opens_at_its_step(page: Page, exported: Path) -> None:
    page.goto(exported.as_uri())
    page.keyboard.press("f")
    there = page.url
    page.goto("about:blank")
    page.goto(there)
    assert headline(page) == told(frames(story()), "failure")[0]


def test_no_text_leaves_the_picture_or_lies_on_another(page: Page, exported: Path) -> None:
    """At every frame: texts of the fixed parts, the panel and the tasks keep apart."""
    page.goto(exported.as_uri())
    every_step(page)
    for number in range(0, len(frames(story())), 3):
        page.evaluate(LOOK, [number])
        assert page.evaluate(OVERLAPS) == [], f"frame {number}"


OVERLAPS = """
() => {
  const picture = document.querySelector(".kit-viewport .kit-stage").getBoundingClientRect();
  const texts = [...document.querySelectorAll(".kit-viewport text")].filter(
    (node) => node.textContent && !node.closest("[data-layer=elements]"));
  const boxes = texts.map((node) => ({ text: node.textContent, box: node.getBoundingClientRect() }));
  const wrong = boxes.filter(({ box }) => box.right > picture.right || box.bottom > picture.bottom).map((b) => b.text);
  boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) => {
    const wide = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
    const high = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
    if (wide > 1 && high > 4) wrong.push(`${a.text} | ${b.text}`);
  }));
  return wrong;
}
"""


def test_the_file_names_no_other_place() -> None:
    text = page_html(story()).replace("http://www.w3.org/2000/svg", "")
    assert "http" not in text.replace("http-equiv", "")
    assert "default-src 'none'" in text


def test_data_cannot_end_the_script() -> None:
    trace = story()
    text = page_html(trace, title="<b>&</b>", intro="</script>")
    assert "<title>&lt;b&gt;" in text
    start = text.index('id="film">') + len('id="film">')
    film: dict[str, Any] = json.loads(text[start : text.index("</script>", start)])
    assert len(film["frames"]) == len(frames(trace))


def test_a_scenario_says_at_each_step_what_it_is_about(page: Page, tmp_path: Path) -> None:
    scenario = open_scenario("late-ack").run()
    page.goto(export_html(scenario, tmp_path / "scenario.html").as_uri())
    prose = [block.prose for block in scenario.text.blocks]
    assert page.inner_text(".kit-note") == prose[0]
    page.press(".kit-player", "End")
    assert page.inner_text(".kit-note") in prose[2:]
    page.set_content(f"<html><body>{scenario._repr_html_()}</body></html>")
    player = page.frames[1]
    player.wait_for_selector(".kit-note")
    player.press(".kit-player", "ArrowRight")
    assert player.inner_text(".kit-note") == prose[0]


def test_tabs_follow_the_cursor_at_milestones(page: Page, tmp_path: Path) -> None:
    lab = lab_of(seed=2)
    lab.run_until(checkpoint=1)
    lab.faults.kill(1)
    lab.run_until(checkpoint=2)
    page.goto(export_html(lab, tmp_path / "run.html").as_uri())
    assert (tmp_path / "run.html").stat().st_size < 4_000_000
    tabs = page.get_by_role("tab")
    assert tabs.all_inner_texts() == ["Space-time", *(view.title for view in VIEWS)]
    assert page.locator("#panel-space-time canvas").count() == 2
    for view in VIEWS:
        page.get_by_role("tab", name=view.title, exact=True).click()
        panel = page.get_by_role("tabpanel", name=view.title, exact=True)
        assert panel.locator(".kit-question").inner_text() == view.question
        assert panel.locator(".kit-piece > *").first.is_visible()
    page.get_by_role("tab", name="Barriers").click()
    seen = set()
    page.locator(".kit-player").focus()
    page.keyboard.press("Home")
    for _ in range(4):
        seen.add(page.locator("#panel-barriers .kit-piece").inner_html())
        page.keyboard.press("c")
    assert len(seen) > 1


def test_a_view_is_never_of_a_time_after_the_cursors(page: Page, tmp_path: Path) -> None:
    lab = lab_of(seed=2)
    lab.run_until(checkpoint=2)
    page.goto(export_html(lab, tmp_path / "run.html").as_uri())
    page.get_by_role("tab", name="Life of a checkpoint").click()
    page.locator(".kit-player").focus()
    page.keyboard.press("Home")
    assert page.locator("#panel-life .kit-as-of").inner_text() == "as it stood at 0 ms"
    seen = set()
    for _ in range(4):
        shown_ms = int(page.locator("#panel-life .kit-as-of").inner_text().split()[-2].replace(",", ""))
        cursor_ms = int(page.locator(".kit-count").inner_text().split()[-2].replace(",", ""))
        assert shown_ms <= cursor_ms
        seen.add(shown_ms)
        page.keyboard.press("c")
    assert len(seen) > 1


GROUND = "(colour) => getComputedStyle(document.body).backgroundColor === colour"
LIGHT_PAPER, DARK_PAPER = "rgb(255, 255, 255)", "rgb(20, 24, 31)"


def test_a_page_is_light_or_dark_as_its_reader_likes(page: Page, exported: Path) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto(exported.as_uri())
    page.wait_for_function(GROUND, arg=DARK_PAPER)
    page.emulate_media(color_scheme="light")
    page.wait_for_function(GROUND, arg=LIGHT_PAPER)
    page.get_by_role("button", name="Dark", exact=True).click()
    page.wait_for_function(GROUND, arg=DARK_PAPER)
    page.emulate_media(color_scheme="dark")
    page.emulate_media(color_scheme="light")
    page.wait_for_timeout(50)
    assert page.evaluate(GROUND, DARK_PAPER)


def test_a_page_draws_each_subtask_of_a_group_that_is_opened(page: Page, tmp_path: Path) -> None:
    lab = Lab(letters(parallelism=8), seed=1)
    lab.run_until(lambda lab: lab.position > 300)  # type: ignore[misc]
    page.goto(export_html(lab, tmp_path / "run.html", views=()).as_uri())
    box, subtask = page.locator('[data-name="t:totals"]'), page.locator('[data-name="t:totals/3:name"]')
    expect(box).to_have_count(1)
    for step in range(2):
        page.locator('[data-open="totals"]').click()
        expect(subtask).to_have_text("totals/3")
        expect(box).to_have_count(0)
        frame = frames(lab)[int(page.evaluate("kitModel.get('value')"))]
        drawn = page.evaluate("[...document.querySelectorAll('.kit-stage [data-name]')].map((n) => n.dataset.name)")
        layout = film_layout(frame.stage, frozenset({"letters"}))
        assert set(drawn) == set(graph(layout, frame.moment))
        page.locator('[data-open="totals"]').click()
        expect(box).to_have_count(1)
        page.locator(".kit-player").press("ArrowLeft" if step else "Home")


@pytest.fixture(scope="module")
def rescaled() -> Lab:
    """A run whose two vertices are large in the second of three epochs."""
    lab = Lab(letters(parallelism=2), seed=1)
    lab.run_until(record="AllTasksRunning")
    for parallelism in (8, 3):
        lab.rescale(parallelism, wait=True)
    return lab


def opened_in(page: str) -> dict[str, Any]:
    """Return the films of a page in which a vertex is open."""
    film = page.partition('id="film">')[2].partition("</script>")[0]
    packed = json.loads(film.replace("<\\/", "</"))["opened"]
    return {name: json.loads(zlib.decompress(b64decode(each))) for name, each in packed.items()}


def test_a_page_has_the_film_with_each_large_vertex_open(rescaled: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = opened_in(page_html(rescaled))
    assert list(opened) == ["letters", "totals"]
    for vertex, film in opened.items():
        builder = FilmBuilder([vertex])
        builder.take(run_of(rescaled))
        sets = [frame["set"] for frame in builder.film["frames"]]
        assert film == json.loads(
            json.dumps({name: builder.film[name] for name in ("stages", "looks")} | {"sets": sets})
        )
    sizes = [
        len(b64encode(zlib.compress(json.dumps(each, separators=(",", ":"), ensure_ascii=False).encode())))
        for each in opened.values()
    ]
    for most, names in ((sum(sizes), ["letters", "totals"]), (sum(sizes) - 1, ["letters"]), (sizes[0] - 1, [])):
        monkeypatch.setattr(page_module, "MOST_OPENED", most)
        assert list(opened_in(page_html(rescaled))) == names


def test_a_page_opens_where_one_stood_and_a_channel_stays_chosen_by_its_ends(page: Page, tmp_path: Path) -> None:
    lab = lab_of(1, rows=60)
    lab.run_until(checkpoint=1)
    stood = len(lab.trace) // 2
    page.goto(export_html(lab, tmp_path / "stood.html", views=(), at=stood).as_uri())
    n, following = page.evaluate(
        "(() => { const {film, value, n} = kitModel.values; return [n, film.frames[value + 1].n]; })()"
    )
    assert n <= stood < following
    # a thin lane is hit beside its line, and keeps its own colour when it is chosen
    x, y = page.evaluate(
        """() => { const lane = document.querySelector('[data-name="l0"]'), m = lane.getScreenCTM();
        const at = lane.getPointAtLength(3).matrixTransform(m); return [at.x, at.y - 5]; }"""
    )
    colour = page.locator('[data-name="l0"]').evaluate("(lane) => getComputedStyle(lane).stroke")
    page.mouse.click(x, y)
    ends = page.locator(".kit-details-head b").inner_text()
    assert page.evaluate("kitModel.get('selected')").startswith("channel:")
    assert "→" in ends
    assert page.locator('[data-name="l0"]').evaluate("(lane) => getComputedStyle(lane).stroke") == colour
    lab.rescale(3)
    lab.run_until(lambda lab: lab.look.stages[-1].epoch == 2)  # type: ignore[misc]
    for _ in range(30):
        lab.step()
    page.goto(export_html(lab, tmp_path / "rescaled.html", views=()).as_uri())
    numbers = page.evaluate(
        """() => film.stages.map(({ tasks, channels }) =>
        channels.map(([number, from, to]) => [`${tasks[from]} → ${tasks[to]}`, number]))""".replace(
            "film", "kitModel.get('film')"
        )
    )
    old, new = dict(numbers[0]), dict(numbers[-1])
    moved = next(name for name in old if name in new and old[name] != new[name])
    page.evaluate("(number) => kitModel.set('selected', `channel:${number}`)", old[moved])
    for key, number in (("End", new[moved]), ("Home", old[moved])):
        page.locator(".kit-player").press(key)
        assert page.evaluate("kitModel.get('selected')") == f"channel:{number}"
        assert page.locator(".kit-details-head b").inner_text() == moved
    added = next(name for name in new if name not in old)
    page.locator(".kit-player").press("End")
    page.evaluate("(number) => kitModel.set('selected', `channel:${number}`)", new[added])
    page.locator(".kit-player").press("Home")
    assert page.evaluate("kitModel.get('selected')") == f"gone:{added}"
