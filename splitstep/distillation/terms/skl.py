"""The skewed forward divergence of DistiLLM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor

from ..divergences import kl_divergence, mixture
from .divergence import Skewed


@final
@dataclass(frozen=True)
class SkewedKL(Skewed):
    """KL(p | alpha p + (1 - alpha) q), p the teacher's; `kl` if alpha is 0."""

    def between(self, log_p: Tensor, log_q: Tensor) -> Tensor:
        return kl_divergence(log_p, mixture(log_p, log_q, self.alpha))
