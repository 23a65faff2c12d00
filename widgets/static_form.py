"""What stays of a widget where none can be shown: in a notebook that was closed, on a page, in a plain terminal."""

from __future__ import annotations

from typing import Any


def with_static_form(bundle: Any, **forms: str) -> Any:
    """What ipywidgets gives for a widget, and these forms beside it; a name's underscore stands for the slash of a MIME
    type's main part: `text_plain`, `text_html`, `image_svg`.
    """
    data, *rest = bundle if isinstance(bundle, tuple) else (bundle,)
    data = {**(data or {}), **{_MIME[name]: form for name, form in forms.items()}}
    return (data, *rest) if rest else data


_MIME = {"text_plain": "text/plain", "text_html": "text/html", "image_svg": "image/svg+xml"}
