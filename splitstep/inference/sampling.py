"""How the next token is drawn from a model's logits."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..options import check_int64

MOST_KEPT = 10**9  # of top_k: more than any vocabulary
LEAST = 1e-6  # of a temperature that is not 0: smaller ones are 0 in single precision


@dataclass(frozen=True)
class Sampling:
    """A temperature, at 0 of which the likeliest token is taken each time; then only the `top_k` likeliest tokens, and
    of those the likeliest that together have a probability of `top_p`. The order is that of transformers."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not (self.temperature == 0 or LEAST <= self.temperature < math.inf):
            raise ValueError(f"generate needs a temperature of 0 or at least {LEAST}; got {self.temperature}")
        if self.top_k is not None and not 1 <= self.top_k <= MOST_KEPT:
            raise ValueError(f"generate needs a top-k of at least 1 and at most {MOST_KEPT:,}; got {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"generate needs a top-p above 0 and at most 1; got {self.top_p}")
        if self.temperature == 0 and (self.top_k or self.top_p) is not None:
            raise ValueError("a temperature of 0 takes the likeliest token: leave out --top-k and --top-p")
        check_int64("the seed", self.seed)

    def generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(self.seed)

    def draw(self, logits: Tensor, random: torch.Generator) -> int:
        """A token; logits [V] on the CPU."""
        if not logits.isfinite().all():
            raise ValueError(
                "the model's output is not a number: its weights are damaged, or too large for its precision"
            )
        if self.temperature == 0:
            return int(logits.argmax())
        return int(torch.multinomial(self.kept(logits).softmax(-1), 1, generator=random))

    def kept(self, logits: Tensor) -> Tensor:
        """The logits over the temperature, with -inf for tokens that are not to be drawn."""
        scaled = (logits - logits.max()) / self.temperature
        if self.top_k is not None:
            least = scaled.topk(min(self.top_k, len(scaled))).values[-1]
            scaled = scaled.masked_fill(scaled < least, -math.inf)
        if self.top_p is not None:
            ordered, places = scaled.sort(descending=True)
            shares = ordered.softmax(-1)
            likelier = shares.cumsum(-1) - shares  # the probability of all likelier tokens; 0 for the likeliest
            scaled = scaled.index_fill(0, places[likelier >= self.top_p], -math.inf)
        return scaled
