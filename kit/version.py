"""The version of the kit, as the installed package states it: `kit.__version__` and `kit --version`."""

from importlib import metadata

from kit.core.extras import PROJECT

try:
    __version__ = metadata.version(PROJECT)
except metadata.PackageNotFoundError:
    __version__ = "0+unknown"  # imported from its source, and not installed
