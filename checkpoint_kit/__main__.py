"""The command `checkpoint-kit`, also as `python -m checkpoint_kit`: the command `kit`, under a name of its own."""

import sys

from checkpoint_kit.collisions import modules_overwritten, remedy


def main() -> None:
    """Run the command `kit`, or exit with 2 if another package has overwritten its module."""
    others = modules_overwritten()
    if others:
        told = "; ".join(f"the package {name} has overwritten the module {', '.join(taken)}" for name, taken in others)
        sys.stderr.write(f"checkpoint-kit: {told}. {remedy(name for name, _ in others)}\n")
        sys.exit(2)
    from kit.__main__ import main as run

    run()


if __name__ == "__main__":
    main()
