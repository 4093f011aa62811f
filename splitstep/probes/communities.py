"""Communities of residual coordinates: the graph that a Jacobian spans, and what the Jacobian does to its communities.

Nodes are the coordinates of the stream, and the weight of an edge is |J_ij| + |J_ji|, without loops. Louvain's method
is written out for dense graphs: that of networkx walks over dictionaries, and 10 seeds for every layer of a network
would take longer than everything else together. The tests hold one against the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from math import nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]
SEEDS, PERMUTATIONS = 10, 1000


class Communities(NamedTuple):
    """Labels [n] of the best of several partitions, its modularity, and the stability of the partitions."""

    labels: Array
    modularity: float
    stability: float


class Association(NamedTuple):
    """Spearman's rank correlation, and the share of permutations with one at least as far from 0."""

    correlation: float
    p: float


def coupling_graph(jacobians: Sequence[Tensor]) -> Array:
    """The weights |J_ij| + |J_ji| in the mean over Jacobians [n, n] of several tokens, with 0 on the diagonal."""
    mean = np.mean([np.abs(j.detach().double().cpu().numpy()) for j in jacobians], axis=0)
    weights = mean + mean.T
    np.fill_diagonal(weights, 0.0)
    return weights


def modularity(weights: Array, labels: Array) -> float:
    """Q = sum_c (w_cc / w - (k_c / w)^2), w_cc the weight inside of community c, k_c its degree, w the whole weight
    (both directions of an edge count)."""
    inside = one_hot(labels).T @ weights @ one_hot(labels)
    whole = weights.sum()
    return float(inside.trace() / whole - ((inside.sum(1) / whole) ** 2).sum())


def one_hot(labels: Array) -> Array:
    """[n, communities]: 1 where a node belongs."""
    return np.eye(int(labels.max()) + 1)[labels]


def louvain(weights: Array, seed: int = 0) -> Array:
    """A partition of large modularity as labels 0, 1, ... [n] (Blondel et al., 2008).

    Each node in turn joins the community that adds most to the modularity, until none moves; then communities become
    nodes, and so on until nothing changes. The seed draws the order of the nodes.
    """
    generator = np.random.default_rng(seed)
    labels = np.arange(len(weights))
    while True:
        joined = joined_neighbours(weights, generator)
        if joined.max() + 1 == len(weights):
            return labels
        labels = joined[labels]
        weights = one_hot(joined).T @ weights @ one_hot(joined)


def joined_neighbours(weights: Array, generator: np.random.Generator) -> Array:
    """Labels after the first phase of Louvain's method."""
    n, degree, whole = len(weights), weights.sum(1), weights.sum()
    labels, total = np.arange(n), degree.copy()
    moved = True
    while moved:
        moved = False
        for i in generator.permutation(n):
            own = labels[i]
            links = np.bincount(labels, weights=weights[i], minlength=n)
            links[own] -= weights[i, i]
            total[own] -= degree[i]
            gains = links - degree[i] * total / whole
            best = int(gains.argmax())
            if gains[best] <= gains[own] + 1e-12 * whole:
                best = own
            labels[i], moved = best, moved or best != own
            total[best] += degree[i]
    return np.unique(labels, return_inverse=True)[1]


def find_communities(weights: Array, seeds: int = SEEDS) -> Communities:
    """The partition of largest modularity of `seeds` runs of Louvain's method. Stability is the mean adjusted Rand
    index of all pairs of runs: 1 if all agree, about 0 if they agree as chance would."""
    from sklearn.metrics import adjusted_rand_score  # here: it takes a while, and most runs need none of it

    if not (np.isfinite(weights).all() and weights.sum() > 0):
        return Communities(np.zeros(len(weights), dtype=int), nan, nan)
    runs = [louvain(weights, seed) for seed in range(seeds)]
    scores = [modularity(weights, labels) for labels in runs]
    best = int(np.argmax(scores))
    pairs = [adjusted_rand_score(a, b) for a, b in combinations(runs, 2)]
    return Communities(runs[best], scores[best], float(np.mean(pairs)) if pairs else nan)


def eigenvector_centrality(weights: Array) -> Array:
    """The leading eigenvector of the weights [n], positive and of length 1."""
    if not np.isfinite(weights).all():
        return np.full(len(weights), nan)
    return np.abs(np.linalg.eigh(weights)[1][:, -1])


def by_community(labels: Array, value: Callable[[Array], float]) -> Array:
    """A number for the indicator 1_c [n] of each community."""
    return np.array([value(one) for one in one_hot(labels).T])


def positions(weights: Array, labels: Array) -> Array:
    """The position of each community: the mean eigenvector centrality of its nodes."""
    centrality = eigenvector_centrality(weights)
    return by_community(labels, lambda one: float(one @ centrality / one.sum()))


def amplifications(jacobians: Sequence[Tensor], labels: Array) -> Array:
    """|J 1_c| / |1_c| of each community c, in the mean over Jacobians."""
    matrices = [j.detach().double().cpu().numpy() for j in jacobians]
    norm = np.linalg.norm
    return by_community(labels, lambda one: float(np.mean([norm(j @ one) for j in matrices]) / norm(one)))


def spearman(x: Array, y: Array, permutations: int = PERMUTATIONS, seed: int = 15) -> Association:
    """Spearman's rank correlation of two rows [n], and the p-value (1 + #{|r_perm| >= |r|}) / (1 + permutations). With
    fewer than 3 numbers, or if one row is constant, both are not a number."""
    from scipy.stats import rankdata  # here: it takes a while, and most runs need none of it

    if len(x) < 3 or not (np.isfinite(x).all() and np.isfinite(y).all()):
        return Association(nan, nan)
    a, b = (rankdata(v) - (len(v) + 1) / 2 for v in (x, y))
    scale = float(np.sqrt((a @ a) * (b @ b)))
    if scale == 0.0:
        return Association(nan, nan)
    generator = np.random.default_rng(seed)
    drawn = np.array([a @ generator.permutation(b) for _ in range(permutations)]) / scale
    found = float(a @ b) / scale
    return Association(found, float(1 + (np.abs(drawn) >= abs(found) - 1e-12).sum()) / (1 + permutations))
