"""The kinds of faults that tests with only one of a thing do not see: each changes one expression or statement.

A kind is a function from a node of a syntax tree, with the function that it is in, to what may stand in its place.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

Kind = Callable[[ast.AST, ast.FunctionDef], Iterator[ast.AST]]

OPPOSITES = {"any": "all", "min": "max", "popleft": "pop", "partition": "rpartition"}
OPPOSITES |= {"bisect_left": "bisect_right", "removeprefix": "removesuffix", "floor": "ceil"}
OPPOSITES |= {after: before for before, after in OPPOSITES.items() if after != "pop"}
TWINS = ("oldest newest", "earliest latest", "first last", "before after", "begin end", "start end", "start stop")
TWINS += ("previous next", "old new", "lower upper", "left right", "source target", "upstream downstream")
TWINS += ("checkpoint_id epoch", "min max", "sent received", "input output", "mine theirs", "subtask channel")
UNITS = {24, 60, 1_000, 1_024, 3_600, 60_000, 86_400, 1_000_000, 1_000_000_000}
RESETS = ("pop", "clear", "discard", "remove", "delete", "unlink", "reset", "forget", "release", "unregister", "close")
RESETS += ("cancel", "sync", "dispose", "add", "update", "extend", "setdefault")


def first_for_last(node: ast.AST, within: ast.FunctionDef) -> Iterator[ast.AST]:
    """`[0]` for `[-1]`, `[1:]` for `[:-1]`, the last that fits for the first."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        match ast.unparse(node.slice):
            case "0":
                yield _expression(f"{ast.unparse(node.value)}[-1]")
            case "-1":
                yield _expression(f"{ast.unparse(node.value)}[0]")
            case "1:":
                yield _expression(f"{ast.unparse(node.value)}[:-1]")
            case ":-1":
                yield _expression(f"{ast.unparse(node.value)}[1:]")
    if isinstance(node, ast.Call) and re.match(r"next\(\(|next\((iter|reversed)\(", ast.unparse(node)):
        found, *default = (ast.unparse(each) for each in node.args)
        yield _expression(f"[{''.join(f'{each}, ' for each in default)}*{found}][-1]")


def any_for_all(node: ast.AST, within: ast.FunctionDef) -> Iterator[ast.AST]:
    """`any` for `all`, `min` for `max`, `and` for `or`, the largest for the sum."""
    match node:
        case ast.Call(func=ast.Name(id=name)) if name in OPPOSITES:
            yield ast.Call(ast.Name(OPPOSITES[name], ast.Load()), node.args, node.keywords)
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in OPPOSITES:
            yield ast.Call(ast.Attribute(value, OPPOSITES[name], ast.Load()), node.args, node.keywords)
        case ast.Call(func=ast.Name(id="sum"), args=[values]):
            yield _expression(f"max({ast.unparse(values)}, default=0)")
        case ast.BoolOp(op=ast.And(), values=values) if not _is_test_of_type(values[0]):
            yield ast.BoolOp(ast.Or(), values)
        case ast.BoolOp(op=ast.Or(), values=values) if not _is_test_of_type(values[0]):
            yield ast.BoolOp(ast.And(), values)


def wrong_one(node: ast.AST, within: ast.FunctionDef) -> Iterator[ast.AST]:
    """The newest for the oldest, the end for the start, one argument in place of the other."""
    match node:
        case ast.Name(id=name, ctx=ast.Load()):
            local = {each.id for each in ast.walk(within) if isinstance(each, ast.Name)}
            local |= {each.arg for each in ast.walk(within) if isinstance(each, ast.arg)}
            yield from (ast.Name(twin, ast.Load()) for twin in _twins(name) if twin in local)
        case ast.Attribute(value=value, attr=name, ctx=ast.Load()):
            attributes = {each.attr for each in ast.walk(within) if isinstance(each, ast.Attribute)}
            yield from (ast.Attribute(value, twin, ast.Load()) for twin in _twins(name) if twin in attributes)
        case ast.Call(args=[ast.Name() as one, ast.Name() as other, *rest]) if other.id in _twins(one.id):
            yield ast.Call(node.func, [other, one, *rest], node.keywords)


def other_unit(node: ast.AST, within: ast.FunctionDef) -> Iterator[ast.AST]:
    """A thousand times as much, or the number without its factor."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value in UNITS:
        yield from (ast.Constant(node.value * 1_000), ast.Constant(1))


def other_order(node: ast.AST, within: ast.FunctionDef) -> Iterator[ast.AST]:
    """The other way round, unsorted, or the older entries over the newer ones."""
    match node:
        case ast.Call(func=ast.Name(id="sorted"), args=[values]):
            yield _expression(f"list({ast.unparse(values)})")
            if all(each.arg != "reverse" for each in node.keywords):
                yield ast.Call(node.func, node.args, [*node.keywords, ast.keyword("reverse", ast.Constant(True))])
        case ast.Call(func=ast.Name(id="reversed"), args=[values]):
            yield _expression(f"iter({ast.unparse(values)})")
        case ast.BinOp(left=left, op=ast.BitOr(), right=right) if not _is_type(left) | _is_type(right):
            yield ast.BinOp(right, ast.BitOr(), left)
        case ast.Dict(keys=[None, None], values=[one, other]):
            yield ast.Dict([None, None], [other, one])


def one_for_all(node: ast.AST, within: ast.FunctionDef) -> Iterator[ast.AST]:
    """Only the first of several, only the last, or only until the first that does not fit."""
    for owner in ast.walk(within):
        if isinstance(owner, ast.For | ast.comprehension) and owner.iter is node and not _is_endless(node):
            yield from (_expression(f"[*({ast.unparse(node)})][{part}]") for part in (":1", "-1:"))
    if isinstance(node, ast.Continue):
        yield ast.Break()


def stays(node: ast.AST, within: ast.FunctionDef) -> Iterator[ast.AST]:
    """What should be forgotten, deleted or reset when something ends stays; a total counts only the last."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name))) if name.strip("_").startswith(RESETS):
            yield ast.Pass()
        case ast.Delete():
            yield ast.Pass()
        case ast.Assign(targets=[ast.Attribute()], value=value) if within.name != "__init__" and _is_empty(value):
            yield ast.Pass()
        case ast.AugAssign(target=target, value=value):
            yield ast.Assign([target], value, lineno=node.lineno)


def unguarded(node: ast.AST, within: ast.FunctionDef) -> Iterator[ast.AST]:
    """A check that rejects nothing, and a handler of fewer errors."""
    if isinstance(node, ast.If) and isinstance(node.body[0], ast.Raise) and not node.orelse:
        yield ast.Pass()
    for owner in ast.walk(within):
        if isinstance(owner, ast.ExceptHandler) and owner.type is node and isinstance(node, ast.Tuple):
            yield from (node.elts[0], node.elts[-1])


KINDS: tuple[Kind, ...] = (
    first_for_last,
    any_for_all,
    wrong_one,
    other_unit,
    other_order,
    one_for_all,
    stays,
    unguarded,
)


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _twins(name: str) -> Iterator[str]:
    words = name.split("_")
    for pair in map(str.split, TWINS):
        for one, other in (pair, pair[::-1]):
            if name == one:
                yield other
            elif one in words:
                yield "_".join(other if word == one else word for word in words)


def _is_test_of_type(value: ast.expr) -> bool:
    """With the opposite of such a test the rest of the condition would only fail."""
    return bool(re.search(r" is (not )?None$|^(not )?isinstance\(", ast.unparse(value)))


def _is_endless(value: ast.AST) -> bool:
    return bool(re.match(r"(itertools\.)?(count|cycle|repeat)\(|iter\(", ast.unparse(value)))


def _is_type(value: ast.expr) -> bool:
    return bool(re.match(r"None$|list$|tuple$|(\w+\.)?[A-Z]|dict\[", ast.unparse(value)))


def _is_empty(value: ast.expr) -> bool:
    return ast.unparse(value) in ("None", "0", "False", "[]", "{}", "set()", "()", "''", "deque()")
