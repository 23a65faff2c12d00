"""Support for the notebooks and labs of the course."""

from kit.core.lazily import offer as _offer

_offer(__name__)
