"""The base of all other packages: messages and events, state handles, Flink's metadata format, the trace."""

from kit.core.lazily import offer as _offer

_offer(__name__)
