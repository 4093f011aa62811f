"""How many directions the tokens of a text use."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from .probe import Figures, LayerStates, Pass, named_over_texts, texts_of
from .spectra import effective_rank, participation_ratio, singular_values

TEXTS = 16


@final
class Rank(LayerStates):
    """Effective rank and participation ratio of the token states X [tokens, width] of a text, at l = 0 .. L.

    With the singular values s of X: "effective": exp(-sum p log p), p = s / sum s; "participation":
    (sum s^2)^2 / sum s^4. Both fall to 1 if all tokens become one. "effective centred" and "participation centred": of
    X without the mean of its rows, so a direction that all tokens share does not count. Means over the first 16 texts,
    with their spread.
    """

    def figures(self, passed: Pass) -> Figures:
        states = [texts_of(x, passed.real, TEXTS) for x in self.states(passed)]
        found = torch.stack([torch.stack(list(map(ranks, texts))) for texts in states])  # [L + 1, texts, 4]
        names = ("effective", "participation", "effective centred", "participation centred")
        return named_over_texts(names, found)


def ranks(x: Tensor) -> Tensor:
    """The four numbers of one text's states [tokens, width]."""
    both = (singular_values(x.double() - mean) for mean in (0.0, x.double().mean(0)))
    return torch.stack([measure(s) for s in both for measure in (effective_rank, participation_ratio)]).cpu()
