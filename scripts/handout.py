"""The course as students get it, in one zip file that the wheel contains; `kit course DIRECTORY` unpacks it.

It has the notebooks with their outputs, the labs without their solutions, and the data and modules that the notebooks
read. In a checkout these are beside `notebooks/`; here everything is in one directory.

The build of the wheel imports this module, in an environment with nothing but the standard library and hatchling.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

from scripts.labs import ROOT, labs, released

PACKED = zipfile.ZIP_DEFLATED
MADE = (1980, 1, 1, 0, 0, 0)
"""The time of each file in the zip file: the same files always give the same bytes."""
BESIDE = (
    "docs/protocol.pdf",
    "examples/__init__.py",
    "examples/flights/*.py",
    "tests/__init__.py",
    "tests/data/flink/checkpoints/2.3.0.tar.gz",
    "tests/data/flink/values/2.3.0.tar.gz",
    "tests/data/flink_rest/*.json",
    "tests/data/flink_restores/*",
    *(
        f"tests/mutants/{name}.py"
        for name in ("__init__", "finders", "fragments", "planting", "several", "spilled", "surroundings", "table")
    ),
)
"""What the notebooks read or import from the repository."""


def files() -> Iterator[tuple[str, bytes]]:
    """Yield the name of each file of the course, and its bytes."""
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        yield path.name, path.read_text("utf-8").replace("../", "").encode()
    for lab in labs():
        yield f"labs/{lab.name}/{lab.name}.ipynb", released(lab).encode()
        for path in sorted((ROOT / "notebooks" / "labs" / "source" / lab.name).rglob("*")):
            if path.is_file() and path.suffix in (".py", ".case"):
                yield f"labs/{path.relative_to(ROOT / 'notebooks' / 'labs' / 'source').as_posix()}", path.read_bytes()
    for pattern in BESIDE:
        found = sorted(ROOT.glob(pattern))
        if not found:
            raise FileNotFoundError(f"{pattern}: no such file, and the notebooks need it")
        for path in found:
            yield path.relative_to(ROOT).as_posix(), path.read_bytes()


def write(path: Path) -> None:
    """Write the zip file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as packed:
        for name, data in files():
            packed.writestr(zipfile.ZipInfo(name, MADE), data, PACKED)
