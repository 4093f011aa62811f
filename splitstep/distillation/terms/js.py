"""The Jensen-Shannon divergence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from torch import Tensor

from ..divergences import kl_divergence, mixture
from .divergence import Divergence


@final
@dataclass(frozen=True)
class JensenShannon(Divergence):
    """JS(p, q) = KL(p | m) / 2 + KL(q | m) / 2 with m = (p + q) / 2. At temperature 1 it is at most log 2."""

    def between(self, log_p: Tensor, log_q: Tensor) -> Tensor:
        m = mixture(log_p, log_q, 0.5)
        return (kl_divergence(log_p, m) + kl_divergence(log_q, m)) / 2
