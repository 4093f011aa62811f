"""Charts of a comparison: loss curves with bands over seeds, their differences, quality against cost; by plotly."""

from __future__ import annotations

from typing import Any

from ..studies.compare.result import Comparison, Curve, Row
from ..studies.statistics import Estimate, paired_difference
from ..tasks.task import title_of
from .page import MissingPackage

PALETTE = ("#2f6db5", "#c8641b", "#2a8a57", "#7a4fb0", "#b3261e", "#0f8b8d", "#8a6d1a", "#c2478a")
DASHES = ("solid", "dash", "dot", "dashdot")
FONT = {"family": "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif", "size": 13, "color": "#1d2433"}
HEIGHT = 380
LONGEST = 32  # letters of a name in a legend


def plotly_script() -> str:
    """The library itself, to stand in the page once."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise MissingPackage(
            "the page needs plotly: pip install 'splitstep[report]', then `splitstep report DIR`, here or where it is."
        ) from None
    return get_plotlyjs()


def html(figure: dict[str, Any], name: str) -> str:
    """A figure as HTML that finds plotly in the page."""
    from plotly.io import to_html

    config = {"responsive": True, "displayModeBar": False, "displaylogo": False}
    inner = to_html(
        figure, config, include_plotlyjs=False, include_mathjax=False, full_html=False, validate=False, div_id=name,
        default_width="100%", default_height=f"{HEIGHT}px",
    )  # fmt: skip
    return f'<div class="plot">{inner}</div>'


def text(words: str) -> str:
    """Text for plotly, which reads a little HTML."""
    return words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def short(name: str) -> str:
    """A name that fits a legend on a phone."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}\u2026"


def colour(i: int) -> str:
    return PALETTE[i % len(PALETTE)]


def dash(i: int) -> str:
    """Beyond the palette colours come again with other strokes."""
    return DASHES[i // len(PALETTE) % len(DASHES)]


def faint(hex_colour: str, alpha: float = 0.16) -> str:
    red, green, blue = (int(hex_colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"


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


def metric_axis(result: Comparison) -> dict[str, Any]:
    percent = "%" in result.metric.format
    return {"title": axis_title(title_of(result.metric)), **({"tickformat": ".1%"} if percent else {})}


def curves(result: Comparison, column: str, y: dict[str, Any]) -> dict[str, Any]:
    """A figure against the step: the mean over seeds, and between the least and the greatest a band."""
    data = list[dict[str, Any]]()
    for i, row in enumerate(result.rows):
        steps, low, mean, high = band([getattr(trial, column) for trial in result.chosen(row)])
        data += [*([shade(i, steps, low, high)] * (len(result.seeds) > 1)), line(i, row.name, steps, mean)]
    return over_steps(data, y)


def differences(result: Comparison, column: str) -> dict[str, Any]:
    """A loss minus the first row's against the step, seed by seed: the mean, and its 95% interval as a band."""
    data, seen = list[dict[str, Any]](), list[float]()
    first = {trial.seed: getattr(trial, column) for trial in result.chosen(result.rows[0])}
    for i, row in enumerate(result.rows[1:], 1):
        found = {trial.seed: getattr(trial, column) for trial in result.chosen(row)}
        steps, estimates = paired(found, first)
        low = [one.mean if one.low is None else one.low for one in estimates]
        high = [one.mean if one.high is None else one.high for one in estimates]
        data += [shade(i, steps, low, high), line(i, row.name, steps, [one.mean for one in estimates])]
        late = [k for k, step in enumerate(steps) if step > steps[-1] / 10]
        seen += [end for k in late for end in (low[k], high[k])]
    least, greatest = min(seen, default=0.0), max(seen, default=0.0)
    room = 0.05 * (greatest - least) or 0.01
    shown = [min(least, 0.0) - room, max(greatest, 0.0) + room]  # what is early may be far out
    axis = {"title": axis_title("difference of losses"), "zeroline": True, "zerolinecolor": "#8a93a5", "range": shown}
    return over_steps(data, axis)


def paired(found: dict[int, Curve], reference: dict[int, Curve]) -> tuple[list[int], list[Estimate]]:
    """Steps that two rows have in common, and what their runs of the same seed differ by there."""
    ours, theirs = by_step(found), by_step(reference)
    differences = {step: paired_difference(ours[step], theirs[step]) for step in sorted(ours.keys() & theirs.keys())}
    known = {step: one for step, one in differences.items() if one is not None}
    return list(known), list(known.values())


def by_step(curves: dict[int, Curve]) -> dict[int, dict[int, float]]:
    """The values of each step by seed."""
    values: dict[int, dict[int, float]] = {}
    for seed, curve in curves.items():
        for step, value in zip(*curve, strict=True):
            values.setdefault(step, {})[seed] = value
    return values


def shade(i: int, steps: list[int], low: list[float], high: list[float]) -> dict[str, Any]:
    """The band of row i."""
    return {
        "type": "scatter", "x": [*steps, *reversed(steps)], "y": [*high, *reversed(low)], "fill": "toself",
        "mode": "lines", "line": {"width": 0}, "fillcolor": faint(colour(i)), "hoverinfo": "skip",
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


def band(found: list[Curve]) -> tuple[list[int], list[float], list[float], list[float]]:
    """Steps, least, mean and greatest value over the runs that have come so far."""
    values: dict[int, list[float]] = {}
    for curve in found:
        for step, value in zip(curve.steps, curve.values, strict=True):
            values.setdefault(step, []).append(value)
    steps = sorted(values)
    columns = [values[step] for step in steps]
    return steps, [min(c) for c in columns], [sum(c) / len(c) for c in columns], [max(c) for c in columns]


def quality(result: Comparison, count: str, title: str) -> dict[str, Any]:
    """The test metric with its interval against a cost."""
    costs = [getattr(row.cost, count) for row in result.rows]
    pad = max(0.15 * (max(costs) - min(costs)), 0.05 * max(costs))
    places = side_by_side(costs, 0.025 * (max(costs) - min(costs) + 2 * pad))
    data = [point(row, i, places[i], f"{costs[i]:,} {title}") for i, row in enumerate(result.rows) if row.test]
    x = {"title": axis_title(title), "range": [min(costs) - pad, max(costs) + pad], "tickformat": "~s", "nticks": 6}
    return {"data": data, "layout": layout(x, metric_axis(result))}


def side_by_side(values: list[int], gap: float) -> list[float]:
    """Where to draw these values: in their order, at least `gap` apart, so that none hides another, and else as near to
    themselves as can be (least squares; what would stand too near is pooled and spread about its mean)."""
    order = sorted(range(len(values)), key=values.__getitem__)
    pools = list[tuple[float, int]]()  # the mean of value - rank * gap, which must not decrease, and of how many
    for rank, i in enumerate(order):
        mean, many = values[i] - rank * gap, 1
        while pools and pools[-1][0] > mean:
            before, more = pools.pop()
            mean, many = (before * more + mean * many) / (more + many), more + many
        pools.append((mean, many))
    shifted = [mean for mean, many in pools for _ in range(many)]
    places = dict(zip(order, (one + rank * gap for rank, one in enumerate(shifted)), strict=True))
    return [places[i] for i in range(len(values))]


def point(row: Row, i: int, x: float, cost: str) -> dict[str, Any]:
    assert row.test is not None
    low, high = row.test.low, row.test.high
    interval = {} if low is None or high is None else {
        "error_y": {
            "type": "data", "symmetric": False, "array": [high - row.test.mean], "arrayminus": [row.test.mean - low],
            "thickness": 1.6, "width": 6,
        }
    }  # fmt: skip
    return {
        "type": "scatter", "mode": "markers", "x": [x], "y": [row.test.mean], "name": text(short(row.name)),
        "hovertext": [text(cost)], "hoverinfo": "text+y+name",
        "marker": {"size": 11, "color": colour(i), "symbol": i // len(PALETTE)}, **interval,
    }  # fmt: skip
