"""How alike the layers of one network are."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from .probe import Figures, LayerStates, Pass, numbers
from .similarity import centred
from .states import chosen_tokens


@final
class LayerSimilarity(LayerStates):
    """Debiased linear CKA between the states x_l of all pairs of layers l = 0 .. L, over the tokens of `states`.

    The tensor "matrix" [L + 1, L + 1]; "input" and "previous": its numbers for (x_l, x_0) and (x_l, x_{l-1}),
    l = 1 .. L. With fewer than 4 tokens they are not numbers.
    """

    def figures(self, passed: Pass) -> Figures:
        states = torch.stack(self.states(passed)).flatten(1, 2)
        chosen = chosen_tokens(passed.real, passed.x)
        matrix = layer_cka(states[:, chosen])
        return {"matrix": matrix.float(), "input": numbers(matrix[0, 1:]), "previous": numbers(matrix.diagonal(1))}


def layer_cka(x: Tensor) -> Tensor:
    """The debiased linear CKA of all pairs of states [L, N, width], as `similarity.linear_cka` has it, [L, L].

    With the Gram matrices K of centred states, without their diagonals, HSIC(K, M) is proportional to
    tr(K M) + 1^T K 1 1^T M 1 / ((N - 1)(N - 2)) - 2 / (N - 2) 1^T K M 1.
    """
    n, y = x.shape[1], centred(x)
    if n < 4:
        return torch.full((len(x), len(x)), torch.nan, dtype=y.dtype)
    gram = y @ y.mT
    gram = gram - torch.diag_embed(gram.diagonal(dim1=-2, dim2=-1))
    rows = gram.sum(-1)
    flat, total = gram.flatten(1), rows.sum(-1)
    hsic = flat @ flat.T + total[:, None] * total / ((n - 1) * (n - 2)) - 2 / (n - 2) * rows @ rows.T
    own = hsic.diagonal().sqrt()
    return hsic / (own[:, None] * own)
