"""The table of displays: which function of a higher package shows a value of a lower one.

This is the only place where a lower package reaches a higher one (`kit.core.display`). Each function here imports what
it calls when it is called, so that `import kit` stays light and the lab runs without widgets and plots.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from kit.core.display import provide

if TYPE_CHECKING:
    from kit.advice import Advice, ParallelismPlan
    from kit.draw.graphviz_objects import Dot
    from kit.draw.picture import Svg
    from kit.hosts.lab.lab import Lab
    from kit.hosts.lab.scenarios.block_run import BlockRun
    from kit.hosts.lab.scenarios.scenario import Scenario
    from kit.hosts.lab.step import Step
    from kit.restore_check import RestoreCheck
    from kit.run.stage import Stage
    from kit.snapshots.checkpoints import Checkpoint, Checkpoints
    from kit.snapshots.checkpoints.difference import CheckpointDiff
    from kit.snapshots.checkpoints.storage import Storage
    from kit.snapshots.state_tables import StateTable, StateTables
    from kit.stream.api import StreamEnvironment
    from kit.why import Why


def explorer(thing: Any, *, tab: bool = False) -> Any:
    """Open the explorer on a run, a scenario or a job, and the browser on a checkpoint."""
    from kit.files.given import flag_given
    from kit.snapshots.checkpoints import Checkpoint
    from widgets.explorer.explorer import in_a_tab, show
    from widgets.pictures.checkpoint_browser import CheckpointBrowser

    flag_given("tab", tab)
    if not isinstance(thing, Checkpoint):
        return show(thing, tab=tab)
    browser = CheckpointBrowser(thing)
    if tab:
        in_a_tab(browser, thing.title)
    return browser


def explanation(trace: Any, about: object = None, **named: Any) -> Why:
    """Answer a question about a trace."""
    from kit.why import why

    return why(trace, about, **named)


def subtask_phases(trace: Any, checkpoint: int) -> Any:
    """Return where the time of a checkpoint's subtasks went, and what those that have not finished it wait for."""
    from kit.why.phases import phases

    return phases(trace, checkpoint)


def answer_svg(answer: Why) -> Svg:
    """Draw the answer to a question."""
    from kit.draw.views.answer import facts_svg

    return facts_svg(answer.question, answer.told)


def answer_dot(answer: Why) -> Dot:
    """Draw the answer to a question as an object of the `graphviz` package."""
    from kit.draw.views.answer import facts_graph

    return facts_graph(answer.question, answer.told).dot()


def job_svg(job: StreamEnvironment | Stage) -> Svg:
    """Draw the chains of a job."""
    from kit.draw.views.chains import chains_svg

    return chains_svg(job)


def lab_svg(lab: Lab) -> Svg:
    """Draw a lab at its present moment."""
    from kit.draw.stage.frames import present_frame

    return present_frame(lab).svg()


def step_html(step: Step) -> str:
    """Show what was done in a step of a lab, and what happened."""
    from kit.draw.views.lab_cards import step_html

    return step_html(step)


def block_run_html(block_run: BlockRun) -> str:
    """Show a block of a scenario that was run."""
    from kit.draw.views.lab_cards import block_run_html

    return block_run_html(block_run)


def scenario_pages(scenario: Scenario) -> list[str]:
    """Return the pages on which a scenario can be stepped through, one for each of its runs."""
    from kit.draw.page.page import page_html

    return [page_html(run, scenario.text.title, intro=scenario.text.question) for run in scenario.runs]


def state_html(state: StateTable | StateTables) -> str:
    """Show tables of state."""
    from kit.draw.views.checkpoints.state_html import state_html

    return state_html(state)


def restore_check_html(check: RestoreCheck) -> str:
    """Show the check of a checkpoint against a job."""
    from kit.draw.views.checkpoints.reports import restore_check_html

    return restore_check_html(check)


def storage_html(storage: Storage) -> str:
    """Show whose bytes a checkpoint's are."""
    from kit.draw.views.checkpoints.reports import storage_html

    return storage_html(storage)


def checkpoint_html(found: Checkpoint | Checkpoints) -> str:
    """Show what an opened checkpoint, or a directory of several, holds."""
    from kit.draw.views.checkpoints.reports import checkpoint_html

    return checkpoint_html(found)


def advice_html(advice: Advice) -> str:
    """Show the advice on a job's checkpoints."""
    from kit.draw.views.checkpoints.reports import advice_html

    return advice_html(advice)


def plan_html(plan: ParallelismPlan) -> str:
    """Show which parallelism spreads keys evenly."""
    from kit.draw.views.checkpoints.reports import plan_html

    return plan_html(plan)


def checkpoint_diff_html(diff: CheckpointDiff) -> str:
    """Show what changed from one checkpoint to another."""
    from kit.draw.views.checkpoints.reports import checkpoint_diff_html

    return checkpoint_diff_html(diff)


provide(
    {
        each.__name__: each
        for each in (
            explorer,
            explanation,
            subtask_phases,
            answer_svg,
            answer_dot,
            job_svg,
            lab_svg,
            step_html,
            block_run_html,
            scenario_pages,
            state_html,
            restore_check_html,
            checkpoint_html,
            storage_html,
            advice_html,
            plan_html,
            checkpoint_diff_html,
        )
    }
)

if "IPython" in sys.modules:
    from kit.tracebacks import install

    install()
