"""The skewed reverse divergence of DistiLLM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor

from ..divergences import kl_divergence, mixture
from .divergence import Skewed


@final
@dataclass(frozen=True)
class SkewedReverseKL(Skewed):
    """KL(q | alpha q + (1 - alpha) p), q the student's; `rkl` if alpha is 0."""

    def between(self, log_p: Tensor, log_q: Tensor) -> Tensor:
        return kl_divergence(log_q, mixture(log_q, log_p, self.alpha))
