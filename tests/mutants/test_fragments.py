"""A fragment is found by its syntax, however it is laid out and whatever its local variables are called."""

from __future__ import annotations

import ast
import textwrap

import pytest

from tests.mutants.fragments import Fragment

KNOWN = {"limit": 3, "check": print}


def replaced(function: str, old: str, new: str) -> str:
    definition = ast.parse(textwrap.dedent(function)).body[0]
    fragment = Fragment(old, KNOWN)
    (place,) = fragment.places(definition)
    fragment.replace(place, new)
    return "\n".join(ast.unparse(ast.fix_missing_locations(definition)).splitlines()[1:])


def test_layout_quotes_and_comments_do_not_count() -> None:
    function = """
    def f(rows):
        return check(
            rows,  # all of them
            'name',
        )
    """
    assert replaced(function, 'check(rows, "name")', "None") == "    return None"


@pytest.mark.parametrize("name", ["rows", "records"])
def test_a_local_name_stands_for_any(name: str) -> None:
    function = f"def f({name}):\n    return [each for each in {name} if each < limit]"
    changed = replaced(function, "[row for row in rows if row < limit]", "rows[:1]")
    assert changed == f"    return {name}[:1]"


def test_a_local_name_is_the_same_throughout() -> None:
    definition = ast.parse("def f(a, b):\n    return a + b, a + a, b + b")
    assert len(Fragment("x + x", KNOWN).places(definition)) == 2
    assert len(Fragment("x + y", KNOWN).places(definition)) == 3


def test_a_name_of_the_module_or_of_python_stands_for_itself() -> None:
    definition = ast.parse("def f(a):\n    return a < limit, limit < a, len(a), a.limit")
    assert len(Fragment("x < limit", KNOWN).places(definition)) == 1
    assert len(Fragment("check < x", KNOWN).places(definition)) == 0
    assert len(Fragment("any(x)", KNOWN).places(definition)) == 0
    assert len(Fragment("x.limit", KNOWN).places(definition)) == 1


def test_statements_that_follow_each_other_are_replaced_together() -> None:
    function = "def f(a):\n    check(a)\n    b = a\n    check(b)"
    assert replaced(function, "check(a)\nb = a", "b = a\ncheck(b)") == "    b = a\n    check(b)\n    check(b)"
    assert replaced(function, "b = a\ncheck(b)", "pass") == "    check(a)\n    pass"


def test_dots_as_a_body_stand_for_any_statements() -> None:
    function = "def f(a):\n    if a:\n        check(a)\n        a = 1\n    return a"
    changed = "    if limit:\n        check(a)\n        a = 1\n    return a"
    assert replaced(function, "if a:\n    ...", "if limit:\n    ...") == changed
    assert replaced(function, "if a:\n    ...", "...") == "    ...\n    return a"
