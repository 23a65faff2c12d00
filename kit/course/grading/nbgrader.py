"""The step of nbgrader's `autograde` that grades in a process of its own, instead of running the notebook.

    # nbgrader_config.py
    from kit.course.grading.nbgrader import use
    use(c, course="a sentence that students do not know")

The graded cells get an output that nbgrader turns into points, and into the feedback for the student.
"""

from __future__ import annotations

from typing import Any

from nbgrader.preprocessors import (
    AssignLatePenalties,
    CheckCellMetadata,
    IgnorePattern,
    LimitOutput,
    NbGraderPreprocessor,
    SaveAutoGrades,
)
from traitlets import Unicode

from kit.course.grading.notebooks import grade, seed_of


class GradeApart(NbGraderPreprocessor):
    """The verdict of each graded cell as its output; other cells are not run."""

    course = Unicode("", help="what the hidden tests of each student depend on").tag(config=True)

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        """Grade the notebook."""
        student = resources["nbgrader"]["student"]
        checks = resources["nbgrader"]["assignment"].replace("-", "_")
        verdicts = grade(nb, checks, seed=seed_of(student, self.course))
        for cell in nb.cells:
            if cell.cell_type == "code":
                cell.outputs = []
            verdict = verdicts.get(cell.metadata.get("nbgrader", {}).get("grade_id", ""))
            if verdict is None:
                continue
            node = type(cell)
            if verdict.passed:
                shown = node({"text/plain": verdict.text})
                cell.outputs = [node(output_type="display_data", data=shown, metadata=node())]
            else:
                lines = ["Not yet.", *verdict.text.splitlines()]
                cell.outputs = [node(output_type="error", ename="NotYet", evalue=verdict.text, traceback=lines)]
        return nb, resources


def use(config: Any, *, course: str) -> None:
    """Let an nbgrader course grade in this way."""
    steps = [GradeApart, IgnorePattern, LimitOutput, SaveAutoGrades, AssignLatePenalties, CheckCellMetadata]
    config.Autograde.autograde_preprocessors = steps
    config.GradeApart.course = course
