"""The work of an inspection as groups of units: those of a group share a pass, and each is kept as it is found."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...probes import PROBES, Figures, Probe
from ...probes.watching import watch_texts
from ...support.typed import plain, read_as
from ...support.words import counted
from .compare_models import OTHER_TOKENS, divergence, layers_apart, layers_beside, swapped
from .cuts import CHEAPEST, Cost, Cuts, Passed, cut_list, greedy_list, half_left_out, joint_costs, left_out, letters_of
from .measures import MOST, coordinates, health, held_costs, lens_losses, likely_coordinates, whole_health
from .own_probes import Guarded, KeptStates, SavedStates, Sizes
from .plan import FEWER, FEWER_OF_NULL, NOT_OF_NULL, OTHERS, TRIED
from .result import Coordinate, Health
from .subject import Batch, Subject
from .units import Found, Store

Keep = Callable[[str, Found], None]
KEPT = {("sizes", "shares"), ("cka_layers", "matrix"), ("paths", "states")}  # tensors of every text
FIRST = {("jacobian", "J eigenvalues"), ("rollout", "weights")}  # of the first text
OWN: Mapping[str, type[Probe]] = {"sizes": Sizes, "paths": KeptStates}
COSTS = {
    "lens": 13.5, "rank": 0.8, "jacobian": 45.0, "products": 21.0, "leading": 105.0, "commutator": 90.0,
    "communities": 45.0,
}  # fmt: skip
"""What probes take, in passes of the texts that they see, about: measured on SmolLM2. Others take .05 of one."""
READ = 2.4  # passes that the first pass of a batch takes, in which blocks are read
SEEN = 4.5  # passes that one takes which probes see: blocks are read for each text
LOADED = 6.0  # passes that it takes to make a null model and take it apart
EARLY = 0.4  # of the depth: where cuts of several layers begin, in the mean


class Group(NamedTuple):
    """Units that are found together: each with its cost in seconds, about. `do` finds those of them that are not there,
    and keeps each."""

    subject: Subject
    what: str  # such as "layers left out": groups of one kind are counted
    costs: Mapping[str, float]
    do: Callable[[Sequence[str], Keep], None]


def seconds(subject: Subject, *batches: Batch) -> float:
    """How long a pass of batches takes, by the size of the first one."""
    return subject.pace * sum(map(size, batches)) / size(subject.batches()[0])


def size(batch: Batch) -> int:
    """The tokens of a batch."""
    length = max(x.shape[1] if x.ndim > 1 else 1 for x in batch.inputs.values() if isinstance(x, Tensor))
    return len(batch.numbers) * length


def cut_cost(subject: Subject, start: float, *batches: Batch) -> float:
    """How long batches take from a layer on: later layers, and the head."""
    share = subject.head + (1 - subject.head) * (1 - start / subject.layers)
    return share * seconds(subject, *batches)


def groups_of(subject: Subject) -> Iterator[Group]:
    """All that is to be measured of a model, in order."""
    null = subject.random
    light = [name for name in subject.plan.light if not (null and name in NOT_OF_NULL)]
    for k, batch in enumerate(subject.batches()):
        yield seen(subject, k, batch, [*light, *OWN, *(["saved states"] if subject.plan.states else [])])
    yield from (at_rest(subject, k, batch) for k, batch in enumerate(subject.batches()))
    yield from as_a_whole(subject)
    if not null:
        yield from cuts(subject)
    closer = [name for name in subject.plan.closer if not (null and name in NOT_OF_NULL)]
    for i in range(min(subject.plan.differentiated, len(subject.source.texts)) if closer else 0):
        yield seen(subject, i, Batch((i,), subject.source.texts[i].inputs), closer, "texts differentiated")


def seen(subject: Subject, k: int, batch: Batch, names: Sequence[str], what: str = "batches") -> Group:
    """Probes on one pass of a batch."""
    fewer = {**FEWER, **FEWER_OF_NULL} if subject.random else FEWER
    chosen = {name: [b for b, i in enumerate(batch.numbers) if i < fewer.get(name, i + 1)] for name in names}
    units = {f"{subject.role}/{name}/{k}": name for name in names if chosen[name]}

    def do(missing: Sequence[str], keep: Keep) -> None:
        made = {
            unit: {b: Guarded(probe_of(subject, units[unit], batch.numbers[b])) for b in chosen[units[unit]]}
            for unit in missing
        }
        flow: Any = subject.flow
        for unit, found in watch_texts(flow, batch.inputs, made):
            why = next((one.why for one in made[unit].values() if one.why), "")
            rows = {batch.numbers[b]: kept_of(units[unit], batch.numbers[b], one) for b, one in found.items() if one}
            keep(unit, Found(rows, why))

    share = seconds(subject, batch) / len(batch.numbers)  # of one text
    costs = {unit: COSTS.get(name, 0.05) * share * len(chosen[name]) for unit, name in units.items()}
    if units:
        costs[next(iter(units))] += (SEEN + LOADED * (subject.random and not k)) * seconds(subject, batch)
    return Group(subject, what, costs, do)


def probe_of(subject: Subject, name: str, text: int) -> Probe:
    """A probe for one text."""
    if name == "saved states" and subject.plan.states is not None:
        file = subject.plan.states / f"text-{text + 1:04d}.safetensors"
        substeps = subject.flow.stacks[subject.flow.main].substeps
        return SavedStates(file, subject.flow.scheme, substeps, subject.chosen, subject.source.texts[text].tokens)
    return OWN[name]() if name in OWN else PROBES.find(name)()


def kept_of(name: str, text: int, figures: Figures) -> Figures:
    """What is kept of a probe's figures: series, and the tensors that charts show."""
    wanted = KEPT | FIRST if text == 0 else KEPT
    return {
        key: x
        for key, x in figures.items()
        if ((name, key) in wanted if isinstance(x, Tensor) else not key.endswith(" spread"))
    }


def rows_of(batches: Sequence[Batch], name: str, values: Sequence[float]) -> dict[int, Figures]:
    """A number for each text of some batches."""
    return {i: {name: (value,)} for i, value in zip(texts_of(batches), values, strict=True)}


def at_rest(subject: Subject, k: int, batch: Batch) -> Group:
    """What one pass of a batch shows without a probe: losses and health."""
    role = subject.role

    def do(missing: Sequence[str], keep: Keep) -> None:
        one = subject.passed(batch)
        spelt = [subject.source.texts[i].spelt for i in batch.numbers]
        keep(f"{role}/loss/{k}", Found({} if one.losses is None else rows_of([batch], "loss", one.losses)))
        keep(f"{role}/health/{k}", Found(about=plain(health(one, spelt))))
        lens = lens_losses(one) if one.judge.by == "labels" and not subject.random else []
        keep(f"{role}/task lens/{k}", Found({i: {"loss": row} for i, row in zip(batch.numbers, lens, strict=False)}))

    cost = READ * seconds(subject, batch) * (batch.numbers not in subject.passes)
    costs = {f"{role}/{name}/{k}": cost / 3 for name in ("loss", "health", "task lens")}
    return Group(subject, "batches", costs, do)


def as_a_whole(subject: Subject) -> Iterator[Group]:
    """What needs all batches: the model's health, and what coordinates cost that are held still."""
    role, tried = subject.role, subject.batches(range(min(TRIED, len(subject.source.texts))))

    def healthy(missing: Sequence[str], keep: Keep) -> None:
        found = [read_as(Health, one.about, "health") for one in subject.store.of(f"{role}/health/").values()]
        keep(missing[0], Found(about=plain(whole_health(subject.flow.model, found))))

    def hold(missing: Sequence[str], keep: Keep) -> None:
        large = coordinates_of(subject.store, role)
        for n, unit in enumerate(names):
            costs = held_costs([subject.passed(one) for one in tried], [large[n].coordinate] if n < len(large) else [])
            if unit in missing:
                keep(unit, Found(about={"held": plain(list(costs))}))

    yield Group(subject, "batches", {f"{role}/whole health/0": 0.1}, healthy)
    names = [f"{role}/held {n}/0" for n in range(MOST)]
    if not subject.random:
        likely, cost = likely_coordinates(subject.passed(tried[0])), 2 * seconds(subject, *tried)
        costs = {unit: cost * (n < likely) for n, unit in enumerate(names)}
        yield Group(subject, "coordinates held", costs, hold)


def coordinates_of(store: Store, role: str) -> tuple[Coordinate, ...]:
    """The coordinates that hold much of the norm, from the shares of all texts that are there."""
    rows = {i: row for one in store.of(f"{role}/sizes/").values() for i, row in one.rows.items()}
    found = [x for _, row in sorted(rows.items()) if isinstance(x := row["shares"], Tensor)]
    return coordinates(torch.stack(found)) if found else ()


def cuts(subject: Subject) -> Iterator[Group]:
    """Each layer left out, then half-steps, then layers together."""
    tried = subject.batches(range(min(TRIED, len(subject.source.texts))))
    for layer in subject.chosen:
        cost = partial(left_out, layers=[layer])
        yield one_out(subject, "layers left out", f"out {layer}", tried, cost, layer + 1)
    if not subject.plan.cut:
        return
    letters = letters_of(subject.flow.scheme)
    for layer in subject.chosen if len(letters) > 1 else ():
        for letter in letters:
            cost = partial(half_left_out, layer=layer, letter=letter)
            yield one_out(
                subject, "attention or feed-forward parts left out", f"half {layer} {letter}", tried, cost, layer + 0.5
            )
    yield together(subject)


def one_out(
    subject: Subject, what: str, name: str, tried: Sequence[Batch], cost: Callable[[Passed], list[float]], start: float
) -> Group:
    """What one cut costs, batch by batch, of which only later layers run."""
    units = {f"{subject.role}/{name}/{k}": batch for k, batch in enumerate(tried)}

    def do(missing: Sequence[str], keep: Keep) -> None:
        for unit in missing:
            keep(unit, Found(rows_of([units[unit]], "change", cost(subject.passed(units[unit])))))

    return Group(subject, what, {unit: cut_cost(subject, start, batch) for unit, batch in units.items()}, do)


def together(subject: Subject) -> Group:
    """Which layers go together: the list that some texts choose, and what it costs on others."""
    many, among, role = subject.plan.cut, min(len(subject.chosen), max(CHEAPEST, subject.plan.cut)), subject.role
    if many > among:
        raise ValueError(f"--cut {many}: there are {counted(among, 'layer')} to leave out, so give at most {among}")
    choosing, judging = (subject.batches(numbers) for numbers in choosing_and_judging(subject))
    steps = [f"{role}/choose {among} {k} {c}/0" for k in range(2, many + 1) for c in range(among - k + 1)]
    tries = [f"{role}/try {k}/0" for k in range(1, many + 1)]

    def do(missing: Sequence[str], keep: Keep) -> None:
        every = {layer: subject.store.of(f"{role}/out {layer}/").values() for layer in subject.chosen}
        rows = {layer: {i: row for one in found for i, row in one.rows.items()} for layer, found in every.items()}
        singles = {layer: changes_of(found, choosing) for layer, found in rows.items()}
        found = list(greedy_list(kept_cost(subject, iter(steps), choosing, keep), singles, many, among))
        layers = [one.layer for one in found]
        tried = joint_costs(kept_cost(subject, iter(tries), judging, keep), layers) if judging else ()
        kept = cut_list("greedy", found, len(texts_of(choosing)), tried)
        keep(f"{role}/list {many}/0", Found(about={"cut": plain(kept)}))

    start = EARLY * subject.layers
    costs = dict.fromkeys(steps, cut_cost(subject, start, *choosing))
    costs |= dict.fromkeys(tries if judging else (), cut_cost(subject, start, *judging))
    return Group(
        subject,
        "choosing layers that go together",
        {**costs, f"{role}/list {many}/0": READ * seconds(subject, *judging)},
        do,
    )


def choosing_and_judging(subject: Subject) -> tuple[range, range]:
    """The texts that choose a list of layers, and those on which it is judged: others, or the second half."""
    n, more = len(subject.source.texts), len(subject.source.others)
    if more:
        return range(min(TRIED, n)), range(n, n + min(more, OTHERS))
    half = min(TRIED, max(1, n // 2))
    return range(half), range(half, min(n, half + OTHERS))


def texts_of(batches: Sequence[Batch]) -> list[int]:
    return [i for batch in batches for i in batch.numbers]


def changes_of(rows: Mapping[int, Figures], batches: Sequence[Batch]) -> tuple[float, ...]:
    """What a cut has been found to cost on some texts."""
    return tuple(float(rows[i]["change"][0]) for i in texts_of(batches))


def kept_cost(subject: Subject, names: Iterator[str], batches: Sequence[Batch], keep: Keep) -> Cost:
    """What cuts cost on some batches, where each is a unit: those that are there are not measured again."""
    made: list[Cuts] = []

    def cost(gone: tuple[int, ...], layer: int) -> tuple[float, ...]:
        if (found := subject.store.get(name := next(names))) is None:
            if not made:
                made.append(Cuts([subject.passed(one) for one in batches]))
            found = Found(rows_of(batches, "change", made[0](gone, layer)))
            keep(name, found)
        return changes_of(found.rows, batches)

    return cost


def beside(model: Subject, other: Subject) -> Iterator[Group]:
    """Two models of one shape, layer by layer, on the same texts."""

    def both(batch: Batch) -> tuple[Passed, Passed] | str:
        """The passes of both models, or why they cannot be compared."""
        found = other.batches(batch.numbers)
        if [one.numbers for one in found] != [batch.numbers]:
            return OTHER_TOKENS
        return model.passed(batch), other.passed(found[0])

    def compare(batch: Batch, k: int, missing: Sequence[str], keep: Keep) -> None:
        pair = both(batch)
        why = pair if isinstance(pair, str) else layers_apart(*pair)
        rows = [] if why or isinstance(pair, str) else layers_beside(*pair)
        keep(f"model/beside/{k}", Found(dict(zip(batch.numbers, rows, strict=False)), why))
        found, reason = ([], pair) if isinstance(pair, str) else divergence(*pair)
        keep(f"model/divergence/{k}", Found(rows_of([batch], "divergence", found) if found else {}, reason))

    def swap(layer: int, batch: Batch, missing: Sequence[str], keep: Keep) -> None:
        pair = both(batch)
        changes = [] if isinstance(pair, str) else swapped(*pair, layer)
        keep(missing[0], Found(rows_of([batch], "change", changes) if changes else {}))

    for k, batch in enumerate(model.batches()):
        costs = {f"model/{name}/{k}": 2 * seconds(model, batch) for name in ("beside", "divergence")}
        yield Group(model, "batches beside each other", costs, partial(compare, batch, k))
    first = both(model.batches()[0])
    for layer in () if isinstance(first, str) or layers_apart(*first) else model.chosen:
        for k, batch in enumerate(model.batches(range(min(TRIED, len(model.source.texts))))):
            costs = {f"model/swap {layer}/{k}": cut_cost(model, layer, batch)}
            yield Group(model, "layers swapped", costs, partial(swap, layer, batch))
