"""Checking the protocol: every schedule of a small job, and thousands of random ones."""

from kit.core.lazily import offer as _offer

_offer(__name__)
