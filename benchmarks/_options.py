"""The command line that every benchmark has."""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter


def options(about: str | None, program: str | None = None) -> ArgumentParser:
    """Return a parser with what all benchmarks understand; `about` is shown as the help."""
    parser = ArgumentParser(program, description=about, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--smallest", action="store_true", help="run once at the smallest size, to see that it runs")
    return parser
