"""What an inspection says: a document that people would rather look at than read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ...experiments.sections import reproduced
from ...report.charts import (
    Axis,
    ComplexPlane,
    Explained,
    HeatMap,
    Line,
    LineChart,
    ParticleChart,
    Particles,
    SliderChart,
)
from ...report.document import Document, Heading, Note, Part, in_pairs
from ...report.particles import visible
from ...support.words import counted
from .curves import curves, other_curves
from .depth_gradient import depth_gradient
from .result import Inspection, Looked, label_of
from .tables import conclusions_table, gradient_table, layers_table, missing_table, models_table, short_table

SECTIONS = ("Trajectories", "Tokens", "Attention", "Jacobians", "Splitting", "Logit lens", "Communities")
SHOWN = 32  # tokens of a heat map


def document(result: Inspection) -> Document:
    """Particles first, then what to do, then the charts, then the tables."""
    short = [conclusions_table(result), short_table(result)]
    long = [models_table(result), layers_table(result), gradient_table(result), missing_table(result)]
    conclusions, layers = [[one] if one.rows else [] for one in short]
    parts = [
        Note(about(result)),
        *particle_charts(result),
        *conclusions,
        *layers,
        *skip_chart(result),
        *sections(result),
        *(one for one in long if one.rows),
        *reproduced(
            result.made,
            "splitstep.studies.inspect.inspection(...)",
            result.made.entries("commit", "date", "versions"),
        ),
    ]
    return Document(f"Inside {label_of(result.model)}", parts, depth_gradient(result))


def about(result: Inspection) -> str:
    """The model, the texts and what stands beside it, in a sentence or two."""
    one = result.model
    texts = f"{counted(result.texts, 'text')} of at most {counted(result.tokens, 'token')} from {result.source}"
    beside = "" if result.other is None else f" Beside it: {against(result)}."
    with_derivatives = min(result.differentiated, result.texts)
    few = f" Jacobians are those of {counted(with_derivatives, 'text')}." if with_derivatives < result.texts else ""
    return f"{one.model}: scheme {one.scheme}, {counted(one.layers, 'layer')}, width {one.width}; {texts}.{beside}{few}"


def against(result: Inspection) -> str:
    assert result.other is not None
    if result.other.random:
        return f"the same architecture with random weights (its own initialisation, seed {result.seed}), in grey"
    return f"{result.other.model}, scheme {result.other.scheme}, {counted(result.other.layers, 'layer')}"


def particle_charts(result: Inspection) -> Iterator[Explained]:
    """Tokens as particles, of each model that is not the null model."""
    for i, one in enumerate(result.looked):
        if one.paths and not one.random:
            yield Explained(
                particles(one, f"particles-{i + 1}" if i else "particles"),
                "y_l = V^T (x_l / |x_l| - mean), V the two leading principal directions over all depths and texts",
                "Each particle is a token; the plane is the same at every depth. Tokens that gather have become alike. "
                "Play, or move the slider; hover over a particle or a word.",
                f"tokens{f'-{i + 1}' if i else ''}.csv",
            )


def particles(looked: Looked, name: str) -> ParticleChart:
    count = len(looked.paths[0].x)
    states = [("embedding" if i == 0 else f"layer {i - 1}", i / (count - 1)) for i in range(count)]
    texts = [Particles(*one) for one in looked.paths]
    axes = Axis("first direction", "{:.2f}"), Axis("second direction", "{:.2f}")
    return ParticleChart(f"Tokens through depth: {label_of(looked)}", *axes, states, texts, name=name)


def skip_chart(result: Inspection) -> Iterator[Explained]:
    """What each layer costs when it is left out."""
    looked = result.model
    if not looked.skipped:
        return
    every = [one.changes for one in looked.skipped]
    layers, means = [one.layer for one in looked.skipped], [sum(one) / len(one) for one in every]
    line = Line(label_of(looked), layers, means, list(map(min, every)), list(map(max, every)))
    unit = "loss, nats" if looked.losses else "output, relative"
    chart = LineChart(
        f"A layer left out: change of the {unit}", Axis("layer", "{:g}", apart=1.0), Axis("change", "{:.3g}"), [line],
        "mean over texts, band: from the least to the greatest", 0.0, name="chart-skipped",
    )  # fmt: skip
    equation = "loss(without l) - loss" if looked.losses else "|y(without l) - y| / |y|"
    reading = f"Each layer is really left out, one at a time, on {counted(len(every[0]), 'text')}."
    yield Explained(chart, equation, reading, "skipped.csv")


def sections(result: Inspection) -> Iterator[Part]:
    for name in SECTIONS:
        charts = [*extra(result, name), *curves(result, name)]
        if charts:
            yield Heading(name)
            yield from arranged(charts)
    if rest := list(other_curves(result)):
        yield Heading("Other probes")
        yield from arranged(rest)


def arranged(charts: Sequence[Explained]) -> list[Part]:
    """Spectra take the whole width, other charts stand in pairs."""
    wide = [one for one in charts if isinstance(one.chart, SliderChart)]
    return [*wide, *in_pairs([one for one in charts if not isinstance(one.chart, SliderChart)])]


def extra(result: Inspection, section: str) -> Iterable[Explained]:
    if section == "Trajectories":
        return cka_maps(result)
    if section == "Attention":
        return rollout_map(result)
    return spectra(result) if section == "Jacobians" else ()


def spectra(result: Inspection) -> Iterator[Explained]:
    """The spectra of all layers with a slider; the null model's if it has as many layers."""
    if not result.model.spectra:
        return
    null = result.other if result.other is not None and result.other.layers == result.model.layers else None
    beside = {} if null is None else {one.layer: one for one in null.spectra}
    planes = list[ComplexPlane]()
    for one in result.model.spectra:
        found = [(result.model, one)] + ([(null, beside[one.layer])] if null and one.layer in beside else [])
        groups = [(label_of(who), list(map(complex, each.real, each.imaginary))) for who, each in found]
        planes.append(ComplexPlane(f"layer {one.layer}", groups, muted=["random weights"]))
    yield Explained(
        SliderChart("Eigenvalues of each layer's Jacobian", "layer", planes, name="spectra"),
        "J_l = ∂x_{l+1} / ∂x_l",
        "J is that of a single token, the last one of the first text, with the residual connection. Numbers inside the "
        "circle shrink, those outside grow; those off the real line turn. A layer that did nothing has all at 1. Of a "
        "wide layer, 256 eigenvalues are shown, chosen evenly in the order of their size.",
        "spectra.json",
    )  # fmt: skip


def cka_maps(result: Inspection) -> Iterator[Explained]:
    for one in result.looked:
        found = one.matrix("cka_layers")
        if found is not None:
            title = f"Likeness of layers: {label_of(one)}"
            name = "random" if one.random else "model" if one is result.model else "other"
            chart = HeatMap(
                title, "state", "state", found.labels, found.labels, found.values, "{:.2f}", f"chart-cka-{name}", 1.0
            )  # fmt: skip
            reading = "Debiased linear CKA over tokens, mean over texts: blocks of strong colour do alike things."
            yield Explained(chart, "CKA(x_l, x_m)", reading, f"cka-{name}.csv")


def rollout_map(result: Inspection) -> Iterator[Explained]:
    found = result.model.matrix("rollout")
    if found is None:
        return
    tokens = [f"{i + 1} {visible(one)}" for i, one in enumerate(found.labels[:SHOWN])]
    values = [row[:SHOWN] for row in found.values[:SHOWN]]
    title, numbers = "Attention rollout of the first text", [str(i + 1) for i in range(len(tokens))]
    chart = HeatMap(title, "from token", "token", numbers, tokens, values, "{:.3f}", "chart-rollout")
    reading = f"Where what a token knows at the end comes from, through all layers; the first {len(tokens)} tokens."
    yield Explained(chart, "R_L = Π_l (W_l + I) / 2", reading, "rollout.csv")
