"""The vertices of a film that a page without a kernel can open: the same frames, with each subtask of one vertex drawn.

A kernel draws a vertex when it is opened. A page without one contains the opened vertices, each compressed, as many as
`MOST_BYTES` allow: `{"stages", "looks", "sets"}`, where `sets` has the `set` of each frame of the film.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64encode

from kit.draw.stage.film import Film, Reel
from kit.run.run import Run

MOST_BYTES = 4_000_000
"""The largest total size of the opened vertices in the page, in characters."""


def opened(run: Run, film: Film) -> dict[str, str]:
    """Return, by vertex in the order of the job, the film with that vertex open, compressed and in base64."""
    found: dict[str, str] = {}
    room = MOST_BYTES
    for vertex in dict.fromkeys(name for stage in film["stages"] for name in stage["closed"]):
        reel = Reel([vertex])
        reel.take(run)
        told = {name: reel.film[name] for name in ("stages", "looks")}
        told["sets"] = [frame["set"] for frame in reel.film["frames"]]
        written = json.dumps(told, separators=(",", ":"), ensure_ascii=False).encode()
        packed = b64encode(zlib.compress(written)).decode()
        room -= len(packed)
        if room < 0:
            break
        found[vertex] = packed
    return found
