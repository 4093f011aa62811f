"""Tokens as particles: do they point the same way, into how many clusters do they fall, along how many directions?"""

from typing import final

import torch
from torch import Tensor

from .probe import Figures, LayerStates, Pass, named_over_texts, texts_of
from .spectra import effective_rank, participation_ratio, singular_values

TEXTS = 16
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
            sizes = [(mean_pairwise(one), cluster_labels(one).bincount()) for one in cosines]
            found.append([(float(mean), len(own), int(own.max()) / int(own.sum())) for mean, own in sizes])
        values = torch.tensor(found, dtype=torch.float64)  # [L + 1, texts, 3]
        return named_over_texts(("cosine", "clusters", "largest"), values)


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
