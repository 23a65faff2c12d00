"""Grading in a process of its own: the checks run here, and the student's part answers from a process without answers.

    student.py    the student's process: its limits, and the calls to and from it
    child.py      the program of that process: only the standard library and the student's cells
    surfaces.py   what the student's code may see of the kit's objects, and which names of the kit it may import
    parts.py      the student's parts, as the kit calls them
    notebooks.py  a submitted notebook: the student's cells, the checks, the points
    nbgrader.py   the step of nbgrader's `autograde` that replaces the execution of the notebook

A check calls the part and judges what it does. The verdict is computed in the grader's process, from these calls alone;
the student's process makes no claim about it. It has no access to the kit: its names of the kit stand for objects of
the grader's process, of which it sees what `surfaces.py` lists.
"""
