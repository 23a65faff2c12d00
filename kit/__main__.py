"""The command `kit`, also as `python -m kit`."""

import sys

from kit.core.extras import explained

FAILED = 2
"""The exit code for a command that needs a package that is not installed, as for one that could read nothing."""


def main() -> None:
    """Run the command line. `doctor` and `course` need no other package, since they say which one is missing."""
    if sys.argv[1:2] == ["doctor"]:
        from kit.checkup import main as check

        sys.exit(check(sys.argv[1:]))
    if sys.argv[1:2] == ["course"]:
        from kit.course.material import main as copy

        sys.exit(copy(sys.argv[1:]))
    try:
        from kit.cli.editing import app as run

        run()
    except ImportError as error:
        found = explained(error)
        if found is error:
            raise
        sys.stderr.write(f"kit: {found}\n")
        sys.exit(FAILED)


if __name__ == "__main__":
    main()
