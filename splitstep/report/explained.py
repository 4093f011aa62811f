"""What stands below a chart: its equation, how to read it, and a button that saves its figures."""

from __future__ import annotations

import json
import re
from html import escape

from .charts import ComplexPlane, Explained, ParticleChart, SliderChart
from .figures import figures
from .plots import attribute

LEVELS = {"_": "sub", "^": "sup"}
PIECE = re.compile(r"([_^])(?:\{|(.))|(\})|([A-Za-z]+)|([^_^}A-Za-z]+)", re.DOTALL)


def explained(chart: Explained, drawn: str) -> str:
    """A drawn chart with what explains it."""
    equation = f'<p class="equation">{equation_to_html(chart.equation)}</p>' if chart.equation else ""
    reading = f'<p class="reading">{escape(chart.reading)}</p>' if chart.reading else ""
    kind = "explained beside" if on_equal_scales(chart) else "explained"
    return (
        f'<div class="{kind}"{attribute("data-figures", own_figures(chart))}>{drawn}<div class="about">'
        f"{equation}{reading}{button(chart.file)}</div></div>"
    )


def on_equal_scales(chart: Explained) -> bool:
    """Whether the chart is about as wide as high, so that there is room beside it."""
    inside = chart.chart
    return isinstance(inside.charts[0] if isinstance(inside, SliderChart) else inside, ComplexPlane)


def button(file: str) -> str:
    if not file:
        return ""
    return (
        f'<button type="button" class="download" data-file="{escape(file)}" hidden="hidden">'
        f"Download the figures<small>{escape(file)}</small></button>"
    )


def own_figures(chart: Explained) -> str:
    """The figures as JSON, unless the script finds them in the chart: those of particles and planes with a slider."""
    inside = chart.chart
    drawn_from_them = isinstance(inside, SliderChart) and on_equal_scales(chart)
    if not chart.file or drawn_from_them or isinstance(inside, ParticleChart):
        return ""
    return json.dumps(figures(inside)._asdict(), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def equation_to_html(text: str) -> str:
    """An equation whose single letters are variables; `_` lowers and `^` raises a letter or what is in braces."""
    written, closing = list[str](), list[str]()
    for level, letter, close, word, other in PIECE.findall(text):
        if level and letter:
            written.append(f"<{LEVELS[level]}>{symbol(letter)}</{LEVELS[level]}>")
        elif level:
            written.append(f"<{LEVELS[level]}>")
            closing.append(f"</{LEVELS[level]}>")
        elif close and closing:
            written.append(closing.pop())
        else:
            written.append(symbol(close or word or other))
    return "".join([*written, *reversed(closing)])


def symbol(text: str) -> str:
    """A variable if it is one letter; else a word, a number or a sign, with a minus as printers have it."""
    return f"<var>{text}</var>" if re.fullmatch("[A-Za-z]", text) else escape(text.replace("-", "\u2212"))
