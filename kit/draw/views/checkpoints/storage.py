"""The storage of a checkpoint: whose bytes they are, in which files, and what other settings would save."""

from __future__ import annotations

from kit.draw.view_html import answer, fold, frame, view_html
from kit.run.sizes import size_text
from kit.snapshots.checkpoints.storage import Storage


def storage_html(storage: Storage) -> str:
    """Show the largest states, the classes of files, the requests, and the settings that would save some."""
    states, files, savings = storage.states, storage.files, storage.savings
    largest = states.iloc[0] if len(states) else None
    said = "No operator has state."
    if largest is not None:
        what = f"{largest['operator']}, {largest['state'] or largest['kind']}"
        said = f"The largest is {what}: {size_text(int(largest['bytes']))}, {largest['share']:.0%} of all state."
    requests = ", ".join(f"{many:,} {what}" for what, many in storage.requests.items())
    states = states.assign(share=[f"{share:.1%}" for share in states["share"]])
    return view_html(
        storage.title,
        answer(said),
        frame(states),
        fold("Files", f"{requests} of an object store", frame(files)),
        fold("Settings that would save files", f"{len(savings)}", frame(savings), is_open=True) if len(savings) else "",
    )
