"""The shapes of pictures: SVG elements with a class, a place, and a tooltip if there is something to say."""

from __future__ import annotations

from kit.core.markup import Markup, element


def text(x: float, y: float, look: str, words: str, anchor: str = "") -> Markup:
    """Return a line of text; `look` is its class."""
    return element("text", words, class_=look, x=round(x, 1), y=round(y, 1), text_anchor=anchor)


def rect(look: str, x: float, y: float, width: float, height: float, hint: str = "", **more: str | float) -> Markup:
    """Return a rectangle, with a tooltip."""
    return element("rect", *title(hint), class_=look, x=x, y=y, width=width, height=height, **more)


def path(look: str, d: str, hint: str = "", **more: str | float) -> Markup:
    """Return a path, with a tooltip."""
    return element("path", *title(hint), class_=look, d=d, **more)


def circle(look: str, cx: float, cy: float, r: float, hint: str = "") -> Markup:
    """Return a circle, with a tooltip."""
    return element("circle", *title(hint), class_=look, cx=cx, cy=cy, r=r)


def group(hint: str, *parts: Markup) -> Markup:
    """Return shapes that share a tooltip."""
    return element("g", *title(hint), *parts)


def moved(x: float, y: float, *parts: Markup) -> Markup:
    """Return shapes at another place."""
    return element("g", *parts, transform=f"translate({x:g} {y:g})")


def title(hint: str) -> list[Markup]:
    """Return the tooltip, if there is one."""
    return [element("title", hint)] if hint else []


__all__ = ["circle", "group", "moved", "path", "rect", "text", "title"]
