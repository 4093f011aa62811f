"""The forward Kullback-Leibler divergence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor

from ..divergences import kl_divergence
from .divergence import Divergence


@final
@dataclass(frozen=True)
class ForwardKL(Divergence):
    """KL(p | q) = sum over the vocabulary of p log(p / q), p the teacher's."""

    def between(self, log_p: Tensor, log_q: Tensor) -> Tensor:
        return kl_divergence(log_p, log_q)
