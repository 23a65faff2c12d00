"""The first questions of a new user, and the moves that show the answers. Each question starts where the last one
ended.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from playwright.sync_api import Locator

from tests.widgets.hands import COMPLETE, RUNNING, Player

CELL = """from kit.hosts.lab import Lab, ready_job
explorer = Lab(ready_job("transfers", rows=60, restart=3)).show()
explorer"""

POSITION = re.compile(r"east/0: split rows-0, up to position \d+")


class Question(NamedTuple):
    """A question, the moves, and words of the answer, which they return."""

    asks: str
    moves: Callable[[Player], Locator]
    says: str | re.Pattern[str]


def why_blocked(player: Player) -> Locator:
    """A click on the lock."""
    player.until(RUNNING)
    for _ in range(2):
        player.trigger()
        player.until(COMPLETE)
    player.trigger()
    player.until("accounts/1 has its barrier")
    player.app.locator(".kit-viewport .lock").first.dispatch_event("click")
    return player.app.locator(".kit-added-details table").first


def who_made_it_slow(player: Player) -> Locator:
    """A click on the checkpoint."""
    player.close_details()
    player.until(COMPLETE)
    player.app.locator(".kit-chip").last.click()
    return player.app.locator(".kit-added-details tbody tr").first


def what_a_death_loses(player: Player) -> Locator:
    """A click on a task, and what its details offer."""
    player.close_details()
    for _ in range(20):
        player.step()
    player.app.locator('.kit-viewport [data-name="t:accounts/1:name"]').dispatch_event("click")
    player.app.get_by_role("button", name="What if worker 1 died now?").click()
    return player.app.locator(".kit-added-details ul").first


def which_records(player: Player) -> Locator:
    """The view of a snapshot."""
    player.close_details()
    player.tab("Look closer")
    player.app.get_by_role("button", name="Snapshot", exact=True).click()
    return player.app.locator(".kit-panel ul").first


def who_got_which_key(player: Player) -> Locator:
    """Rescale, and ask for the key."""
    player.press("Rescale")
    player.app.get_by_label("accounts", exact=True).fill("3")
    player.page.keyboard.press("Tab")
    player.press("Rescale", ".mod-primary:visible")
    player.app.locator(".jupyter-widget-tab").get_by_role("button", name="eve", exact=True).click()
    return player.app.locator(".kit-panel p", has_text="Key 'eve'").first


QUESTIONS = (
    Question(
        "Why is a channel blocked?", why_blocked, "reads nothing more from it until barrier 3 of east/0 has arrived"
    ),
    Question("Who made a checkpoint slow?", who_made_it_slow, "the longest wait was for accounts/1"),
    Question("What does a death lose?", what_a_death_loses, "All tasks would restart from checkpoint 3."),
    Question("Which records are in checkpoint 3?", which_records, POSITION),
    Question("Who got which key?", who_got_which_key, "it was with accounts/0 and is with accounts/1 now"),
)
