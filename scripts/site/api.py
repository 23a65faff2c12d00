"""The pages of the API, written from the docstrings in the source: a page for each package, with its modules in turn.

The source is read, not imported. Docstrings use some of Markdown: names in backticks, indented examples.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from inspect import cleandoc
from itertools import pairwise
from pathlib import Path

from kit.glossary import HOME

ROOT = HOME.parent
Documented = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@cache
def rooms() -> dict[str, list[Path]]:
    """Return the files of each package by its dotted name, `kit` itself first."""
    found: dict[str, list[Path]] = {}
    for top in ("kit", "widgets"):
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT).parts
            found.setdefault(".".join(parts[:-1]), []).append(path)
    return found


def module_of(path: Path) -> str:
    """A file's dotted name."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def pages() -> Iterator[tuple[str, str]]:
    """Each page's name and text, the list of all first."""
    listed = rooms()
    lines = [f"| [{name}]({name}.md) | {_first_line(files[0])} |" for name, files in listed.items()]
    toc = "\n".join(listed)
    yield (
        "index",
        "# The API\n\nWhat a job is written with is in `kit` itself. Packages are listed by name; "
        "[the architecture](../reference/architecture.md) says which may import which.\n\n"
        f"| package | what it is |\n|---|---|\n{chr(10).join(lines)}\n\n```{{toctree}}\n:hidden:\n\n{toc}\n```\n",
    )
    for name in listed:
        yield name, page(name)


def page(room: str) -> str:
    """Return the page of one package."""
    return f"({room})=\n# {room}\n\n" + "\n".join(filter(None, map(_module, rooms()[room])))


def _first_line(path: Path) -> str:
    doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(doc.partition("\n\n")[0].split()).replace("|", "\\|")


def _module(path: Path) -> str:
    module, tree = module_of(path), ast.parse(path.read_text(encoding="utf-8"))
    doc = ast.get_docstring(tree)
    if module.endswith("__main__") or doc is None:
        return ""
    body = "\n".join(_of(node, module) for node in tree.body if _is_shown(node))
    data = "\n".join(_data(tree.body, module))
    heading = "" if path.stem == "__init__" else f"({module})=\n## {module.rpartition('.')[2]}"
    return f"{heading}\n\n```{{py:module}} {module}\n```\n\n{plain(doc)}\n\n{data}\n{body}"


def _is_shown(node: ast.AST) -> bool:
    return (
        isinstance(node, Documented)
        and not node.name.startswith("_")
        and ast.get_docstring(node) is not None
        and not any(ast.unparse(each).endswith((".setter", "overload")) for each in node.decorator_list)
    )


def _of(node: ast.AST, module: str) -> str:
    assert isinstance(node, Documented)
    if not isinstance(node, ast.ClassDef):
        return _object("function", f"{node.name}{_signature(node)}", module, ast.get_docstring(node) or "", "")
    methods = [each for each in node.body if _is_shown(each) and isinstance(each, ast.FunctionDef)]
    made = next((each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"), None)
    signature = _signature(made, is_method=True).partition(" ->")[0] if made else _fields(node)
    inside = "\n".join([*_data(node.body, "", kind="attribute"), *map(_method, dict(_by_name(methods)).values())])
    return _object("class", f"{node.name}{signature}", module, ast.get_docstring(node) or "", inside)


def _by_name(methods: list[ast.FunctionDef]) -> Iterator[tuple[str, ast.FunctionDef]]:
    yield from ((method.name, method) for method in reversed(methods))


def _method(node: ast.FunctionDef) -> str:
    marks = {ast.unparse(each) for each in node.decorator_list}
    doc = ast.get_docstring(node) or ""
    if marks & {"property", "cached_property"}:
        kind = f"\n:type: {_oneline(node.returns)}" if node.returns else ""
        return f"````{{py:property}} {node.name}{kind}\n\n{plain(doc)}\n````\n"
    options = "".join(f"\n:{mark}:" for mark in ("classmethod", "staticmethod") if mark in marks)
    signature = _signature(node, is_method="staticmethod" not in marks)
    return f"````{{py:method}} {node.name}{signature}{options}\n\n{plain(doc)}\n````\n"


def _object(kind: str, signature: str, module: str, doc: str, inside: str) -> str:
    return f"`````{{py:{kind}}} {signature}\n:module: {module}\n\n{plain(doc)}\n\n{inside}\n`````\n"


def _data(body: list[ast.stmt], module: str, kind: str = "data") -> Iterator[str]:
    """Values and attributes that a string stands below."""
    for node, following in pairwise(body):
        target = _target(node)
        said = following.value.value if _is_text(following) else None  # type: ignore[attr-defined]
        if isinstance(target, ast.Name) and isinstance(said, str) and not target.id.startswith("_"):
            type_ = f"\n:type: {_oneline(node.annotation)}" if isinstance(node, ast.AnnAssign) else ""
            where = f"\n:module: {module}" if module else ""
            yield f"````{{py:{kind}}} {target.id}{where}{type_}\n\n{plain(cleandoc(said))}\n````\n"


def _target(node: ast.stmt) -> ast.expr | None:
    if isinstance(node, ast.AnnAssign):
        return node.target
    return node.targets[0] if isinstance(node, ast.Assign) else None


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef, is_method: bool = False) -> str:
    arguments = ast.parse(ast.unparse(node)).body[0].args  # type: ignore[attr-defined]
    if is_method:
        (arguments.posonlyargs or arguments.args)[:1] = []
    returns = f" -> {_oneline(node.returns)}" if node.returns else ""
    return f"({_oneline(arguments)}){returns}"


def _fields(node: ast.ClassDef) -> str:
    """Return the fields of a dataclass as the signature of its call."""
    if not any("dataclass" in ast.unparse(each) for each in node.decorator_list):
        return ""
    fields = [each for each in node.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)]
    return f"({', '.join(_parameter(each) for each in fields if 'ClassVar' not in ast.unparse(each.annotation))})"


def _parameter(field: ast.AnnAssign) -> str:
    """Return a field as a parameter; of a setting (`setting_rules.setting`) only the default is shown."""
    if isinstance(field.value, ast.Call) and ast.unparse(field.value.func) == "setting":
        return f"{_oneline(field.target)}: {_oneline(field.annotation)} = {_oneline(field.value.args[0])}"
    return _oneline(field)


def _oneline(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())


def plain(doc: str) -> str:
    """Return a docstring as Markdown, with Markdown's own signs escaped outside of code."""
    blocks: list[tuple[bool, list[str]]] = []
    is_code, before = False, ""
    for line in doc.splitlines():
        is_code = (line.startswith("    ") and (is_code or not before.strip())) or (is_code and not line.strip())
        if not blocks or blocks[-1][0] != is_code:
            blocks.append((is_code, []))
        blocks[-1][1].append(line)
        before = line
    return "\n".join("\n".join(lines) if code else _kept("\n".join(lines)) for code, lines in blocks)


def _kept(text: str) -> str:
    parts = text.split("`")
    for n in range(0, len(parts), 2):  # outside of backticks
        parts[n] = re.sub(r"(\*\w[^*\n]*\w\*)|[*_<\[{|]", lambda sign: sign[1] or f"\\{sign[0]}", parts[n])
        parts[n] = re.sub(r"^(\s*)([#>+=]|-{2,}|:::)", r"\1\\\2", parts[n], flags=re.MULTILINE)
        parts[n] = re.sub(r"(?<![\d.])1\.11(?!\.?\d)", "[1.11](../guide/flink-1.11.md)", parts[n])
    return "`".join(parts)
