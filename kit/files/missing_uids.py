"""The warning that a savepoint holds state of operators without a uid, which only the same job can restore."""

from __future__ import annotations

import logging

from kit.stream.connectors.sink import SinkSpec
from kit.stream.graph.job_graph import ChainedOperator, JobGraph
from kit.stream.operators.sources.source_spec import SourceSpec


def warn_of_missing_uids(job: JobGraph, logger: logging.Logger) -> None:
    """Warn in the log, before a savepoint of the job is taken, of operators with state and without a uid."""
    names = [
        repr(operator.name)
        for vertex in job.vertices
        for operator in vertex.operators
        if operator.uid is None and _has_state(operator)
    ]
    if not names:
        return
    logger.warning(
        "job %s: %s %s state and no uid. A savepoint finds it by the operator's place in the job, so a changed job may "
        "not restore it. Give each operator with state a uid: .uid('...') behind it, or uid='...' for a source or a "
        "sink",
        job.name,
        ", ".join(names),
        "has" if len(names) == 1 else "have",
    )


def _has_state(operator: ChainedOperator) -> bool:
    spec = operator.spec
    if spec.key_type is not None or isinstance(spec, SourceSpec | SinkSpec):
        return True
    return bool(spec.declared_operator_states())
