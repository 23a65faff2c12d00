"""A job at another parallelism: how many subtasks its vertices have, within their numbers of key groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kit.stream.graph.job_graph import JobGraph


def at_parallelism(job: JobGraph, parallelism: int | Mapping[str, int]) -> JobGraph:
    """The job with other numbers of subtasks, as `parallelism_of` says."""
    wanted = parallelism_of(job, parallelism)
    vertices = tuple(
        replace(vertex, parallelism=wanted.get(vertex.name, vertex.parallelism)) for vertex in job.vertices
    )
    return replace(job, vertices=vertices)


def parallelism_of(job: JobGraph, parallelism: int | Mapping[str, int]) -> dict[str, int]:
    """Numbers of subtasks by vertex. A vertex may be named by the uid or name of an operator in it; a number alone is
    for all vertices that are as wide as the widest, so that one that was given fewer keeps them.

    Raises ValueError for a vertex that there is not, for one that is given two numbers, for what is no whole number,
    and for more subtasks than a vertex has key groups.
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
