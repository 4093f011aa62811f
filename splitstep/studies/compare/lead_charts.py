"""Leads as charts and cells: beside the noise floor, against the budget, and what else is known of each arm."""

from collections.abc import Sequence

from ...experiments.noise import Floor
from ...experiments.statistics import Estimate
from ...report.charts import Axis, Bar, Forest, Line, LineChart
from ...report.document import Part
from ...report.forest import forest_table
from ...report.tables import Column, Record
from .sentence import NATS, Finding, Unit


def forest(first: str, arms: Sequence[Finding], floor: Floor | None, unit: Unit = NATS) -> list[Part]:
    """The lead of each arm with its interval, for pages, and in characters for the terminal and Markdown."""
    bars = list[Bar]()
    for one in arms:
        if lead := one.decision.lead:
            low, high = (None if end is None else unit.scale * end for end in (lead.low, lead.high))
            band = floor.band(lead.n) if floor else 0.0
            bars.append(Bar(one.arm, unit.scale * lead.mean, low, high, unit.scale * band))
    x = Axis(f"lead over {first}, {unit.name}", signed(unit))
    drawn = Forest(f"Lead over {first}", x, bars, "mean [95% interval]", "chart-leads", note(first, floor, unit))
    return [drawn, forest_table(drawn, "leads")] if bars else []


def lead_record(first: str, one: Finding | None, unit: Unit) -> Record:
    """What is decided of an arm with its lead in noise floors, what the budget changes, and the tokens that it saves;
    nothing of the first one."""
    known = one is not None
    return {
        Column(("decided", "noise floors [95%]"), below=True): (
            (one.decision.word, *cell(one.floors, "{:+.1f}")) if known else ""
        ),
        Column(("with the budget", "per tripling [95%]"), text=True): moving(first, one, unit) if known else "",
        Column("multiplier [95%]", text=True, below=True): saved(one) if known else "",
    }


def signed(unit: Unit) -> str:
    return unit.form.replace("{:", "{:+")


def cell(found: Estimate | None, form: str, scale: float = 1.0) -> tuple[str, ...]:
    """A mean with its interval."""
    if found is None:
        return ()
    mean, *ends = (form.format(scale * end + 0.0) for end in found[:3] if end is not None)
    return (f"{mean} [{', '.join(ends)}]",) if ends else (mean,)


def moving(first: str, one: Finding, unit: Unit) -> tuple[str, ...]:
    """The word for a trend, with whose lead it is about or where the difference goes, and the slope."""
    if one.trend is None or len(one.trend.means) < 2:
        return ()
    word, slope, start = one.trend.word, one.trend.slope, one.trend.means[0].mean
    if word == "moves":
        word = f"moves towards {one.arm if slope and slope.sign > 0 else first}"
    elif word in ("grows", "fades", "turns"):
        word = f"{one.arm if start > 0 else first}'s lead {word}"
    return word, *cell(slope, signed(unit), unit.scale)


def saved(one: Finding) -> tuple[str, ...]:
    """The multiplier, or why there is none."""
    if one.multiplier is None:
        return ()
    if one.multiplier.mean is None:
        return "none", one.multiplier.reason
    return *cell(one.multiplier.mean, "{:.2f}"), one.multiplier.unit


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
    y = Axis(f"lead over {first}, {unit.name}", signed(unit))
    title = f"Lead over {first} against the budget"
    return LineChart(title, x, y, lines, "mean [95% interval]", 0.0, "chart-budgets", first=1)
