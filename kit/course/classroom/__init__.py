"""What the labs (`notebooks/labs`) check a student's part with: in words that teach, with the run that shows it.

    from kit.course.classroom import align_barriers as check

    check.nothing_passes_a_barrier(MyHandler)      # fine: says what has been tried; or NotYet: says what is wrong
    counterexample()                               # the lab of the last check that failed, at that very moment

It is shipped with the kit and does not lie beside the labs: a grader runs each submission in a directory of its own,
where nothing but the kit is sure to be there; and what a check asks must not be a file that a student can edit.
Nothing here knows of nbgrader: a check is a function that raises or does not.
"""

from __future__ import annotations

from kit.course.classroom.checking import NotYet, Passed, check, counterexample

__all__ = ["NotYet", "Passed", "check", "counterexample"]
