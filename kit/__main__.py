"""The command `kit`, also as `python -m kit`. Without the extra `cli` it has only `doctor` and `course`."""

import sys

from kit.core.extras import explained


def main() -> None:
    """Run the command line. `doctor` and `course` work without its extra, because students begin with them."""
    if sys.argv[1:2] == ["doctor"]:
        from kit.checkup import main as check

        sys.exit(check(sys.argv[1:]))
    if sys.argv[1:2] == ["course"]:
        from kit.course.material import main as copy

        sys.exit(copy(sys.argv[1:]))
    try:
        from kit.cli.editing import app as run
    except ModuleNotFoundError as error:
        sys.exit(f"kit: {explained(error)}")
    run()


if __name__ == "__main__":
    main()
