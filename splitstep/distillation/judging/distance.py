"""How far a student's trajectory through depth is from its teacher's, layer by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...probes.similarity import linear_cka
from ..layers import teacher_layer
from .together import Both, at, batches_of_both
from .tokens import reading

MOST = 2048  # tokens
ROWS = 8  # that are read at once: the states of all layers are large, and a few rows have as many tokens


class LayerDistance(NamedTuple):
    """The distance of the states after a student's layer from those after the teacher's layer for it."""

    layer: int
    teacher_layer: int
    distance: float


def trajectory_distance(both: Both, batch: int | None = None, most: int = MOST) -> tuple[LayerDistance, ...]:
    """1 - CKA between states after layer l = 1 .. N_S of the student and after layer floor(l N_T / N_S) of the teacher.

    CKA is debiased and linear, over the tokens of the answers where both have read the same bytes, at most `most` of
    them. It is the same after any rotation and scaling of a model's coordinates, so the widths may differ, and may be a
    little above 1 for unrelated states. States are those that Hugging Face gives: the last is after the final norm for
    most models.
    """
    layers: dict[int, int] | None = None
    ours, theirs = dict[int, list[Tensor]](), dict[int, list[Tensor]]()
    seen = 0
    with reading(both.teacher.model, both.student.model):
        for out_t, here, out_s, there in batches_of_both(both, batch or ROWS, states=True):
            layers = layers or layer_map(out_s, out_t)
            for layer, matching in layers.items():
                ours.setdefault(layer, []).append(at(out_t.hidden_states[matching], here[: most - seen]))
                theirs.setdefault(layer, []).append(at(out_s.hidden_states[layer], there[: most - seen]))
            seen += len(here)
            if seen >= most:
                break
    if layers is None or seen < 4:
        raise ValueError(f"the distance of trajectories needs at least 4 tokens, and the answers have {seen}: add rows")
    return tuple(
        LayerDistance(layer, matching, distance(ours[layer], theirs[layer])) for layer, matching in layers.items()
    )


def distance(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> float:
    """1 - CKA of two models' states, batch by batch [P, d]."""
    x, y = (torch.cat(list(parts)).double() for parts in (ours, theirs))
    return 1 - float(linear_cka(x, y.to(x.device), debiased=True))


def layer_map(student: Any, teacher: Any) -> dict[int, int]:
    """The teacher's layer for each of the student's; the first of a student that is deeper may have none."""
    deep, teacher_deep = (len(out.hidden_states) - 1 for out in (student, teacher))
    found = range(-(-deep // teacher_deep), deep + 1)
    return {layer: teacher_layer(layer, deep, teacher_deep) for layer in found}
