"""The parts of a job: API, graphs, settings, operators, state, connectors."""

from kit.core.lazily import offer as _offer

_offer(__name__)
