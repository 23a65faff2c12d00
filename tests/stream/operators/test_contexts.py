"""The classes of what a user's function receives are exported by `kit` and named in the function's docstrings."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

import pytest

import kit
from kit.stream.operators.functions import batch_process, broadcast, checkpointed, process

FUNCTIONS = [
    kit.ProcessFunction,
    kit.KeyedProcessFunction,
    kit.CoProcessFunction,
    kit.KeyedCoProcessFunction,
    kit.BroadcastProcessFunction,
    kit.KeyedBroadcastProcessFunction,
    kit.KeyedBatchFunction,
    kit.CheckpointedFunction,
]
HOOKS = [
    (function, name, hook)
    for function in FUNCTIONS
    for name, hook in vars(function).items()
    if inspect.isfunction(hook) and not name.startswith("_")
]


@pytest.mark.parametrize(("function", "name", "hook"), HOOKS, ids=[f"{f.__name__}.{name}" for f, name, _ in HOOKS])
def test_the_context_of_a_hook_is_exported_and_named_in_its_docstring(function: type, name: str, hook: Any) -> None:
    names: dict[str, Any] = {}
    for module in (process, broadcast, batch_process, checkpointed):
        names |= vars(module)
    *_, context = get_type_hints(hook, names).items()
    given = dict([context] if context[0] != "return" else list(get_type_hints(hook, names).items())[-2:-1])
    (argument, kind), *_ = given.items()
    assert argument in {"ctx", "context"}
    assert getattr(kit, kind.__name__) is kind
    assert kind.__name__ in kit.__all__
    assert f"`{kind.__name__}`" in (hook.__doc__ or ""), "help() of the hook does not name it"
    assert f"`{kind.__name__}`" in (function.__doc__ or ""), "help() of the function does not name it"
    assert kind.__doc__


@pytest.mark.parametrize("name", [name for name in kit.__all__ if name.endswith(("Context", "State", "States"))])
def test_what_a_context_offers_is_documented(name: str) -> None:
    kind = getattr(kit, name)
    for attribute in dir(kind):
        if not attribute.startswith("_"):
            assert inspect.getdoc(getattr(kind, attribute)), f"{name}.{attribute} says nothing"
