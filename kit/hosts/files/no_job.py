"""What both hosts say of a thing that is no job."""

from __future__ import annotations


def no_job(found: object) -> str:
    """Return the error for what was given in the place of a job."""
    kind = type(found).__name__
    return (
        f"a job is a StreamEnvironment or a JobGraph, not {'an' if kind[0] in 'AEIOUaeiou' else 'a'} {kind}: "
        "give the environment, as in Lab(env) or SparkJob(env)"
    )
