"""The hosts that run the machines: the lab and Spark."""

from kit.core.lazily import offer as _offer

_offer(__name__)
