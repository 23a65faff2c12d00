"""A job at another parallelism: how many subtasks its vertices have, within their numbers of key groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kit.graph.job_graph import JobGraph


def at_parallelism(job: JobGraph, parallelism: int | Mapping[str, int]) -> JobGraph:
    """The job with other numbers of subtasks, by vertex; a number alone is for all vertices that are as wide as the
    widest, so that one that was given fewer keeps them.

    Raises ValueError for a vertex that there is not, and for more subtasks than a vertex has key groups.
    """
    widest = max(vertex.parallelism for vertex in job.vertices)
    if isinstance(parallelism, int):
        parallelism = {vertex.name: parallelism for vertex in job.vertices if vertex.parallelism == widest}
    names = [vertex.name for vertex in job.vertices]
    for name, wanted in parallelism.items():
        if name not in names:
            raise ValueError(f"no vertex is {name!r}; there are {', '.join(names)}")
        most = job.vertex(name).max_parallelism
        if not 1 <= wanted <= most:
            raise ValueError(f"{name} can have 1 to {most} subtasks (its max parallelism), not {wanted}")
    vertices = tuple(
        replace(vertex, parallelism=parallelism.get(vertex.name, vertex.parallelism)) for vertex in job.vertices
    )
    return replace(job, vertices=vertices)
