"""Do the tokens of a text gather while they pass through the layers?"""

from __future__ import annotations

from typing import final

import torch

from .clusters import cluster_labels, mean_pairwise, token_cosines
from .probe import Figures, LayerStates, Pass, named_over_texts, texts_of

TEXTS = 16


@final
class Clustering(LayerStates):
    """Tokens of the states x_l, l = 0 .. L, as particles.

    "cosine": the mean of cos(x_i, x_j) over pairs of different tokens of a text, the anisotropy; "clusters": how many
    clusters there are, and "largest": the share of tokens in the largest one. A cluster is a connected component of the
    graph of pairs with a cosine above .9. Means over the first 16 texts, with their spread.
    """

    def figures(self, passed: Pass) -> Figures:
        found: list[list[tuple[float, float, float]]] = []
        for x in self.states(passed):
            cosines = map(token_cosines, texts_of(x, passed.real, TEXTS))
            found.append([(float(mean_pairwise(one)), *cluster_sizes(cluster_labels(one))) for one in cosines])
        values = torch.tensor(found, dtype=torch.float64)  # [L + 1, texts, 3]
        return named_over_texts(("cosine", "clusters", "largest"), values)


def cluster_sizes(labels: torch.Tensor) -> tuple[float, float]:
    """How many clusters there are, and the share of the largest."""
    counts = labels.bincount()
    return float(len(counts)), int(counts.max()) / len(labels)
