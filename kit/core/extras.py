"""The extras of the package: which one brings a module that is missing."""

from __future__ import annotations

from typing import NoReturn

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
}
"""Modules that only a part of the kit needs, and the extra that installs each."""


def explained(error: ModuleNotFoundError) -> ImportError:
    """Return the error with the command that installs what is missing; unchanged if no extra brings the module."""
    module = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(module)
    if extra is None:
        return error
    return ImportError(f"{module} is not installed: pip install 'checkpoint-kit[{extra}]'", name=module)


def raise_explained(error: ModuleNotFoundError) -> NoReturn:
    """Raise the error as `explained` returns it: itself, or the explanation with the error as its cause."""
    found = explained(error)
    if found is error:
        raise error
    raise found from error
