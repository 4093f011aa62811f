"""How states move from layer to layer: their lengths, their directions, and what each field adds."""

from itertools import pairwise
from typing import final

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from ..integrate import Event
from .probe import Figures, LayerStates, Pass, Probe, begins_step, lengths, mean_over, numbers, over_texts, texts_of

TEXTS = 16


@final
class StateNorms(Probe):
    """The mean length of the state's vectors at the start of each step and, last, at the end of the stack."""

    def __init__(self) -> None:
        self.lengths: list[Tensor] = []

    def __call__(self, event: Event) -> None:
        if begins_step(event):
            self.lengths.append(lengths(event.before))

    def figures(self, passed: Pass) -> Figures:
        return {"x": numbers([mean_over(one, passed.real) for one in (*self.lengths, lengths(passed.x))])}


@final
class IncrementNorms(Probe):
    """The mean length of what each field or projection adds in each step, summed over its parts."""

    def __init__(self) -> None:
        self.lengths: dict[str, dict[int, Tensor]] = {}

    def __call__(self, event: Event) -> None:
        for name, increment in event.increments.items():
            steps, added = self.lengths.setdefault(name, {}), lengths(increment)
            steps[event.site.step] = steps[event.site.step] + added if event.site.step in steps else added

    def figures(self, passed: Pass) -> Figures:
        return {
            name: numbers([mean_over(one, passed.real) for one in steps.values()])
            for name, steps in self.lengths.items()
        }


@final
class Drift(LayerStates):
    """The mean over tokens of cos(x_l, x_0), the series "input", and of cos(x_l, x_{l-1}), "previous", for the states
    x_l after each layer l = 1 .. L; x_0 is what the stack was given."""

    def figures(self, passed: Pass) -> Figures:
        states = self.states(passed)
        first = [cosines(x, states[0]) for x in states[1:]]
        neighbours = [cosines(x, before) for before, x in pairwise(states)]
        means = mean_over(torch.stack(first + neighbours), passed.real)
        return {"input": numbers(means[: len(first)]), "previous": numbers(means[len(first) :])}


def cosines(x: Tensor, y: Tensor) -> Tensor:
    """The cosine between the two vectors of each token; vectors are scaled first, so that squares of large ones are
    finite."""
    x, y = (v / v.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(v.dtype).tiny) for v in (x, y))
    return cosine_similarity(x, y, dim=-1)


@final
class Trajectory(LayerStates):
    """How a token moves, with v_l = x_l - x_{l-1} for layers l = 1 .. L of length h.

    "norm": |x_l|, L + 1 numbers; "speed": |v_l| / h, L numbers; "turn": the angle between v_l and v_{l+1} in radians,
    L - 1 numbers; "curvature": 2 sin(angle) / |x_{l+1} - x_{l-1}|, which is 1 / radius of the circle through three
    neighbouring states. Means over the tokens of a text, then over the first 16 texts, with their spread.
    """

    def figures(self, passed: Pass) -> Figures:
        h = passed.stack.step
        rows = [texts_of(x, passed.real, TEXTS) for x in self.states(passed)]
        texts = [torch.stack(one) for one in zip(*rows, strict=True)]  # [L + 1, n, width] each
        found = [trajectory(x, h) for x in texts]
        out: dict[str, tuple[float, ...]] = {}
        for name in found[0]:
            out |= over_texts(name, torch.stack([one[name].mean(-1) for one in found], -1))
        return out


def trajectory(x: Tensor, h: float) -> dict[str, Tensor]:
    """Norm, speed, turn and curvature of paths x [L + 1, n, width], one number for each token."""
    v = x[1:] - x[:-1]
    turn = cosines(v[1:].double(), v[:-1].double()).clamp(-1, 1).acos()
    curvature = 2 * turn.sin() / lengths(x[2:] - x[:-2])
    return {"norm": lengths(x), "speed": lengths(v) / h, "turn": turn, "curvature": curvature}
