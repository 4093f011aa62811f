"""The records that experiments share: a point of a sweep, a curve, a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ..training.result import RunOutcome

Setting = tuple[str, ...]  # the assignments of one point of a sweep, such as ("train.lr=1e-3",)


class Curve(NamedTuple):
    """A figure against the step."""

    steps: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Trial(RunOutcome):
    """One run: a scheme with a setting of the sweep and a seed."""

    scheme: str
    setting: Setting
    folder: str  # relative to the comparison's own
    train_loss: Curve
    valid_loss: Curve
    valid_metric: Curve
    arm: str = ""  # of an ablation; older documents have none
