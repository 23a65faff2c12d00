"""The rescale planner deals keys as the job would."""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.draw import rescale_plan
from kit.stream.backend.keys.key_hashing import assign_key_to_parallel_operator

SVG = "{http://www.w3.org/2000/svg}"
WORDS = [f"carrier-{number}" for number in range(300)]


@given(
    st.lists(st.text(max_size=6), min_size=1, max_size=40), st.integers(1, 12), st.integers(12, 200), st.integers(1, 12)
)
def test_every_key_goes_where_the_job_sends_it(keys: list[str], parallelism: int, most: int, before: int) -> None:
    plan = rescale_plan(keys, parallelism, most, before=before)
    owners = [assign_key_to_parallel_operator(key, most, parallelism) for key in keys]
    old = [assign_key_to_parallel_operator(key, most, before) for key in keys]
    table = plan.to_pandas()
    counted = Counter(owners)
    assert table["keys"].tolist() == [counted[subtask] for subtask in range(parallelism)]
    assert plan.moved == table["moved_in"].sum() == sum(mine != other for mine, other in zip(owners, old))
    assert plan.imbalance == pytest.approx(max(counted.values()) * parallelism / len(keys))
    assert f"which subtask {owners[0]} owns" in plan.where(keys[0])


def test_key_groups_alone_make_half_the_subtasks_twice_as_full() -> None:
    plan = rescale_plan(WORDS, 85)
    assert plan.max_parallelism == plan.flinks_default == 128
    assert sorted(set(plan.to_pandas()["key_groups"])) == [1, 2]
    assert plan.group_imbalance == pytest.approx(2 * 85 / 128)
    assert rescale_plan(WORDS, 85, 85 * 20).group_imbalance == pytest.approx(1.0)


def test_the_same_keys_at_other_parallelisms() -> None:
    plan = rescale_plan(WORDS, 4)
    table = plan.across([3, 4, 5, 128]).set_index("parallelism")
    assert table.loc[4, "moved"] == 0
    assert table.loc[3, "moved"] == rescale_plan(WORDS, 3, 128, before=4).moved > 0
    assert table.loc[128, "idle"] == 128 - len({assign_key_to_parallel_operator(key, 128, 128) for key in WORDS})


def test_the_picture_says_what_moves_only_when_something_does() -> None:
    assert "that another subtask had" in rescale_plan(WORDS, 3, before=2).svg()
    assert "that another subtask had" not in rescale_plan(WORDS, 3).svg()
    assert rescale_plan([], 2).svg().startswith("<svg")


@given(st.lists(st.integers(0, 40), min_size=1, max_size=300), st.integers(1, 30))
def test_no_number_lies_on_the_line_of_an_even_part(keys: list[int], parallelism: int) -> None:
    drawn = ElementTree.fromstring(rescale_plan(keys, parallelism).svg())
    lines = [node for node in drawn.iter(f"{SVG}path") if node.get("class") == "rp-even"]
    even = float(lines[0].attrib["d"].partition(" ")[2].partition("H")[0])
    numbers = [node for node in drawn.iter(f"{SVG}text") if node.get("class") == "rp-number"]
    assert numbers
    for number in numbers:
        baseline = float(number.attrib["y"])
        assert not baseline - 8.5 < even < baseline, f"{number.text} is crossed"


def test_flinks_default_stands_beside_another_choice() -> None:
    plan = rescale_plan(WORDS, 6, 8)
    assert plan.default is not None
    assert plan.default.max_parallelism == 128
    assert plan.default.counts.tolist() == rescale_plan(WORDS, 6, 128).counts.tolist()
    table = plan.beside().set_index("plan")
    assert table.loc["chosen", "headroom"] == pytest.approx(8 / 6, abs=1e-3)
    assert table.loc["Flink's default", "imbalance"] == pytest.approx(rescale_plan(WORDS, 6).imbalance, abs=1e-3)
    assert "Beside it Flink&#x27;s default, 128 key groups" in plan._repr_html_()
    assert rescale_plan(WORDS, 6).default is None


def test_the_same_keys_dealt_out_otherwise() -> None:
    plan = rescale_plan(WORDS, 4)
    for parallelism, most in ((3, 128), (7, 1000), (2, 8)):
        other, fresh = plan.replaced(parallelism, most), rescale_plan(WORDS, parallelism, most)
        assert other.counts.tolist() == fresh.counts.tolist()
        assert other.caption == fresh.caption
    with pytest.raises(ValueError, match="must not be smaller"):
        plan.replaced(9, 8)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="Maximum parallelism must not be smaller"):
        rescale_plan(WORDS, 200, 128)
    with pytest.raises(ValueError, match="not within bounds"):
        rescale_plan(WORDS, 0)
