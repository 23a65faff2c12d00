"""The command `kit`, also as `python -m kit`."""

import sys


def main() -> None:
    """Run the command line. `doctor` and `course` need no other package, since they say which one is missing."""
    if sys.argv[1:2] == ["doctor"]:
        from kit.checkup import main as check

        sys.exit(check(sys.argv[1:]))
    if sys.argv[1:2] == ["course"]:
        from kit.course.material import main as copy

        sys.exit(copy(sys.argv[1:]))
    from kit.cli.editing import app as run

    run()


if __name__ == "__main__":
    main()
