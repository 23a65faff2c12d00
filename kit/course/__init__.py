"""What the notebooks and labs of the course need."""

from kit.core.lazily import offer as _offer

_offer(__name__, {})

__all__: list[str] = []
