"""The reverse Kullback-Leibler divergence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor

from ..divergences import kl_divergence
from .divergence import Divergence


@final
@dataclass(frozen=True)
class ReverseKL(Divergence):
    """KL(q | p) = sum over the vocabulary of q log(q / p), q the student's."""

    def between(self, log_p: Tensor, log_q: Tensor) -> Tensor:
        return kl_divergence(log_q, log_p)
