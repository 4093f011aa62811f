"""The path of each token through depth."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from .drift import cosines
from .probe import Figures, LayerStates, Pass, lengths, over_texts, texts_of

TEXTS = 16


@final
class Trajectory(LayerStates):
    """How a token moves, with v_l = x_l - x_{l-1} for layers l = 1 .. L of length h.

    "norm": |x_l|, L + 1 numbers; "speed": |v_l| / h, L numbers; "turn": the angle between v_l and v_{l+1} in radians,
    L - 1 numbers; "curvature": 2 sin(angle) / |x_{l+1} - x_{l-1}|, which is 1 / radius of the circle through three
    neighbouring states. Means over the tokens of a text, then over the first 16 texts, with their spread.
    """

    def figures(self, passed: Pass) -> Figures:
        h = passed.stack.step
        texts = [torch.stack(one) for one in zip(*self.by_text(passed), strict=True)]  # [L + 1, n, width] each
        found = [trajectory(x, h) for x in texts]
        out: dict[str, tuple[float, ...]] = {}
        for name in found[0]:
            out |= over_texts(name, torch.stack([one[name].mean(-1) for one in found], -1))
        return out

    def by_text(self, passed: Pass) -> list[list[Tensor]]:
        """The real tokens of each text, layer by layer."""
        return [texts_of(x, passed.real, TEXTS) for x in self.states(passed)]


def trajectory(x: Tensor, h: float) -> dict[str, Tensor]:
    """Norm, speed, turn and curvature of paths x [L + 1, n, width], one number for each token."""
    v = x[1:] - x[:-1]
    turn = cosines(v[1:].double(), v[:-1].double()).clamp(-1, 1).acos()
    curvature = 2 * turn.sin() / lengths(x[2:] - x[:-2])
    return {"norm": lengths(x), "speed": lengths(v) / h, "turn": turn, "curvature": curvature}
