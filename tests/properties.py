"""How many examples a property is tried with."""

from __future__ import annotations

from hypothesis import settings

IN_CI = 20


def examples(count: int) -> int:
    """As many as a test asks for; `make test` tries at most twenty, since each only adds to what others have shown."""
    return min(count, IN_CI) if settings.get_current_profile_name() == "ci" else count
