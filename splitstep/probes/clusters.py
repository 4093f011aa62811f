"""Tokens as particles: do they point the same way, and into how many clusters do they fall?"""

from __future__ import annotations

import torch
from torch import Tensor

ALIKE = 0.9  # tokens whose cosine is above this are neighbours


def token_cosines(x: Tensor) -> Tensor:
    """cos(x_i, x_j) of tokens [n, width], [n, n], in float64; rows are scaled first, so large ones stay finite."""
    x = x.double()
    x = x / x.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(x.dtype).tiny)
    x = x / torch.linalg.vector_norm(x, dim=-1, keepdim=True).clamp(min=torch.finfo(x.dtype).tiny)
    return x @ x.mT


def mean_pairwise(cosines: Tensor) -> Tensor:
    """The mean of cos(x_i, x_j) over i != j, the anisotropy of tokens; not a number for a single one."""
    n = len(cosines)
    return (cosines.sum() - cosines.diagonal().sum()) / (n * (n - 1)) if n > 1 else cosines.new_tensor(torch.nan)


def cluster_labels(cosines: Tensor, above: float = ALIKE) -> Tensor:
    """The cluster of each token: connected components of the graph of pairs with a cosine above `above`, numbered from
    0 in the order of their first tokens."""
    linked = (cosines > above).cpu()
    labels = torch.arange(len(linked))
    while True:  # every token takes the smallest label in its neighbourhood: as many rounds as the longest path
        least = torch.where(linked, labels, len(linked)).amin(-1).minimum(labels)
        if torch.equal(least, labels):
            return labels.unique(return_inverse=True)[1]
        labels = least[least]  # a label is a token of the same cluster, whose own label is smaller still
