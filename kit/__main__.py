"""The command `kit`, also as `python -m kit`. Without the extra `cli` only `python -m kit doctor` is there."""

import sys

from kit.checkup import main as check
from kit.core.extras import explained


def main() -> None:
    """Run the command line. `doctor` works without its extra, since it says what is missing."""
    if sys.argv[1:2] == ["doctor"]:
        sys.exit(check(sys.argv[1:]))
    try:
        from kit.cli.editing import app as run
    except ModuleNotFoundError as error:
        sys.exit(f"kit: {explained(error)}")
    run()


if __name__ == "__main__":
    main()
