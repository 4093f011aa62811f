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
from .result import Coordinate, CutList, Figures, Inspection, ModelFindings, Series
from .spelling import (
    NATS,
    PLAIN,
    POSITIVE,
    SHARES,
    Unit,
    above,
    below,
    columns,
    costs,
    first_few,
    layers,
    minus,
    on,
    over_texts,
    sentence,
    unit_of,
)

LEARNT = 0.5  # nats below a uniform guess: a model that is no better has little to lose
FREE = Rule(0.1)  # nats for each prediction, or the same share of the output: the rule of the discretised flow
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
OUTLIERS = 3  # coordinates that a sentence names


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


class Lacks(NamedTuple):
    """Why a rule fails."""

    why: str


def sentences(result: Inspection) -> Said:
    """The sentences about a model, and why others are absent."""
    stops = stopped(result.model)
    found = {name: stops if stops and name != "health" else speak(result) for name, speak in SPEAKERS.items()}
    return Said(
        tuple(Sentence(name, one, SECTIONS[name]) for name, one in found.items() if isinstance(one, str)),
        tuple(Absent(name, one.why) for name, one in found.items() if isinstance(one, Lacks)),
    )


def stopped(model: ModelFindings) -> Lacks | None:
    """Why nothing but its health is said about a model."""
    health, gap = model.evidence.health, below_guess(model)
    if health is not None and health.not_finite:
        return Lacks("not all of the model's numbers are finite")
    return Lacks("the model has learned nothing") if gap is not None and gap.mean < LEARNT else None


def few(texts: int) -> Lacks:
    return Lacks(f"an interval needs {FEWEST} texts, and there are {texts}")


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
        return Lacks("it was not measured")
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


def layers_that_matter_least(result: Inspection) -> str | Lacks:
    """Which layers can go together, if that was tried; else what each costs alone."""
    if lists := [one for one in result.model.evidence.cuts if one.changes]:
        return together(result.model, min(lists, key=lambda one: one.how != "greedy"))
    return alone(result.model) if result.model.skipped else Lacks("no layer was left out")


def together(model: ModelFindings, cut: CutList) -> str | Lacks:
    """The list, its joint cost on texts that did not choose it, how much of it is free, and where it is a tie."""
    many, last = len(cut.changes), over_texts(cut.changes[-1])
    if last is None or last.low is None:
        return few(0 if last is None else last.n)
    names = listed([*map(str, cut.layers[:many])])
    which = f"The {many} layers that matter least together are {names}" if many > 1 else f"Layer {names} matters least"
    them = "them" if many > 1 else "it"
    ties = [str(k) for k in cut.ties if k <= many]
    tied = (
        f" Place{'s' * (len(ties) > 1)} {listed(ties)} of the list could go to another layer as well." if ties else ""
    )
    return f"{which}: without {them} {costs(model, last)} that did not choose {them}. {free_part(model, cut)}{tied}"


def free_part(model: ModelFindings, cut: CutList) -> str:
    """The longest beginning of a list that costs so little that it counts as free."""
    unit, many = unit_of(model), len(cut.changes)
    free = max((k for k, one in enumerate(cut.changes, 1) if below(one, FREE)), default=0)
    found = over_texts(cut.changes[free - 1])
    if free == 0 or found is None:
        return f"Nothing of that is free: no interval lies {limit(model)}."
    if free == many:
        return f"That is free: the interval lies {limit(model)}."
    which = f"first {free} are" if free > 1 else "first one is"
    return f"The {which} free, {limit(model)}: {unit.signed.interval(found)}."


def limit(model: ModelFindings) -> str:
    """Below what a cost counts as free."""
    word = unit_of(model).word
    return f"below {FREE.level:g}{word}" if model.losses else f"below {FREE.level:.0%}{word}"


def alone(model: ModelFindings) -> str | Lacks:
    """The layers that are free when each is left out alone, the cheapest one, and its ties."""
    ordered = sorted(model.skipped, key=lambda one: (one.mean, one.layer))
    least, cost = ordered[0], over_texts(ordered[0].changes)
    if cost is None or cost.low is None:
        return few(len(least.changes))
    free = [one.layer for one in ordered if below(one.changes, FREE)]
    named = f"{len(free)} of {counted(len(ordered), 'layer')} ({first_few([*map(str, free)])})"
    which = f"{named} {'are' if len(free) > 1 else 'is'} free" if free else "no layer is free"
    apart = {one.layer: over_texts(minus(one.changes, least.changes)) for one in ordered[1:]}
    ties = [layer for layer, found in apart.items() if found is None or not found.sign]
    tied = f" {sentence(layers(ties))} tie{'s' * (len(ties) == 1)} with it." if ties else ""
    return (
        f"Left out alone, {which}: {'the' if free else 'no'} interval lies {limit(model)}. "
        f"The cheapest is layer {least.layer}: {costs(model, cost)}.{tied}"
    )


def sinks(model: ModelFindings) -> list[int]:
    """The layers that are sure to give the first token a lot of attention, and more than uniform attention does."""
    found, uniform = (columns(model.find("attention", name)) for name in ("first token", "uniform"))
    return [k for k, row in found.items() if above(row, SINK) and above(minus(row, uniform.get(k, [0.0] * len(row))))]


def attention_on_the_first_token(result: Inspection) -> str | Lacks:
    """The layers that look at the first token a lot, and more than uniform attention does."""
    found, uniform = (columns(result.model.find("attention", name)) for name in ("first token", "uniform"))
    means = {layer: one for layer, row in found.items() if (one := over_texts(row, SHARES))}
    if not means:
        return Lacks("attention weights were not measured")
    looks = sinks(result.model)
    top = max(looks or means, key=lambda layer: means[layer].mean)
    alike = over_texts(uniform.get(top, ()))
    beside = f", where uniform attention gives {PLAIN.written(alike.mean)[0]}" if alike else ""
    most = f"{PLAIN.spelt(means[top])} in layer {top}{beside}"
    if not looks:
        return Lacks(
            f"no layer is sure to give it more than {SINK.level:g} and than uniform attention; the most is {most}"
        )
    many = f"{len(looks)} of {counted(len(found), 'layer')}, the first of them layer {looks[0]}, give"
    which = many if len(looks) > 1 else f"layer {top} gives"
    return f"{sentence(which)} the first token more than {SINK.level:g} of the attention; the most is {most}."


def outliers(result: Inspection) -> str | Lacks:
    """The coordinates that hold much of the squared norm, and what holding each of them still costs."""
    model = result.model
    high = [one for one in model.evidence.coordinates if above(one.shares, OUTLIER)]
    if not high:
        return no_outlier(model)
    named, many = high[:OUTLIERS], len(high)
    which = f"{counted(many, 'coordinate')} {'hold' if many > 1 else 'holds'} more than {OUTLIER.level:g}"
    equal = f"of the squared norm, where an equal share is {PLAIN.written(1 / model.width)[0]}"
    first = f" The first {OUTLIERS} are" if many > OUTLIERS else ""
    said = listed([*map(outlier, named)])
    return f"{which} {equal}{'.' if first else ':'}{first} {said}, {on(len(high[0].shares))}.{held_still(model, named)}"


def no_outlier(model: ModelFindings) -> Lacks:
    means = {state: one for state, row in columns(model.find("sizes", "outlier")).items() if (one := over_texts(row))}
    if not means:
        return Lacks("coordinates were not measured")
    state = max(means, key=lambda one: means[one].mean)
    if means[state].mean > OUTLIER.level and not model.evidence.coordinates:
        return Lacks("single coordinates were not measured")
    most = f"{PLAIN.spelt(means[state])} at state {state}"
    return Lacks(f"no coordinate is sure to hold more than {OUTLIER.level:g} of the squared norm; the most is {most}")


def outlier(one: Coordinate) -> str:
    """A coordinate and its share with and without the first token: 17 (0.62 [0.59, 0.64] at state 29, 0.61 without)."""
    share, without = over_texts(one.shares, SHARES), over_texts(one.without_first)
    rest = f", {PLAIN.written(without.mean)[0]} without the first token" if without else ""
    return f"{one.coordinate} ({PLAIN.interval(share) if share else ''} at state {one.state}{rest})"


def held_still(model: ModelFindings, named: Sequence[Coordinate]) -> str:
    """What holding each of these coordinates still costs, at its mean over other texts and at zero."""
    one, said = len(named) == 1, list[str]()
    change = f"{'it changes' if one else 'they change'} the {'loss' if model.losses else 'output'} "
    for at in ("mean", "zero"):
        found = {
            held.coordinates[0]: x for held in model.evidence.held if held.at == at and (x := over_texts(held.changes))
        }
        if all(coordinate.coordinate in found for coordinate in named):
            where = f"at {'its mean' if one else 'their means'} over other texts" if at == "mean" else "at zero"
            costs = listed([unit_of(model).change.interval(found[coordinate.coordinate]) for coordinate in named])
            said.append(f"{where} {'' if said else change}by {costs}, {on(found[named[0].coordinate].n)}")
    return f" Held still{'' if one else ' one at a time'} {'; '.join(said)}." if said else ""


def where_the_answer_forms(result: Inspection) -> str | Lacks:
    """The first state from which the lens's loss stays below halfway between a uniform guess and the model's own."""
    model, health = result.model, result.model.evidence.health
    if not model.losses or health is None or health.guess is None:
        return Lacks("there is no loss beside which a uniform guess stands")
    lens = columns(lens_of(model, health.guess))
    if not lens:
        return Lacks("the lens was not measured, or does not end at the model's own loss")
    half = [(health.guess + own) / 2 for own in model.losses[: len(lens[0])]]
    if len(half) < FEWEST:
        return few(len(half))
    start = max((state for state, row in lens.items() if not below(minus(row, half))), default=-1) + 1
    if start not in lens:
        return Lacks("the lens's loss is not sure to be below halfway at the end")
    where = f"in layer {start - 1}" if start else "before the first layer"
    limit, there = NATS.written(math.fsum(half) / len(half))[0], over_texts(lens[start], POSITIVE)
    return (
        f"The answer forms {where}: from state {start} of {model.layers} on the lens's loss stays below {limit} nats, "
        f"halfway between a uniform guess and the model's own; there it is {NATS.spelt(there)}."
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
        return Lacks("there is no other model beside it")
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
