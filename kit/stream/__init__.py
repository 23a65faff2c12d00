"""What a job is written with, and what its operators do: API, graphs, settings, operators, state, connectors."""

from kit.core.lazily import offer as _offer

_offer(__name__, {})

__all__: list[str] = []
