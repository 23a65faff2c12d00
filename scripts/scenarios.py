"""`make scenarios`: run every scenario and report differences; with REWRITE=1, write the actual outcomes into the
files, and the list of scenarios into docs/SCENARIOS.md.

python -m scripts.scenarios [--rewrite] [name or file ...]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kit.hosts.lab.scenarios.scenario import DIRECTORY, SUFFIX, Scenario, all_scenarios, read_scenario
from kit.hosts.lab.scenarios.scenario_text import ScenarioError

PAGE = Path(__file__).resolve().parent.parent / "docs" / "SCENARIOS.md"
LIST = "## The scenarios\n"


def page() -> str:
    """Return docs/SCENARIOS.md with the present list of scenarios."""
    before = PAGE.read_text(encoding="utf-8").partition(LIST)[0]
    rows = (
        f"| [{each.name}](../kit/hosts/lab/scenarios/library/{each.name}.scenario) | {each.question} |"
        for each in all_scenarios().values()
    )
    return f"{before}{LIST}\n| scenario | question |\n|---|---|\n" + "\n".join(rows) + "\n"


def main() -> int:
    """Run the scenarios; return the number of those with another outcome than expected."""
    parser = argparse.ArgumentParser(prog="python -m scripts.scenarios")
    parser.add_argument("--rewrite", action="store_true")
    parser.add_argument("scenarios", nargs="*")
    arguments = parser.parse_args()
    named = [Path(each) if each.endswith(SUFFIX) else DIRECTORY / f"{each}{SUFFIX}" for each in arguments.scenarios]
    files = named or sorted(DIRECTORY.glob(f"*{SUFFIX}"))
    changed = sum(_scenario(file, rewrite=arguments.rewrite) for file in files)
    print(f"{len(files)} scenarios, {changed} {'rewritten' if arguments.rewrite else 'came out differently'}")
    if arguments.rewrite:
        all_scenarios.cache_clear()
        PAGE.write_text(page(), encoding="utf-8")
    return 0 if arguments.rewrite else changed


def _scenario(file: Path, *, rewrite: bool) -> bool:
    """Return True if the outcome differs from the expected one."""
    text = read_scenario(file)
    try:
        scenario = Scenario(text, str(file)).run()
    except ScenarioError as error:
        print(error)
        return True
    written = str(scenario.as_run)
    changed = written != file.read_text(encoding="utf-8")
    steps = sum(lab.position for lab in scenario.labs)
    print(f"{text.name:<48} {len(text.blocks):>3} blocks {steps:>5} steps  {text.question}")
    if changed and rewrite:
        file.write_text(written, encoding="utf-8")
    elif changed:
        print(scenario.differences)
    return changed


if __name__ == "__main__":
    sys.exit(main())
