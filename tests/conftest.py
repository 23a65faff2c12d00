"""Settings every test shares.

Hypothesis has three profiles. `kit` (default) searches at random and remembers what failed; `ci` (`make test`) tries
the same examples on every machine, so a red run is red again; `soak` (`make soak`) searches long.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# Time is the machine's affair, not the code's: no deadline, and a slow generator is no error.
COMMON = {"deadline": None, "print_blob": True, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("kit", **COMMON)
settings.register_profile("ci", **COMMON, derandomize=True, database=None)
settings.register_profile("soak", **COMMON, max_examples=5_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "kit"))
