"""What layers and half-steps cost when they are left out, alone or together, text by text; and which go together.

A batch is passed once, and the states before each layer are kept: leaving out layer l runs the layers after l only.
A cost is a function of the layers that are gone already and of one more, so whoever calls may keep each and continue.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from ...experiments.statistics import estimate
from ...flows import Flow
from ...flows.foreign import ForeignFlow
from ...flows.layers import only_layers
from ...flows.skipping import states_after
from ...integrate import State, Step, integrate
from ...opening import Opened
from ...probes.layer_maps import Rest, at_hand
from ...scheme import Scheme
from ...support.files import whole_folder
from ...support.words import listed
from .judge import Judge, relative
from .result import CutList, Figures

SAME = 1e-4  # by how much of it the output of a saved model may differ from that of the cut
CHEAPEST = 8  # layers among which a greedy list chooses: on SmolLM2 they give the list that all 28 give
Change = Callable[[int, State], State]
Cost = Callable[[tuple[int, ...], int], Figures]
"""cost(gone, layer): what leaving out a layer beside those that are gone costs in all, text by text."""


class Passed(NamedTuple):
    """A batch of texts that has passed a model: the states before each layer and, the last one, after all of them; what
    the model returned and its losses; and how long its layers and its head took. `gone` are layers that were left out;
    output and losses are of the whole model.
    """

    flow: Flow
    judge: Judge
    inputs: Mapping[str, Any]
    context: Any
    starts: list[State]  # L + 1
    output: Tensor
    losses: list[float] | None
    seconds: tuple[float, float]
    gone: frozenset[int] = frozenset()

    @property
    def layers(self) -> int:
        return len(self.starts) - 1


@torch.no_grad()
def passed(flow: Flow, judge: Judge, inputs: Mapping[str, Any]) -> Passed:
    """A pass of the whole model."""
    given = judge.given(inputs)
    context, x, times = at_hand(flow.context(given)), flow.embed(given), [time.monotonic()]
    starts = [x, *states_from(flow, 0, x, context, ())]
    times.append(time.monotonic())
    output = judge.output(flow, starts[-1], context, given)
    losses = judge.losses(output, given)
    times.append(time.monotonic())
    return Passed(flow, judge, given, context, starts, output, losses, (times[1] - times[0], times[2] - times[1]))


def steps_of(flow: Flow, layer: int) -> list[Step]:
    """The steps of one layer: several if it is cut into sub-steps."""
    stack = flow.stacks[flow.main]
    return stack.steps()[layer * stack.substeps : (layer + 1) * stack.substeps]


def states_from(
    flow: Flow, first: int, x: State, context: Any, gone: Collection[int], change: Change = lambda _, x: x
) -> list[State]:
    """The states after layer `first`, which is given x, and after all later ones; those that are gone do nothing. Each
    is given change(layer, state) instead of its state."""
    if isinstance(flow, ForeignFlow):
        return states_after(flow, context, first, x, gone, change)
    found = list[State]()
    for layer in range(first, len(flow.stacks[flow.main].layers)):
        x = change(layer, x)
        x = x if layer in gone else integrate(flow.scheme, steps_of(flow, layer), x, context)
        found.append(x)
    return found


@torch.no_grad()
def changes_at(passed: Passed, end: State) -> list[float]:
    """What it costs if this is the state after the last layer."""
    output = passed.judge.output(passed.flow, end, passed.context, passed.inputs)
    losses = passed.judge.losses(output, passed.inputs)
    if losses is None or passed.losses is None:
        return relative(output, passed.output)
    return [one - own for one, own in zip(losses, passed.losses, strict=True)]


@torch.no_grad()
def without(passed: Passed, layers: Collection[int]) -> Passed:
    """The same batch through the model without these layers, too."""
    gone = passed.gone | set(layers)
    first = min(gone - passed.gone, default=passed.layers)
    starts = passed.starts[: first + 1]
    rest = states_from(passed.flow, first, starts[-1], passed.context, gone)
    return passed._replace(starts=[*starts, *rest], gone=gone)


@torch.no_grad()
def left_out(passed: Passed, layers: Collection[int]) -> list[float]:
    """What leaving out these layers together costs, text by text."""
    return changes_at(passed, without(passed, layers).starts[-1])


@torch.no_grad()
def half_left_out(passed: Passed, layer: int, letter: str) -> list[float]:
    """What leaving out a letter of one layer costs, text by text: A, or F and with it F0 and F1. Experts of this layer
    are those that the whole model has chosen."""
    flow, context = passed.flow, passed.context
    x = integrate(flow.scheme, resting(flow, layer, letter), passed.starts[layer], context)
    return changes_at(passed, [x, *states_from(flow, layer + 1, x, context, passed.gone)][-1])


def resting(flow: Flow, layer: int, letter: str) -> list[Step]:
    """The steps of a layer in which the fields of this letter do nothing."""
    names = [name for name in flow.scheme.fields if name.startswith(letter)]
    if not names:
        have = ", ".join(letters_of(flow.scheme))
        raise ValueError(f"there is no field {letter} in {flow.scheme}: leave out one of {have}")
    rest = {name: Rest(hands_on(flow.scheme, name, names)) for name in names}
    return [step._replace(fields={**step.fields, **rest}) for step in steps_of(flow, layer)]


def letters_of(scheme: Scheme) -> list[str]:
    """The letters of a scheme's fields: what can be left out of a layer."""
    return list(dict.fromkeys(name[0] for name in scheme.fields))


def hands_on(scheme: Scheme, name: str, resting: Collection[str]) -> bool:
    """Whether a field that rests must hand on the state: the first of a part that replaces it, if all of them rest."""
    parts = (part for _, part in scheme.substeps if part.replaces and set(part.fields) <= set(resting))
    return any(part.fields[0] == name for part in parts)


@final
class Cuts:
    """What cuts cost on some batches: a `Cost`. It keeps the states of the last cut, and of where that began."""

    def __init__(self, batches: Sequence[Passed]) -> None:
        self.batches = self.began = self.last = tuple(batches)

    def __call__(self, gone: tuple[int, ...], layer: int) -> Figures:
        known = [one for one in (self.batches, self.began, self.last) if one[0].gone <= set(gone)]
        nearest = max(known, key=lambda one: len(one[0].gone))
        self.began = tuple(without(one, gone) for one in nearest)
        self.last = tuple(without(one, (layer,)) for one in self.began)
        return tuple(change for one in self.last for change in changes_at(one, one.starts[-1]))


class Chosen(NamedTuple):
    """A step of a list: the layer that was chosen, what the list would cost with each candidate, text by text, and
    whether another candidate could have been chosen as well."""

    layer: int
    costs: Mapping[int, Figures]
    tie: bool


def single_list(singles: Mapping[int, Figures], many: int) -> Iterator[Chosen]:
    """The layers that cost least alone, from the costs of each on the texts that choose."""
    left = dict(singles)
    while left and many > 0:
        yield (one := chosen(left))
        del left[one.layer]
        many -= 1


def greedy_list(cost: Cost, singles: Mapping[int, Figures], many: int, among: int = CHEAPEST) -> Iterator[Chosen]:
    """One layer after the other, each the one with which the list costs least; from the cheapest ones alone."""
    left = {one.layer: singles[one.layer] for one in single_list(singles, max(among, many))}
    gone: tuple[int, ...] = ()
    while left and len(gone) < many:
        yield (one := chosen({layer: cost(gone, layer) for layer in left} if gone else left))
        del left[one.layer]
        gone = (*gone, one.layer)


def chosen(costs: Mapping[int, Figures]) -> Chosen:
    """The candidate with the least mean cost."""
    best = min(costs, key=lambda layer: (fmean(costs[layer]), layer))
    rivals = (costs[layer] for layer in costs if layer != best)
    return Chosen(best, dict(costs), any(tied(one, costs[best]) for one in rivals))


def tied(one: Figures, other: Figures) -> bool:
    """Whether the texts do not tell two costs apart: the 95% interval of the difference, text by text, contains 0."""
    found = estimate([a - b for a, b in zip(one, other, strict=True)])
    assert found is not None
    if found.low is None:  # too few texts tell nothing; all equal ones do
        return "equal" not in found.lacks or not found.mean
    return found.sign == 0


def joint_costs(cost: Cost, layers: Sequence[int]) -> Iterator[Figures]:
    """What leaving out the first, the first two, .. of a list costs, on texts that did not choose it."""
    for k, layer in enumerate(layers):
        yield cost(tuple(layers[:k]), layer)


def cut_list(how: Any, steps: Iterable[Chosen], chosen_on: int, costs: Iterable[Figures]) -> CutList:
    """A list of cuts as a record."""
    kept = list(steps)
    ties = tuple(k for k, one in enumerate(kept, 1) if one.tie)
    return CutList(how, tuple(one.layer for one in kept), chosen_on, tuple(costs), ties)


def save_without(opened: Opened, one: Passed, layers: Collection[int], folder: Path) -> None:
    """Save the model without these layers, with its tokenizer: it returns what the cut of this batch returned."""
    if folder.exists():
        raise ValueError(f"--save {folder}: it is there already, so name a new folder")
    cut = without(one, layers)
    smaller = only_layers(opened.model, [n for n in range(one.layers) if n not in cut.gone], opened.name)
    with torch.no_grad():
        wanted = one.judge.output(one.flow, cut.starts[-1], one.context, one.inputs)
    if not max(relative(one.judge.of_model(smaller, one.inputs).to(wanted), wanted)) <= SAME:
        names = listed([*map(str, sorted(cut.gone))])
        raise ValueError(
            f"--save: {opened.name} without layers {names} does not give what the cut gave: its layers differ by their "
            "place, so leave out other ones"
        )
    with whole_folder(folder) as made:
        for part in (smaller, opened.tokenizer, opened.processor):
            if part is not None:
                part.save_pretrained(made)
