"""The checks of a student's part in the labs (`notebooks/labs`): messages that teach, and the run that shows it.

    from kit.course.classroom import align_barriers as check

    check.nothing_passes_a_barrier(MyHandler)      # passed: lists what was tried; or NotYet: says what is wrong
    counterexample()                               # the lab of the last failed check, at that very moment

It is shipped with the kit instead of lying beside the labs. A grader runs each submission in a directory of its own,
where only the kit is certain to exist; and students must not be able to edit the checks. Nothing here depends on
nbgrader: a check is a function that raises or does not.
"""

from __future__ import annotations

from kit.course.classroom.checking import NotYet, Passed, check, counterexample

__all__ = ["NotYet", "Passed", "check", "counterexample"]
