"""The hosts that run the machines: the lab and Spark, and the file work that both share."""

from kit.core.lazily import offer as _offer

_offer(__name__, {})

__all__: list[str] = []
