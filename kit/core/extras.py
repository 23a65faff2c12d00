"""The extras of the package: which one installs a module that is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

PROJECT = "checkpoint-kit"
CORE = ("google_crc32c", "numpy", "pandas", "pyarrow", "rich", "typer", "xxhash")
"""Modules that every installation has. They are missing only if the kit was installed without its dependencies."""
EXTRAS = {
    "pyspark": "spark",
    "py4j": "spark",
    "anywidget": "widgets",
    "ipywidgets": "widgets",
    "sidecar": "widgets",
    "traitlets": "widgets",
    "IPython": "widgets",
    "matplotlib": "plots",
    "graphviz": "plots",
    "pygraphviz": "plots",
    "kazoo": "zookeeper",
    "cryptography": "tls",
    "obstore": "s3",
    "boto3": "s3",
    "botocore": "s3",
}
"""Modules that only a part of the kit needs, and the extra that installs each."""


def install_command(*extras: str) -> str:
    """Return the command that installs the kit with these extras."""
    return f"pip install '{PROJECT}[{','.join(extras)}]'" if extras else f"pip install {PROJECT}"


def explained(error: ImportError) -> ImportError:
    """Return the error with the command that installs the module; unchanged if the kit does not need the module."""
    module = (error.name or "").partition(".")[0]
    if module in EXTRAS:
        return ImportError(f"{module} is not installed: {install_command(EXTRAS[module])}", name=module)
    if module in CORE:
        return ImportError(f"{module} is not installed: {install_command()}", name=module)
    return error


@contextmanager
def naming_extras() -> Iterator[None]:
    """Explain the imports in this block: if a module is missing, the error names the extra that installs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        found = explained(error)
        if found is error:
            raise
        raise found from error
