"""Charts of leads: a forest plot beside the noise floor, and the lead of each arm against the budget."""

from __future__ import annotations

from collections.abc import Sequence

from ...experiments.noise import Floor
from ...report.charts import Axis, Bar, Forest, Line, LineChart
from ...report.document import Part
from ...report.forest import forest_table
from .sentence import NATS, Finding, Unit


def forest(first: str, arms: Sequence[Finding], floor: Floor | None, unit: Unit = NATS) -> list[Part]:
    """The lead of each arm with its interval, for pages, and in characters for the terminal and Markdown."""
    bars = list[Bar]()
    for one in arms:
        if lead := one.decision.lead:
            low, high = (None if end is None else unit.scale * end for end in (lead.low, lead.high))
            band = unit.scale * floor.band(lead.n) if floor else 0.0
            bars.append(Bar(one.arm, unit.scale * lead.mean, low, high, band))
    signed = Axis(f"lead over {first}, {unit.name}", unit.form.replace("{:", "{:+"))
    drawn = Forest(f"Lead over {first}", signed, bars, "mean [95% interval]", "chart-leads", note(first, floor, unit))
    return [drawn, forest_table(drawn, "leads")] if bars else []


def note(first: str, floor: Floor | None, unit: Unit) -> str:
    """What the band is made of."""
    if floor is None:
        return ""
    ends = f"{unit.size(floor.sd)} [{unit.numbers((floor.low, floor.high))}]"
    how = f"{first} trained again with other weights" if floor.paired else f"{first}'s seeds, unpaired"
    return f"Grey: how far chance alone takes a mean, in 95% of the cases. The noise floor is {ends}, by {how}."


def against_budget(first: str, arms: Sequence[Finding], x: Axis, budgets: Sequence[float], unit: Unit) -> LineChart:
    """The lead of each arm at each budget, with its interval if seeds show one."""
    lines = list[Line]()
    for one in arms:
        means = one.trend.means if one.trend else ()
        low, high = ([unit.scale * end for mean in means if (end := mean[side]) is not None] for side in (1, 2))
        band = (low, high) if low and len(low) == len(means) else ()
        if means:
            lines.append(Line(one.arm, budgets, [unit.scale * mean.mean for mean in means], *band))
    y = Axis(f"lead over {first}, {unit.name}", unit.form.replace("{:", "{:+"))
    title = f"Lead over {first} against the budget"
    return LineChart(title, x, y, lines, "mean [95% interval]", 0.0, "chart-budgets", first=1)
