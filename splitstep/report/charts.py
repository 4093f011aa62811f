"""Parts of plotly charts for all studies: lines and bands over steps, points, a layout."""

from __future__ import annotations

from html import escape
from typing import Any

from .page import MissingPackage

PALETTE = ("#2f6db5", "#c8641b", "#2a8a57", "#7a4fb0", "#b3261e", "#0f8b8d", "#8a6d1a", "#c2478a")
FAINT = "29"  # the opacity of a band, 16%, after a colour
DASHES = ("solid", "dash", "dot", "dashdot")
FONT = {"family": "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif", "size": 13, "color": "#1d2433"}
HEIGHT = 380
LONGEST = 32  # characters of a name in a legend


def plotly_script() -> str:
    """The library itself, which a page holds once."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise MissingPackage(
            "the page needs plotly: pip install 'splitstep[report]', then run `splitstep report DIR`."
        ) from None
    return get_plotlyjs()


def chart(title: str, figure: dict[str, Any], name: str) -> str:
    """A figure with its title, as HTML for a page that has plotly."""
    from plotly.io import to_html

    config = {"responsive": True, "displayModeBar": False, "displaylogo": False}
    inner = to_html(
        figure, config, include_plotlyjs=False, include_mathjax=False, full_html=False, validate=False, div_id=name,
        default_width="100%", default_height=f"{HEIGHT}px",
    )  # fmt: skip
    return f'{f"<h2>{escape(title)}</h2>" if title else ""}<div class="plot">{inner}</div>'


def text(words: str) -> str:
    """Text for plotly, which interprets some HTML."""
    return escape(words, quote=False)


def short(name: str) -> str:
    """A name that fits a legend on a phone."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}\u2026"


def colour(i: int) -> str:
    return PALETTE[i % len(PALETTE)]


def dash(i: int) -> str:
    """The stroke of row i: after the palette, colours repeat with another one."""
    return DASHES[i // len(PALETTE) % len(DASHES)]


def layout(x: dict[str, Any], y: dict[str, Any]) -> dict[str, Any]:
    grid = {"gridcolor": "#e8ebf0", "linecolor": "#c5cbd6", "zeroline": False, "automargin": True}
    return {
        "font": FONT, "height": HEIGHT, "autosize": True, "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "paper_bgcolor": "#ffffff", "plot_bgcolor": "#ffffff", "hoverlabel": {"namelength": -1},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "xaxis": {**grid, **x}, "yaxis": {**grid, **y},
    }  # fmt: skip


def axis_title(words: str) -> dict[str, Any]:
    return {"text": text(words), "standoff": 8}


def shade(i: int, steps: list[int], low: list[float], high: list[float]) -> dict[str, Any]:
    """The band of row i."""
    return {
        "type": "scatter", "x": [*steps, *reversed(steps)], "y": [*high, *reversed(low)], "fill": "toself",
        "mode": "lines", "line": {"width": 0}, "fillcolor": f"{colour(i)}{FAINT}", "hoverinfo": "skip",
        "showlegend": False, "legendgroup": str(i),
    }  # fmt: skip


def line(i: int, name: str, steps: list[int], values: list[float]) -> dict[str, Any]:
    """The line of row i."""
    return {
        "type": "scatter", "x": steps, "y": values, "mode": "lines+markers" if len(steps) < 15 else "lines",
        "name": text(short(name)), "legendgroup": str(i), "marker": {"size": 6},
        "line": {"color": colour(i), "width": 2, "dash": dash(i)},
    }  # fmt: skip


def over_steps(data: list[dict[str, Any]], y: dict[str, Any]) -> dict[str, Any]:
    return {"data": data, "layout": {**layout({"title": axis_title("step")}, y), "hovermode": "x unified"}}


def point(i: int, name: str, x: float, y: tuple[float, float | None, float | None], hover: str) -> dict[str, Any]:
    """The point of row i; y is a value, and the ends of its interval if it has one."""
    value, low, high = y
    interval = {} if low is None or high is None else {
        "error_y": {
            "type": "data", "symmetric": False, "array": [high - value], "arrayminus": [value - low],
            "thickness": 1.6, "width": 6,
        }
    }  # fmt: skip
    return {
        "type": "scatter", "mode": "markers", "x": [x], "y": [value], "name": text(short(name)),
        "hovertext": [text(hover)], "hoverinfo": "text+y+name",
        "marker": {"size": 11, "color": colour(i), "symbol": i // len(PALETTE)}, **interval,
    }  # fmt: skip


def spread_out(values: list[int], gap: float) -> list[float]:
    """Where to draw these values: in their order, at least `gap` apart so none hides another, and otherwise as near to
    their true positions as possible (least squares: values too near are pooled and spread about their mean)."""
    order = sorted(range(len(values)), key=values.__getitem__)
    pools = list[tuple[float, int]]()  # the mean of value - rank * gap, which must not decrease, and how many values
    for rank, i in enumerate(order):
        mean, many = values[i] - rank * gap, 1
        while pools and pools[-1][0] > mean:
            before, more = pools.pop()
            mean, many = (before * more + mean * many) / (more + many), more + many
        pools.append((mean, many))
    shifted = [mean for mean, many in pools for _ in range(many)]
    moved = dict(zip(order, (one + rank * gap for rank, one in enumerate(shifted)), strict=True))
    return [moved[i] for i in range(len(values))]
