"""The charts of an inspection: which figures share one, with their equations and how they are read."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from ...report import charts as kinds
from ...report.charts import Axis, ComplexPlane, Explained, HeatMap, Line, LineChart
from ...report.document import Evidence, Part, in_pairs
from ...report.moving import visible
from .free_layers import FREE
from .result import Half, Inspection, Series, Skipped

OTHERS, MOST = "Other probes", 8  # charts of probes that this page does not know
SHOWN = 32  # tokens of a heat map
BAND = "from the lowest to the highest text"
LIMIT = f"It is free if its 95% interval over texts lies below the line at {FREE.level:g}."
AXES = {
    "state": Axis("state, by the layers before it", "{:g}", apart=1.0),
    "layer": Axis("layer", "{:g}", apart=1.0),
    "pair": Axis("layer, with the next one", "{:g}", apart=1.0),
    "number": Axis("number", "{:.0f}", apart=1.0),
}
SHARE = Axis("share of the depth", "{:.2f}")  # where models have different numbers of layers


class Curve(NamedTuple):
    """A chart: series of one probe, an axis, an equation, a reading."""

    section: str
    title: str
    probe: str
    names: tuple[str, ...]
    y: str
    equation: str
    reading: str
    log: bool = False
    level: float | None = None


CURVES = (
    Curve("Trajectories", "Length of the state", "trajectory", ("norm",), "|x_l|", "|x_l|, mean over tokens",
          "How long the stream's vectors are. Growth makes later layers relatively weaker.", True),
    Curve("Trajectories", "Relative step", "sizes", ("relative",), "relative step", "|x_l - x_{l-1}| / |x_{l-1}|",
          "How far a layer moves a token, in units of its length. Small steps are those of a fine integration.", True),
    Curve("Trajectories", "Direction kept by a layer", "drift", ("previous",), "cosine", "cos(x_l, x_{l-1})",
          "Near 1 a layer hardly turns its tokens.", level=1.0),
    Curve("Trajectories", "Direction kept since the input", "drift", ("input",), "cosine", "cos(x_l, x_0)",
          "How much of the embedding's direction is left.", level=0.0),
    Curve("Trajectories", "Turn between layers", "trajectory", ("turn",), "radians",
          "angle between x_l - x_{l-1} and x_{l+1} - x_l",
          "0 is a straight path; 1.57 means that neighbouring layers work at right angles."),
    Curve("Trajectories", "Curvature", "trajectory", ("curvature",), "1 / radius",
          "2 sin(angle) / |x_{l+1} - x_{l-1}|", "1 / radius of the circle through three states in a row.", True),
    Curve("Tokens", "Anisotropy", "clustering", ("cosine",), "cosine", "mean_{i ≠ j} cos(x_i, x_j)",
          "At 1 all tokens of a text point the same way; at 0 they point anywhere.", level=0.0),
    Curve("Tokens", "Clusters", "clustering", ("clusters",), "clusters",
          "components of the graph of pairs with cos(x_i, x_j) > 0.9",
          "How many groups of like tokens a text has. Few groups mean that tokens have gathered."),
    Curve("Tokens", "Effective rank of the tokens", "rank", ("effective centred", "participation centred"), "rank",
          "exp(-Σ p_i log p_i), p = s / Σ s;  (Σ s^2)^2 / Σ s^4",
          "How many directions the tokens of a text use, without their mean. A fall is a collapse of rank."),
    Curve("Outlier coordinates", "Largest share of one coordinate", "sizes", ("outlier",), "share",
          "max_j mean x_j^2 / |x|^2", "Above 0.1 a single coordinate dominates the stream.", True),
    Curve("Attention", "Entropy of attention", "attention", ("A",), "nats", "-Σ_j w_{ij} log w_{ij}",
          "Low entropy: tokens look at few others."),
    Curve("Attention", "Attention on the first token", "attention", ("first token", "uniform"), "share",
          "mean_{i > 1} w_{i1}",
          "A high share is an attention sink: heads that have nothing to do look there."),
    Curve("Attention", "Entropy of the rollout", "rollout", ("entropy",), "nats", "R_l = (W_l + I) / 2 R_{l-1}",
          "How widely what a token knows has been gathered, through all layers so far."),
    Curve("Attention", "Rollout on the first token", "rollout", ("first",), "share", "mean_i R_{i1}",
          "The share of the first token in what all tokens have gathered."),
    Curve("Jacobians", "Share of complex eigenvalues", "jacobian", ("complex",), "share",
          "share of λ(J_l) with |Im λ| > 10^{-9} max |λ|",
          "Complex eigenvalues turn states. A fall with depth is part of the depth gradient."),
    Curve("Jacobians", "Asymmetry", "jacobian", ("J asymmetry", "J - I asymmetry"), "asymmetry", "|J - J^T|_F / |J|_F",
          "0 is symmetric, about 1.41 is random. J has the residual connection, J - I leaves it out."),
    Curve("Jacobians", "Departure from normality", "jacobian", ("J departure", "J - I departure"), "departure",
          "(|J|_F^2 - Σ |λ|^2)^{1/2} / |J|_F",
          "At 0 eigenvalues tell all about growth; above it, states can grow for a while."),
    Curve("Jacobians", "Largest singular value", "leading", ("s 1",), "s_1", "max |J v| / |v| over the whole text",
          "How much a layer can stretch a perturbation of a whole text.", True, 1.0),
    Curve("Jacobians", "Largest singular value at one token", "jacobian", ("J largest", "J radius"), "size",
          "max |J v| / |v|;  max |λ|",
          "How much a layer stretches a perturbation of a token, and its spectral radius.", True, 1.0),
    Curve("Jacobians", "Rank of the product", "products", ("effective rank", "normal effective rank"), "rank",
          "effective rank of J_l .. J_1",
          "How many directions of a perturbation survive to this layer. The second curve has each J replaced "
          "by its normal form, with the same eigenvalues.", True),
    Curve("Jacobians", "Growth of perturbations", "products", ("amplification", "normal amplification"), "nats",
          "log(|J_l .. J_1|_F / √n)", "How much a random perturbation has grown up to this layer.", level=0.0),
    Curve("Jacobians", "Lyapunov exponents", "products", ("exponents",), "exponent", "Σ_l log |R_{ii}| / (L h)",
          "The ten largest rates of growth over the whole depth.", level=0.0),
    Curve("Splitting", "Commutator of attention and feed-forward", "commutator", ("A F",), "relative",
          "|F' A - A' F| / (|F' A| + |A' F|)", "At 0 the order of attention and feed-forward would not matter."),
    Curve("Splitting", "Local splitting error", "commutator", ("lie", "strang"), "relative error",
          "|split - exact| / |exact - x|",
          "What one layer loses by letting its parts act in turn: Lie-Trotter (A F), and Strang (A/2 F A/2).", True),
    Curve("Logit lens", "Agreement with the last layer", "lens", ("agreement",), "share",
          "argmax p_l = argmax p_L, p_l = softmax(head(x_l))",
          "From where on the model has decided on its next token."),
    Curve("Logit lens", "Distance from the final prediction", "lens", ("divergence",), "nats", "KL(p_L | p_l)",
          "How far the prediction at this depth is from the last one.", True),
    Curve("Logit lens", "Loss of the lens", "lens", ("loss",), "nats", "-log p_l(next token)",
          "The loss if the model ended here. The answer forms where it falls below halfway to the model's own."),
    Curve("Logit lens", "Loss of the task", "task lens", ("loss",), "loss", "loss of head(x_l)",
          "The loss if the model ended here. The answer forms where it falls below halfway to the model's own."),
    Curve("Beside it", "Increments: how far directions are apart", "beside", ("cosine distance",), "1 - cos",
          "1 - cos(dx_l, dx'_l)", "What a layer adds in both models, on the same texts. At 0 it points the same way."),
    Curve("Beside it", "Increments: how far they are apart", "beside", ("relative distance",), "relative",
          "|dx'_l - dx_l| / |dx_l|", "At 0 both models add the same."),
    Curve("Beside it", "Likeness of states", "beside", ("cka",), "CKA", "CKA(x_l, x'_l)",
          "Debiased linear CKA over the tokens of a text: 1 if the states are alike but for a rotation.", level=1.0),
    Curve("Communities", "Communities of coordinates", "communities", ("communities",), "communities",
          "Louvain on weights |J_{ij}| + |J_{ji}|", "Groups of coordinates that a layer couples."),
    Curve("Communities", "Modularity and stability", "communities", ("modularity", "stability"), "index",
          "modularity; mean adjusted Rand index of 10 seeds", "Communities mean something if both are high."),
    Curve("Communities", "Position and amplification", "communities", ("correlation",), "Spearman's r",
          "centrality against |J 1_c| / |1_c|", "Whether central communities grow more than others.", level=0.0),
)  # fmt: skip


APART = ("Outlier coordinates", "Beside it")  # sections with tables of their own


def sections(result: Inspection) -> Iterator[Part]:
    """The curves of each section, as far as they were measured, after what is drawn in other ways."""
    before = {"Trajectories": cka_maps, "Attention": rollout_map, "Jacobians": spectra}
    names = [name for name in dict.fromkeys(one.section for one in CURVES) if name not in APART]
    for name in (*names, OTHERS):
        if charts := [*(before[name](result) if name in before else ()), *curves(result, name)]:
            yield Evidence(name, arranged(charts))


def curves(result: Inspection, section: str) -> Iterator[Explained]:
    """The charts of a section whose figures were measured; those of probes that this page does not know are others."""
    known = {"cka_layers", *(one.probe for one in CURVES)}
    rest = [one for one in result.model.series if one.probe not in known][:MOST]
    own = [Curve(OTHERS, f"{p}: {name}", p, (name,), name, "", "As the probe defines it.") for p, name, *_ in rest]
    yield from filter(None, (chart_of(result, one) for one in (*CURVES, *own) if one.section == section))


def arranged(charts: Sequence[Explained]) -> list[Part]:
    """Spectra take the whole width, other charts stand in pairs."""
    wide = [one for one in charts if isinstance(one.chart, kinds.SliderChart)]
    return [*wide, *in_pairs([one for one in charts if one not in wide])]


def chart_of(result: Inspection, curve: Curve) -> Explained | None:
    """A line for each model and series, of the null model for the first series only; None if nothing was measured."""
    found = [
        (one, name, series)
        for one in result.models
        for name in (curve.names[:1] if one.random else curve.names)
        if (series := one.find(curve.probe, name)) is not None
    ]
    if not found:
        return None
    along = found[0][2].along
    whole = along == "number" or len({one.layers for one in result.models}) == 1  # else depths are compared by shares
    titles = [f"{one.label}, {name}" if len(curve.names) > 1 else one.label for one, name, _ in found]
    lines = [line(title, series, whole) for title, (_, _, series) in zip(titles, found, strict=True)]
    log = curve.log and all(y > 0 for line in lines for y in line.y if y == y)
    reads = "mean over texts, band: standard deviation" if any(line.low for line in lines) else "mean over texts"
    name = "-".join((curve.probe, *curve.names[:1])).replace(" ", "-")
    chart = LineChart(
        curve.title, AXES[along] if whole else SHARE, Axis(curve.y, log=log), lines, reads,
        curve.level if not log else None, name=f"chart-{name}",
        muted=[title for title, (one, _, _) in zip(titles, found, strict=True) if one.random],
    )  # fmt: skip
    return Explained(chart, curve.equation, curve.reading, f"{name}.csv")


def line(name: str, series: Series, whole: bool) -> Line:
    """The means of a series with their standard deviations, along numbers of layers or the share of the depth."""
    mean, spread = series.mean, series.spread
    x = [n + (series.along == "number") for n in series.numbers] if whole else series.t
    if series.texts < 2:
        return Line(name, x, mean)
    low, high = ([m + sign * s for m, s in zip(mean, spread, strict=True)] for sign in (-1, 1))
    return Line(name, x, mean, low, high)


def particle_charts(result: Inspection) -> Iterator[Explained]:
    """Tokens as particles, of each model that is not the null model."""
    axes = Axis("first direction", "{:.2f}"), Axis("second direction", "{:.2f}")
    for i, one in enumerate(result.models):
        if one.paths and not one.random:
            number, last = f"-{i + 1}" if i else "", len(one.paths[0].x) - 1
            states = [(f"layer {k - 1}" if k else "embedding", k / last) for k in range(last + 1)]
            texts = [kinds.Particles(*path) for path in one.paths]
            yield Explained(
                kinds.ParticleChart(f"Tokens through depth: {one.label}", *axes, states, texts, f"particles{number}"),
                "y_l = V^T (x_l / |x_l| - mean), V the two leading principal directions over all depths and texts",
                "Each particle is a token; the plane is the same at every depth. Tokens that gather have become alike. "
                "Play, or move the slider; hover over a particle or a word.",
                f"tokens{number}.csv",
            )


def cut_charts(result: Inspection) -> Iterator[Explained]:
    """What each layer costs when it is left out, and what each of its fields costs."""
    model, halves = result.model, dict[str, list[Cut]]()
    for one in model.evidence.halves:
        halves.setdefault(one.letter, []).append(one)
    if model.skipped:
        alone = {model.label: model.skipped}
        yield cut_chart(result, "A layer left out", alone, f"Each layer is left out alone. {LIMIT}", "skipped")
    if halves:
        yield cut_chart(result, "A field left out", halves, f"One field of a layer does nothing. {LIMIT}", "halves")


def swap_chart(result: Inspection) -> Iterator[Explained]:
    """What each layer of the other model changes inside this one."""
    if swapped := result.model.evidence.swapped:
        lines = {result.model.label: swapped}
        yield cut_chart(
            result, "A layer of the other model", lines, "Each layer is replaced, one at a time.", "swapped"
        )


Cut = Skipped | Half


def cut_chart(result: Inspection, title: str, cuts: Mapping[str, Sequence[Cut]], reading: str, name: str) -> Explained:
    """Lines of layers with the mean, the least and the greatest of what cuts cost; on an axis that shows the dear ones
    and those near the limit, at which it has a line."""
    nats, lines = bool(result.model.losses), list[Line]()
    for label, rows in cuts.items():
        ways = (fmean, min, max)
        lines.append(Line(label, [float(x.layer) for x in rows], *([way(x.changes) for x in rows] for way in ways)))
    unit = "loss, nats" if nats else "output, relative"
    chart = LineChart(
        f"{title}: change of the {unit}", Axis("layer", "{:g}", apart=1.0), Axis("change", "{:.3g}", linear=FREE.level),
        lines, f"mean over texts, band: {BAND}", FREE.level if LIMIT in reading else 0.0, name=f"chart-{name}",
    )  # fmt: skip
    equation = "loss(without l) - loss" if nats else "|y(without l) - y| / |y|"
    return Explained(chart, equation, f"{reading} The band is {BAND}.", f"{name}.csv")


def spectra(result: Inspection) -> Iterator[Explained]:
    """The spectra of all layers with a slider; the null model's if it has as many layers."""
    if not result.model.spectra:
        return
    models = [one for one in result.models if one.layers == result.model.layers]
    planes = list[ComplexPlane]()
    for layer in (one.layer for one in result.model.spectra):
        found = ((one.label, each) for one in models for each in one.spectra if each.layer == layer)
        groups = [(label, list(map(complex, each.real, each.imaginary))) for label, each in found]
        planes.append(ComplexPlane(f"layer {layer}", groups, muted=["random weights"]))
    yield Explained(
        kinds.SliderChart("Eigenvalues of each layer's Jacobian", "layer", planes, name="spectra"),
        "J_l = ∂x_{l+1} / ∂x_l",
        "J is that of a single token, the last one of the first text, with the residual connection. Numbers inside the "
        "circle shrink, those outside grow; those off the real line turn. A layer that did nothing has all at 1. Of a "
        "wide layer, 256 eigenvalues are shown, chosen evenly in the order of their size.",
        "spectra.json",
    )


def cka_maps(result: Inspection) -> Iterator[Explained]:
    for one in result.models:
        found = one.matrix("cka_layers")
        if found is not None:
            name = "random" if one.random else "model" if one is result.model else "other"
            chart = HeatMap(
                f"Likeness of layers: {one.label}", "state", "state", found.labels, found.labels, found.values,
                "{:.2f}", f"chart-cka-{name}", 1.0,
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
