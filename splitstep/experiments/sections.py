"""What the documents of several studies have: cells and tables, curves and dots, the schemes, how to run it again."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from ..report.charts import Axis, Line, LineChart, Point, PointChart
from ..report.document import Diagrams, Evidence, Note, Pairs, Part, Verbatim
from ..report.tables import ON_PAGES, Cell, Column, Record, Table
from ..schemes import scheme
from ..support.provenance import Provenance
from ..support.words import counted
from ..training.result import RunOutcome
from .experiment import Claim, Difference
from .statistics import Estimate
from .trials import Curve

STEP = Axis("step", "{:,.0f}")
LOSS = Axis("loss", log=True)
READS = "mean [least, greatest seed]"
BAND = "The line is the mean over seeds; the band is from the least to the greatest."


class Run(Protocol):
    """A run of a study."""

    @property
    def device(self) -> str: ...


def estimated(value: Estimate | None, form: str) -> Cell:
    """A mean with its interval below it."""
    if value is None:
        return "-"
    if value.low is None or value.high is None:
        return form.format(value.mean), f"({value.lacks})"
    return form.format(value.mean), f"[{form.format(value.low)}, {form.format(value.high)}]"


def difference_of(value: Estimate | None, form: str) -> Cell:
    """The difference of two figures with its interval below it; of percentages it is in points."""
    cell = estimated(value, form.replace("{:", "{:+"))
    if isinstance(cell, str) or not form.endswith("%}"):
        return cell
    mean, interval = cell
    return mean.replace("%", " points"), interval.replace("%", "")


def status_cell(trial: RunOutcome) -> Cell:
    """How a run ended, and where it diverged."""
    found = trial.diverged
    return (trial.status, f"step {found.step}", f"loss {found.loss}", f"layer {found.layer}") if found else trial.status


def claims_table(claims: Sequence[Claim], page: str) -> list[Table]:
    """The claims; none if nothing was claimed. `page` states the rule."""
    heads = [Column(head, text=True) for head in ("claim", "answer", "figures")]
    rows = [(one.question, one.answer, one.evidence) for one in claims]
    return [Table(heads, rows, "What the rule says", [f"The rule stands in {page}."])] if rows else []


def differences_table(
    found: Sequence[Difference], name: Column, forms: Mapping[str, tuple[str, str]], note: str
) -> list[Table]:
    """A row for each pair of arms, and a column for each figure of `forms`: its head and how it is written."""
    pairs: dict[tuple[str, str], dict[str, Difference]] = {}
    for one in found:
        pairs.setdefault((one.of, one.to), {})[one.what] = one
    records: list[Record] = [
        {
            name: f"{of} - {to}",
            Column("pairs"): str(max((len(one.seeds) for one in own.values()), default=0)),
            **{Column((head, "[95%]")): difference_cell(own.get(what), form) for what, (head, form) in forms.items()},
        }
        for (of, to), own in pairs.items()
    ]
    return [Table.of(records, "Differences", [note])] if records else []


def runs_table(records: Iterable[Record], notes: Sequence[str] = ()) -> Table:
    """Every run, including those of settings that were not chosen."""
    return replace(Table.of(list(records), "All runs", notes, ON_PAGES), stacked=False)


def difference_cell(one: Difference | None, form: str) -> Cell:
    return "" if one is None else estimated(one.found, form)


def by_step(curves: Mapping[int, Curve]) -> dict[int, dict[int, float]]:
    """The values of each step by seed, in the order of the steps."""
    values: dict[int, dict[int, float]] = {}
    for seed, curve in curves.items():
        for step, value in zip(*curve, strict=True):
            values.setdefault(step, {})[seed] = value
    return dict(sorted(values.items()))


def band_line(name: str, found: Sequence[Curve]) -> Line:
    """The mean of curves over the runs that reached each step, with a band from the least to the greatest if there are
    several."""
    values = {step: list(own.values()) for step, own in by_step(dict(enumerate(found))).items()}
    ends = ([end(own) for own in values.values()] for end in (min, max)) if len(found) > 1 else ()
    return Line(name, list(values), [sum(own) / len(own) for own in values.values()], *ends)


def curves_chart(
    title: str, found: Iterable[tuple[str, Sequence[Curve]]], seeds: int, name: str, y: Axis = LOSS
) -> LineChart:
    """A figure of each arm against the step: the mean over so many seeds, with a band."""
    lines = [band_line(arm, own) for arm, own in found]
    return LineChart(title, STEP, y, lines, READS if seeds > 1 else "one seed", name=name)


def dots(
    title: str, y: Axis, found: Sequence[tuple[str, Estimate | float | None]], reads: str, name: str, **more: Any
) -> PointChart:
    """Rows beside each other, a dot with its interval for each, whose places along x have their names."""
    x = Axis("", "", shown=(-0.5, len(found) - 0.5), names=[row for row, _ in found])
    points = [
        Point(row, place, *one[:3], one.lacks) if isinstance(one, Estimate) else Point(row, place, one)
        for place, (row, one) in enumerate(found)
        if one is not None
    ]
    return PointChart(title, x, y, points, reads, name, **more)


def devices_of(runs: Iterable[Run]) -> tuple[str, ...]:
    """The devices that runs were on."""
    return tuple(sorted({run.device for run in runs}))


def summary(made: Provenance, runs: Sequence[Run], counts: Mapping[str, int]) -> Note:
    """How many of what were run, and how many runs these are; where and when."""
    many = ", ".join(counted(count, noun) for noun, count in {**counts, "run": len(runs)}.items())
    return Note(f"{many} on {', '.join(devices_of(runs))}; {made.date}.")


def pictures(schemes: Iterable[tuple[str, str]], note: str = "") -> list[Part]:
    """The schemes of names and notations as diagrams; each notation once, under its first name."""
    names = dict[str, str]()
    for name, notation in schemes:
        names.setdefault(notation, name)
    shown = Diagrams([(name, scheme(notation)) for notation, name in names.items()])
    return [Evidence("The schemes", [*([Note(note)] if note else []), shown])]


def reproduced(
    made: Provenance, call: str, known: Iterable[tuple[str, str]] | None = None, more: Sequence[Part] = ()
) -> list[Part]:
    """The command, or the call, that made a result, and what it was made with."""
    shown = made.entries("commit", "versions", "date") if known is None else known
    return [Evidence("How to reproduce", [Verbatim(made.command or call), Pairs(list(shown)), *more])]


def recipe_of_all(recipe: Any, note: str = "The recipe, with all defaults written out:") -> list[Part]:
    """A recipe under a note."""
    import yaml

    return [Note(note, plain=True), Verbatim(yaml.safe_dump(recipe, sort_keys=False))]


def reproduce(made: Provenance, runs: Iterable[Run], call: str) -> list[Part]:
    """The command or the call that made a result, and all that it depends on."""
    import yaml

    data = {name: value for name, value in (made.data or {}).items() if name != "sha256"}
    known = replace(made, devices=devices_of(runs)).entries("commit", "versions", "devices", "engine", "date")
    more = [
        *recipe_of_all(made.recipe or {}),
        Note("The data, as the task read it; hashes are in result.json:", plain=True),
        Verbatim(yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=100)),
    ]
    return reproduced(made, f"{call} with the recipe below", known, more)
