"""What moves a chart through its states: a button, a slider and menus, which stay hidden if no script runs."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from .plots import attribute

SPEEDS = (("0.5", "half"), ("1", "normal"), ("2", "double"), ("4", "fourfold"))


def titled(title: str, where: str) -> str:
    """A title that says where the slider stands."""
    return f'<h2>{escape(title)} <span class="at" dir="auto">{escape(where)}</span></h2>'


def controls(along: str, places: int, at: int, menus: str = "") -> str:
    """A button that plays, a slider over so many places, and what else there is to choose."""
    ends = f'min="0" max="{places - 1}" step="1" value="{at}"'
    return (
        '<div class="controls" hidden="hidden"><button type="button" class="play">Play</button>'
        f'<input type="range" {ends} autocomplete="off" aria-label="{escape(along)}"/>{menus}</div>'
    )


def menu(label: str, kind: str, options: Iterable[tuple[str, str]], chosen: str = "") -> str:
    """A menu of values and what they are called."""
    picked = attribute("selected", "selected")
    listed = "".join(
        f'<option value="{escape(value)}"{picked if value == chosen else ""}>{escape(text)}</option>'
        for value, text in options
    )
    return f'<label>{escape(label)} <select class="{kind}" autocomplete="off">{listed}</select></label>'
