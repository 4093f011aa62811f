"""What an inspection says first: up to six sentences, and of those that are not there, why.

A sentence has a figure, its 95% interval over texts (Student's) and how many texts these are. It is there if its rule
holds, which a whole interval decides. The rules are in docs/theory/inspection.md.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ...experiments.experiment import Rule
from ...experiments.statistics import FEWEST, Estimate, jointly
from ...support.words import counted, listed
from .free_layers import Lacks, few, layers_that_matter_least
from .result import Coordinate, Figures, Inspection, ModelFindings, Series
from .spelling import (
    NATS,
    PLAIN,
    POSITIVE,
    SHARE,
    SHARES,
    Unit,
    above,
    below,
    columns,
    costs,
    first_few,
    layers,
    minus,
    over_texts,
    sentence,
    unit_of,
)

LEARNT = 0.5  # nats below a uniform guess: a model that is no better has little to lose
SINK = Rule(0.3)  # mean attention on the first token: Gu et al. (2025), "When attention sink emerges"
OUTLIER = Rule(0.1)  # share of the squared norm in one coordinate: in a width of 100 or more, ten times an equal share
END = 1e-2  # of the guess: by how much the lens's loss may differ from the model's own at the last state
SECTIONS = {
    "health": "Health",
    "layers": "Layers left out",
    "first token": "Attention",
    "outliers": "Outlier coordinates",
    "answer": "Logit lens",
    "against": "Beside it",
}  # of sentences: the part of the page with their evidence
LENSES = ("lens", "task lens")  # of the next token, and of a task with labels


class Sentence(NamedTuple):
    """A sentence, and the title of the page's part with its evidence."""

    name: str
    text: str
    section: str


class Absent(NamedTuple):
    """A sentence that is not there, and why."""

    name: str
    why: str


class Said(NamedTuple):
    """All that is said first."""

    sentences: tuple[Sentence, ...]
    absent: tuple[Absent, ...]


def sentences(result: Inspection) -> Said:
    """The sentences about a model, and why others are absent."""
    stops = stopped(result.model)
    found = {name: stops if stops and name != "health" else speak(result) for name, speak in SPEAKERS.items()}
    return Said(
        tuple(Sentence(name, one, SECTIONS[name]) for name, one in found.items() if isinstance(one, str)),
        tuple(Absent(name, why_not(result, one)) for name, one in found.items() if isinstance(one, Lacks)),
    )


def why_not(result: Inspection, lacks: Lacks) -> str:
    return "not measured yet" if lacks.unmeasured and result.unfinished else lacks.why


def stopped(model: ModelFindings) -> Lacks | None:
    """Why nothing but its health is said about a model."""
    health, gap = model.evidence.health, below_guess(model)
    if health is not None and health.not_finite:
        return Lacks("not all of the model's numbers are finite")
    return Lacks("the model has learned nothing") if gap is not None and gap.mean < LEARNT else None


def below_guess(model: ModelFindings) -> Estimate | None:
    """By how much the loss is below that of a uniform guess; None if there is no such guess."""
    health = model.evidence.health
    if health is None or health.guess is None:
        return None
    return over_texts(health.guess - one for one in model.losses)


def health(result: Inspection) -> str | Lacks:
    """Whether numbers are finite, whether layers work, and what the loss is."""
    model, one = result.model, result.model.evidence.health
    if one is None:
        return Lacks("the result has no record of it", True)
    wrong = f"not finite: {first_few(one.not_finite)}"
    finite = wrong if one.not_finite else "all weights and states are finite"
    does = f"{layers(one.idle)} {'do' if len(one.idle) > 1 else 'does'} nothing to the state"
    return f"{sentence(finite)}; {does if one.idle else 'every layer changes the state'}. {loss_of(model)}"


def loss_of(model: ModelFindings) -> str:
    """The loss in words, beside that of a uniform guess."""
    found, gap, unit = over_texts(model.losses, POSITIVE), below_guess(model), unit_of(model)
    if found is None:
        return "It has no loss here, so costs are shares of its output."
    if gap is None:
        return f"Its loss is {unit.spelt(found)}."
    guess = unit.written(found.mean + gap.mean)[0]
    if gap.mean < LEARNT:
        return f"It has learned nothing: its loss is {unit.spelt(found)}, and that of a uniform guess is {guess}."
    bits = over_texts(model.evidence.health.bits if model.evidence.health else (), POSITIVE)
    more = f", or {PLAIN.interval(bits)} bits per byte" if bits else ""
    return f"Its loss is {unit.spelt(found)}{more}; that of a uniform guess is {guess}."


def sinks(model: ModelFindings) -> list[int]:
    """The layers that are sure to give the first token a lot of attention, and more than uniform attention does."""
    found, uniform = (columns(model.find("attention", name)) for name in ("first token", "uniform"))
    return [k for k, row in found.items() if above(row, SINK) and above(minus(row, uniform.get(k, [0.0] * len(row))))]


def attention_on_the_first_token(result: Inspection) -> str | Lacks:
    """The layers that look at the first token a lot, and more than uniform attention does."""
    found, uniform = (columns(result.model.find("attention", name)) for name in ("first token", "uniform"))
    means = {layer: one for layer, row in found.items() if (one := over_texts(row, SHARES))}
    if not means:
        return Lacks("attention weights were not measured", True)
    looks = sinks(result.model)
    top = max(looks or means, key=lambda layer: means[layer].mean)
    alike = over_texts(uniform.get(top, ()))
    beside = f", where uniform attention gives {PLAIN.written(alike.mean)[0]}" if alike else ""
    most = f"{PLAIN.spelt(means[top])} in layer {top}{beside}"
    if not looks:
        return Lacks(
            f"no layer gives it significantly more than both {SINK.level:g} and uniform attention; the most is {most}"
        )
    more = f"significantly more than {SINK.level:g} of the attention"
    many = f"{len(looks)} of {counted(len(found), 'layer')}, the first of them layer {looks[0]}, give"
    which = many if len(looks) > 1 else f"layer {top} gives"
    return f"{sentence(which)} the first token {more}; the most is {most}."


def outliers(result: Inspection) -> str | Lacks:
    """How many coordinates hold much of the squared norm, the largest share, and what holding one still costs."""
    model = result.model
    high = [one for one in model.evidence.coordinates if above(one.shares, OUTLIER)]
    if not high:
        return no_outlier(model)
    many, most = len(high), max(high, key=lambda one: math.fsum(one.shares) / len(one.shares))
    share, without = over_texts(most.shares, SHARES), over_texts(most.without_first)
    rest = f" ({SHARE.written(without.mean)[0]} without the first token)" if without else ""
    dominate = f"{'dominate' if many > 1 else 'dominates'} the state, {'each ' if many > 1 else ''}with more than"
    return (
        f"{many} of {model.width} coordinates {dominate} {OUTLIER.level:.0%} of its squared norm. Coordinate "
        f"{most.coordinate} holds {SHARE.spelt(share)} at state {most.state}{rest}.{held_still(model, high)}"
    )


def no_outlier(model: ModelFindings) -> Lacks:
    means = {state: one for state, row in columns(model.find("sizes", "outlier")).items() if (one := over_texts(row))}
    if not means:
        return Lacks("coordinates were not measured", True)
    state = max(means, key=lambda one: means[one].mean)
    if means[state].mean > OUTLIER.level and not model.evidence.coordinates:
        return Lacks("single coordinates were not measured", True)
    most = f"{PLAIN.spelt(means[state])} at state {state}"
    much = f"significantly more than {OUTLIER.level:g} of the squared norm"
    return Lacks(f"no coordinate holds {much}; the most is {most}")


def held_still(model: ModelFindings, named: Sequence[Coordinate]) -> str:
    """Which of these coordinates costs most to hold still at its mean over other texts, and how much."""
    numbers = [one.coordinate for one in named]
    held = [one for one in model.evidence.held if one.at == "mean" and one.coordinates[0] in numbers]
    found = {one.coordinates[0]: cost for one in held if (cost := over_texts(one.changes))}
    if not found:
        return ""
    most = max(found, key=lambda one: found[one].mean)
    held_at = "at its mean over other texts"
    if len(named) == 1:
        return f" With it held {held_at} {costs(model, found[most])}."
    return f" Of these, coordinate {most} costs most to hold {held_at}: {costs(model, found[most])}."


def where_the_answer_forms(result: Inspection) -> str | Lacks:
    """The first state from which the lens's loss stays below halfway between a uniform guess and the model's own."""
    model, health = result.model, result.model.evidence.health
    if not model.losses or health is None or health.guess is None:
        return Lacks("there is no loss beside which a uniform guess stands", health is None)
    lens = columns(lens_of(model, health.guess))
    if not lens:
        return Lacks("the lens was not measured, or does not end at the model's own loss")
    half = [(health.guess + own) / 2 for own in model.losses[: len(lens[0])]]
    if len(half) < FEWEST:
        return few(len(half))
    start = max((state for state, row in lens.items() if not below(minus(row, half))), default=-1) + 1
    if start not in lens:
        return Lacks("the lens's loss is not sure to be below halfway at the end")
    where = f"layer {start - 1}" if start else "the embedding"
    limit, there = NATS.written(math.fsum(half) / len(half))[0], over_texts(lens[start], POSITIVE)
    return (
        f"From {where} on, the loss of the logit lens (the head applied to each state) stays below {limit} nats, "
        f"halfway between a uniform guess and the model's own; after {where} (state {start} of {model.layers}) it is "
        f"{NATS.spelt(there)}."
    )


def lens_of(model: ModelFindings, guess: float) -> Series | None:
    """The loss of the lens, if at the last state it is the model's own."""
    for one in model.series:
        if one.name == "loss" and one.probe in LENSES and one.texts <= len(model.losses):
            ends = zip(one.figures, model.losses, strict=False)
            if all(abs(row[-1] - own) <= END * guess for row, own in ends):
                return one
    return None


def against(result: Inspection) -> str | Lacks:
    """Which of these figures differ from the other model's, text by text."""
    if result.other is None:
        return Lacks("there is no other model beside it", result.seed is not None or "beside" in result.unfinished)
    found = differences(result.model, result.other)
    said = [f"{name} by {unit.signed.spelt(one)}" for name, unit, one in found if one.sign]
    said += of_both(result.model)
    if not said:
        names = listed([name for name, *_ in found])
        return Lacks(f"no figure differs of those that both have: {names}" if found else "nothing was measured of both")
    which = "the same network with random weights" if result.other.random else result.other.label
    return f"Beside {which} it differs in {'; '.join(said)}."


def differences(model: ModelFindings, other: ModelFindings) -> list[tuple[str, Unit, Estimate]]:
    """The figures that both models have, with intervals that hold at once in 95% of the cases."""
    ours, theirs = summaries(model), summaries(other)
    rows = {name: (unit, minus(row, theirs[name][1])) for name, (unit, row) in ours.items() if name in theirs}
    found = ((name, unit, over_texts(row)) for name, (unit, row) in rows.items())
    return [(name, unit, jointly(one, len(rows))) for name, unit, one in found if one is not None]


def summaries(model: ModelFindings) -> dict[str, tuple[Unit, Figures]]:
    """One figure a text for each thing that sentences are about."""
    first, largest = model.find("attention", "first token"), model.find("sizes", "outlier")
    found: dict[str, tuple[Unit, Figures]] = {
        "the loss": (unit_of(model), model.losses),
        "attention on the first token, over all layers,": (PLAIN, means_of(first.figures if first else ())),
        "the largest share of a coordinate": (PLAIN, tuple(map(max, largest.figures)) if largest else ()),
        "the cost of a layer": (unit_of(model), means_of(zip(*(one.changes for one in model.skipped), strict=True))),
        "the share of the depth at which the answer forms": (PLAIN, depths_of_answers(model)),
    }
    return {name: one for name, one in found.items() if one[1]}


def depths_of_answers(model: ModelFindings) -> Figures:
    """Of each text the share of the depth from which the lens's loss stays below halfway between a uniform guess and
    the model's own; not a number if it never does."""
    health = model.evidence.health
    guess = None if health is None else health.guess
    if guess is None or (lens := lens_of(model, guess)) is None:
        return ()
    halves = [(guess + own) / 2 for own in model.losses]
    pairs = zip(lens.figures, halves, strict=False)
    first = [max((k for k, loss in enumerate(row) if loss >= half), default=-1) + 1 for row, half in pairs]
    return tuple(k / model.layers if k <= model.layers else math.nan for k in first)


def means_of(rows: Iterable[Sequence[float]]) -> Figures:
    return tuple(math.fsum(row) / len(row) for row in rows)


def of_both(model: ModelFindings) -> list[str]:
    """What was measured of two models together: how far predictions are apart, and layers of one inside the other."""
    said, apart = list[str](), over_texts(model.evidence.divergence, POSITIVE)
    if apart is not None and apart.sign:
        said.append(f"its predictions, by {NATS.spelt(apart)} for each token (KL)")
    swapped = {one.layer: found for one in model.evidence.swapped if (found := over_texts(one.changes))}
    if moved := {layer: found for layer, found in swapped.items() if found.sign}:
        most = max(moved, key=lambda layer: abs(moved[layer].mean))
        which = f"{layers([*moved])} of {len(swapped)}"
        said.append(f"{which}: with the other's layer {most} {costs(model, moved[most])}")
    return said


SPEAKERS: dict[str, Callable[[Inspection], str | Lacks]] = {
    "health": health,
    "layers": layers_that_matter_least,
    "first token": attention_on_the_first_token,
    "outliers": outliers,
    "answer": where_the_answer_forms,
    "against": against,
}
