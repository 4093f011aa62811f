"""What an ablation says: the claims first, then every analysis, over the layers and along training."""

import math
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import NamedTuple

from ...experiments.sections import STEP, curves_chart, dots, pictures, reproduce, summary
from ...experiments.statistics import Estimate
from ...report.charts import Axis, HeatMap, Line, LineChart, SmallMultiples, Trail, TrailChart
from ...report.document import Beside, Document, Evidence, Heading, Note, Part, Verdict, folded, kind_of
from ...report.heat import on_one_scale
from ...report.tables import Table
from ...support.words import listed
from . import tables
from .result import DRIFT, EXPLOSION, GROUP, Ablation, ArmResult, DecidedClaim, Series

LAYER = Axis("layer", "{:.0f}", apart=1.0)
COSINE = Axis("cosine", "{:.3f}")
SHARE = Axis("CKA", "{:.3f}")
NONE = Series((), ())
OVER_LAST, OVER_FULL = "log10, over the last layer's", "log10, over the full arm's"
RULINGS = ("supported", "not supported", "undecided")
READS = "mean [95% interval]"
LOSSES = {"train": "Training loss", "valid": "Validation loss"}


def document(result: Ablation) -> Document:
    """The whole document."""
    title = f"{result.task}: {', '.join(arm.name for arm in result.arms)}"
    parts = [
        measures_chart(result),
        tables.claims_table(result),
        summary(result.made, result.trials, {"arm": len(result.arms), "seed": len(result.seeds)}),
        Evidence("The claims and their figures", [part for one in result.claims for part in claimed(result, one)]),
        *folded([tables.arms_table(result), tables.measures_table(result), tables.lost_table(result)]),
        *(Evidence(title, draw(result)) for needs, (title, draw) in SECTIONS.items() if has(result, needs)),
        *folded([tables.replay_table(result)]),
        Evidence("Losses", [Beside([loss_curves(result, split, title) for split, title in LOSSES.items()])]),
        *pictures((arm.name, arm.scheme) for arm in result.arms),
        *folded([tables.runs_table(result)]),
        *reproduce(result.made, result.trials, "splitstep.studies.ablate.ablate(...)"),
    ]
    return Document(title, parts, ablation_verdict(result), headline(result))


def ablation_verdict(result: Ablation) -> Verdict:
    """All claims in one sentence."""
    told = "; ".join(f"{claim.text[0].lower()}{claim.text[1:]}: {claim.ruling}" for claim in result.claims)
    kind = kind_of((claim.ruling for claim in result.claims), len(result.seeds) <= 2)
    return Verdict(kind, f"{told[0].upper()}{told[1:]}.")


def headline(result: Ablation) -> str:
    """The paper's claims by their names, with what the figures say about them."""
    found = {one: [claim.name for claim in result.claims if claim.ruling == one] for one in RULINGS}
    return " ".join(f"{ruling.capitalize()}: {listed(names)}." for ruling, names in found.items() if names)


def measures_chart(result: Ablation) -> SmallMultiples:
    """What the claims are about: a dot with its interval for each arm, beside the limit of the rule."""
    figures = {
        "drift": ("Drift", Axis("cosine with the input", "{:.3f}"), DRIFT),
        "growth": ("Explosion", Axis("gradient growth per layer", "{:.3g}", log=True), EXPLOSION),
        "alignment": ("Alignment", Axis("CKA with full, minus two seeds'", "{:+.3f}"), 0.0),
    }
    charts = [
        dots(title, y, [(arm.name, getattr(arm.own, name)) for arm in result.arms], READS, f"chart-{name}", level=level)
        for name, (title, y, level) in figures.items()
    ]
    return SmallMultiples("The paper's three claims", charts)


def tables_together(results: Sequence[tuple[str, Ablation]]) -> Sequence[Table]:
    """The claims and the arms of several ablations; all tables of a single one."""
    return tables.common_tables(results) if len(results) > 1 else document(results[0][1]).tables


def claimed(result: Ablation, claim: DecidedClaim) -> list[Part]:
    """A claim with the figures that decide it and, if an arm has another rate of its own, what the full arm's says."""
    sentence = f"{claim.text}: {claim.ruling}. {claim.number[0].upper()}{claim.number[1:]}."
    shown: list[Part] = [Verdict(kind_of([claim.ruling]), sentence)]
    if any(arm.own.rate != arm.shared.rate for arm in result.arms):
        at = f"At the full arm's learning rate, {result.full.own.rate:g}: {claim.at_shared_rate}"
        shown.append(Note(f"{at}; {claim.number_at_shared_rate}."))
    return shown


def loss_curves(result: Ablation, split: str, title: str) -> LineChart:
    """A loss of each arm at its own rate."""
    found = [(arm.name, [getattr(one, f"{split}_loss") for one in result.chosen(arm)]) for arm in result.arms]
    return curves_chart(title, found, len(result.seeds), f"chart-{split}")


def has(result: Ablation, name: str) -> bool:
    """Whether an arm has this figure."""
    return any(name in {**arm.own.series, **arm.own.profiles, **arm.own.maps} for arm in result.arms)


class Figure(NamedTuple):
    """A figure of each layer: its name in the result, a title, an axis, and the number of its first layer."""

    name: str
    title: str
    y: Axis
    first: int = 1
    level: float | None = None
    baseline: str = ""  # what that of the full arm is

    def over_layers(self, result: Ablation) -> LineChart:
        """The figure at the end of training over the layers, arm by arm."""
        lines = list[Line]()
        for arm in result.arms:
            found = enumerate(arm.own.profiles.get(self.name, ()), self.first)
            known = {layer: one for layer, one in found if one is not None}
            ends = [(one.low, one.high) for one in known.values() if one.low is not None and one.high is not None]
            band = map(list, zip(*ends, strict=True)) if len(ends) == len(known) else ()
            name = self.label(result, arm, bool(known))
            lines.append(Line(name, list(known), [one.mean for one in known.values()], *band))
        reads = "mean [95% interval]" if any(line.low for line in lines) else "mean"
        return LineChart(self.title, LAYER, self.y, lines, reads, self.level, f"chart-{self.name}-layers")

    def along_training(self, result: Ablation, title: str = "", layer: int = -1) -> LineChart:
        """The figure of one layer against the step, arm by arm: means over seeds."""
        lines = list[Line]()
        for arm in result.arms:
            steps, values = arm.own.series.get(self.name, NONE)
            lines.append(Line(self.label(result, arm, bool(steps)), steps, [record[layer] for record in values]))
        return LineChart(title or self.title, STEP, self.y, lines, "mean", self.level, f"chart-{self.name}-steps")

    def label(self, result: Ablation, arm: ArmResult, known: bool) -> str:
        """The name of an arm's line. An arm without figures has an empty one, so that the others keep their colours."""
        remark = ("" if arm is not result.full else self.baseline) if known else "no figures"
        return f"{arm.name} ({remark})" if remark else arm.name


def numbers(count: int, first: int = 1) -> list[str]:
    return [str(first + i) for i in range(count)]


def gradient_maps(result: Ablation) -> SmallMultiples:
    """The gradient over layer and step, relative to the last layer: its decimal logarithm, a map for each arm."""
    maps = list[HeatMap]()
    for arm in result.arms:
        if (found := arm.own.series.get("gradients")) is not None:
            records = [[logarithm(norm, record[-1]) for norm in record] for record in found.values]
            rows = list(zip(*records, strict=True))[::-1]
            columns = [f"{step:,}" for step in found.steps]
            layers = numbers(len(rows), 0)[::-1]
            maps.append(HeatMap(arm.name, "step", "layer", columns, layers, rows, "{:+.2f}", what=OVER_LAST))
    return SmallMultiples("", on_one_scale(maps))


def logarithm(ours: float, theirs: float) -> float:
    """The decimal logarithm of a ratio of positive numbers, NaN of others."""
    return math.log10(ours / theirs) if ours > 0 < theirs and math.isfinite(ours / theirs) else math.nan


def group_maps(result: Ablation) -> SmallMultiples:
    """The gradient of each group of parameters in each layer at the end, over the full arm's, a map for each arm."""
    maps, full = list[HeatMap](), result.full.own.profiles
    for arm in result.arms[1:]:
        own = arm.own.profiles
        rows = {name: ratios(own[name], full[name]) for name in full if name.startswith(GROUP) and name in own}
        if rows:
            even = list(zip(*zip_longest(*rows.values(), fillvalue=math.nan), strict=True))
            names = [name.removeprefix(GROUP) for name in rows]
            layers = numbers(len(even[0]))
            maps.append(HeatMap(arm.name, "layer", "group", layers, names, even, "{:+.2f}", what=OVER_FULL))
    return SmallMultiples("", on_one_scale(maps))


def ratios(ours: Iterable[Estimate | None], theirs: Iterable[Estimate | None]) -> list[float]:
    """The decimal logarithm of each mean over the other one."""
    pairs = zip(ours, theirs, strict=False)
    return [math.nan if a is None or b is None else logarithm(a.mean, b.mean) for a, b in pairs]


def head_maps(result: Ablation, name: str) -> SmallMultiples:
    """A figure over layer and head at the end of training, a map for each arm."""
    maps = list[HeatMap]()
    for arm in result.arms:
        if (rows := arm.own.maps.get(name)) is not None:
            title = f"{arm.name} (two seeds)" if arm is result.full else arm.name
            heads, layers = numbers(len(rows[0]) if rows else 0), numbers(len(rows))[::-1]
            maps.append(HeatMap(title, "head", "layer", heads, layers, rows[::-1], "{:.3f}", what="nats"))
    return SmallMultiples("", on_one_scale(maps))


def information_planes(result: Ablation) -> SmallMultiples:
    """I(Y; T) against I(X; T), a plane for each arm: each line joins the layers of one record, time is the colour."""
    planes, about_x, about_y = list[TrailChart](), *(Axis(f"I({one}; T), nats", "{:.2f}") for one in "XY")
    for arm in result.arms:
        x, y = (arm.own.series.get(f"information_{one}", NONE) for one in "xy")
        if x.steps and y.steps:
            records = zip(x.steps, x.values, y.values, strict=True)
            trails = [Trail(step, [f"layer {i}" for i in range(len(xs))], xs, ys) for step, xs, ys in records]
            planes.append(TrailChart(arm.name, about_x, about_y, STEP, trails))
    return SmallMultiples("Information plane", planes)


def drift(result: Ablation) -> list[Part]:
    """How far the state turns away from the input."""
    layers = Figure("drift", "Cosine with the input", COSINE, level=DRIFT)
    note = (
        "How far the state turns away from the stack's input: the mean cosine over tokens. Over the layers at the end "
        f"of training, and along it. A network drifts below {DRIFT:g}."
    )
    return [
        Note(note),
        Beside([layers.over_layers(result), layers.along_training(result, "The last layer's cosine with the input")]),
        Figure("neighbours", "Cosine with the layer before", COSINE).over_layers(result),
    ]


def gradients(result: Ablation) -> list[Part]:
    """The gradients of states and of parameters, layer by layer."""
    growth = Figure("growth", "Growth per layer", Axis("factor per layer", "{:.3g}", log=True), level=EXPLOSION)
    first = Figure("gradients", "Gradient at the stack's input", Axis("norm of the gradient", "{:.3g}", log=True))
    note = (
        "The norm of the loss's gradient with respect to the state before each layer, over that after the last: its "
        "decimal logarithm, +1 is ten times as large. Layer 0 is the stack's input."
    )
    of_parameters = (
        "The gradient of each group of parameters at the end of training over the full arm's, again as a decimal "
        "logarithm."
    )
    return [
        Note(note),
        gradient_maps(result),
        Beside([growth.along_training(result), first.along_training(result, layer=0)]),
        Heading("Parameters", 3),
        Note(of_parameters),
        group_maps(result),
    ]


def information(result: Ablation) -> list[Part]:
    """What states know about the input and the label."""
    note = (
        "What the states T of each layer know about the input X and the label Y, with noise added to T after a "
        "fixed projection: sigma is 1, relative to the spread of T. A line joins the layers of one record. The "
        "table has other estimators, other noise, and what each is off by where the truth is known."
    )
    return [information_planes(result), Note(note), *tables.information_table(result)]


def attention(result: Ablation) -> list[Part]:
    """Where heads attend, against the full arm."""
    note = (
        "How far each head attends elsewhere than the same head of the full arm from the same start: the "
        "Jensen-Shannon divergence in nats, at most 0.693. The first map has two seeds of the full arm."
    )
    maps = head_maps(result, "jensen_shannon")
    return [Note(note), maps, *tables.attention_table(result)]


def entropy(result: Ablation) -> list[Part]:
    """How widely heads attend."""
    return [Figure("entropy", "Entropy of attention", Axis("nats", "{:.2f}")).over_layers(result)]


def representations(result: Ablation) -> list[Part]:
    """How alike the states are to the full arm's."""
    cka = Figure("cka", "CKA with the full arm", SHARE, first=0, baseline="two seeds")
    cosine = Figure("cosine", "Cosine with the full arm, same start", COSINE, first=0, baseline="two starts")
    note = (
        "CKA compares networks of different seeds; the line of the full arm is that of two of its seeds. The cosine "
        "depends on coordinates, so it compares networks from the same start; its line of the full arm is that of two "
        "starts."
    )
    return [
        Note(note),
        Beside([cka.over_layers(result), cosine.over_layers(result)]),
        cka.along_training(result, "The last layer's CKA along training"),
    ]


def sensitivity(result: Ablation) -> list[Part]:
    """How a small perturbation grows."""
    layers = Figure("sensitivity", "Growth in each layer", Axis("natural logarithm of the growth", "{:.3f}"), level=0.0)
    along = Figure("exponent", "The exponent along training", Axis("exponent per unit of time", "{:.3f}"), level=0.0)
    note = (
        "The growth of a small perturbation of the stack's input, as a natural logarithm: in each layer, and per "
        "unit of time over the whole stack, the finite-time Lyapunov exponent. Above 0 it grows."
    )
    return [Note(note), Beside([layers.over_layers(result), along.along_training(result)])]


SECTIONS = {
    "drift": ("Drift", drift),
    "gradients": ("Gradients", gradients),
    "information_x": ("Information", information),
    "jensen_shannon": ("Attention", attention),
    "entropy": ("Entropy of attention", entropy),
    "cka": ("Representations", representations),
    "sensitivity": ("Sensitivity", sensitivity),
}  # by the figure without which there is none
