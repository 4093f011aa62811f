"""How far the state turns away from where it began."""

from __future__ import annotations

from itertools import pairwise
from typing import final

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from .probe import Figures, LayerStates, Pass, mean_over, numbers


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
