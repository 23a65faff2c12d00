"""A job at another parallelism: the parallelism of its vertices, limited by their numbers of key groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kit.stream.graph.job_graph import JobGraph


def at_parallelism(job: JobGraph, parallelism: int | Mapping[str, int]) -> JobGraph:
    """Return the job with other parallelisms, as `parallelism_of` determines them."""
    wanted = parallelism_of(job, parallelism)
    vertices = tuple(
        replace(vertex, parallelism=wanted.get(vertex.name, vertex.parallelism)) for vertex in job.vertices
    )
    return replace(job, vertices=vertices)


def parallelism_of(job: JobGraph, parallelism: int | Mapping[str, int]) -> dict[str, int]:
    """Return the parallelism by vertex.

    A vertex may be named by the uid or name of an operator in it. A number alone applies to all vertices that are as
    wide as the widest, so a vertex with a smaller parallelism keeps it.

    Raises ValueError for an unknown vertex, for one that is given two numbers, for anything but a whole number, and for
    more subtasks than a vertex has key groups.
    """
    if not isinstance(parallelism, Mapping):
        _check_whole("parallelism", parallelism)
        widest = max(vertex.parallelism for vertex in job.vertices)
        parallelism = {vertex.name: parallelism for vertex in job.vertices if vertex.parallelism == widest}
    wanted: dict[str, int] = {}
    for name, number in parallelism.items():
        vertex = _vertex_called(job, name)
        if wanted.setdefault(vertex, number) != number:
            raise ValueError(
                f"{vertex} cannot have {wanted[vertex]} subtasks and {number} (as {name!r}): it is one task"
            )
        _check_whole(f"the parallelism of {vertex}", number)
        most = job.vertex(vertex).max_parallelism
        if not 1 <= number <= most:
            raise ValueError(f"{vertex} can have 1 to {most} subtasks (its max parallelism), not {number}")
    return wanted


def _check_whole(what: str, number: object) -> None:
    if not isinstance(number, int) or isinstance(number, bool):
        raise ValueError(
            f"{what} is {number!r}, but must be a whole number, or a number for each vertex: {{'sums': 3, 'rows': 2}}"
        )


def _vertex_called(job: JobGraph, name: str) -> str:
    for vertex in job.vertices:
        if vertex.name == name:
            return name
    for vertex in job.vertices:
        if any(name in (operator.uid, operator.name) for operator in vertex.operators):
            return vertex.name
    raise ValueError(f"no vertex is {name!r}; there are {', '.join(vertex.name for vertex in job.vertices)}")
