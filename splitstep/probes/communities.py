"""Communities of residual coordinates: the graph that a Jacobian spans, and what the Jacobian does to its communities.

Nodes are the coordinates of the stream, and the weight of an edge is |J_ij| + |J_ji|, without loops. Louvain's method
is written out for dense graphs: that of networkx walks over dictionaries, and 10 seeds for every layer of a network
would take longer than everything else together. The tests hold one against the other.
"""

from collections.abc import Callable, Sequence
from itertools import combinations
from math import nan
from typing import Any, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .jacobians import TokenJacobians
from .probe import Figures, Pass

Array = NDArray[Any]
SEEDS, PERMUTATIONS = 10, 1000
ROUNDS = 10  # of the first phase: later ones move few nodes, and add less than 1e-3 to the modularity


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


def partitions(weights: Array, seeds: Sequence[int]) -> list[Array]:
    """Partitions of large modularity as labels 0, 1, ... [n] (Blondel et al., 2008), one for each seed.

    Each node in turn joins the community that adds most to the modularity, until none moves; then communities become
    nodes, and so on until nothing changes. A seed draws the order of the nodes. The first phase, which takes nearly all
    of the time, runs for all seeds at once.
    """
    generators = [np.random.default_rng(seed) for seed in seeds]
    firsts = joined_neighbours(weights, generators)
    return [merged(weights, first, generator) for first, generator in zip(firsts, generators, strict=True)]


def merged(weights: Array, joined: Array, generator: np.random.Generator) -> Array:
    """Labels after communities have become nodes, until nothing changes."""
    labels = np.arange(len(weights))
    while joined.max() + 1 < len(weights):
        labels = joined[labels]
        weights = one_hot(joined).T @ weights @ one_hot(joined)
        [joined] = joined_neighbours(weights, [generator])
    return labels


def joined_neighbours(weights: Array, generators: Sequence[np.random.Generator]) -> list[Array]:
    """Labels after the first phase of Louvain's method, for each generator."""
    n, many = len(weights), len(generators)
    labels = np.tile(np.arange(n), (many, 1))
    moving = np.arange(many)  # the runs that still change
    for _ in range(ROUNDS):
        if not len(moving):
            break
        orders = np.stack([generators[int(run)].permutation(n) for run in moving])
        found, changed = one_round(weights, labels[moving], orders)
        labels[moving] = [np.unique(one, return_inverse=True)[1] for one in found]
        moving = moving[changed]
    return list(labels)


def one_round(weights: Array, labels: Array, orders: Array) -> tuple[Array, Array]:
    """Labels [runs, n] after each node in turn has joined its best community, and which runs have changed. One label is
    of no node, so a node can also be alone."""
    n, whole, row = len(weights), weights.sum(), np.arange(len(labels))
    degree, loops, changed = weights.sum(1), weights.diagonal(), np.zeros(len(labels), dtype=bool)
    links, total = np.zeros((len(labels), n, int(labels.max()) + 2)), np.zeros((len(labels), int(labels.max()) + 2))
    for run, own in enumerate(labels):  # sums of the columns of each community, which has at least one node
        order, firsts = own.argsort(), np.concatenate(([0], np.bincount(own).cumsum()[:-1]))
        links[run, :, : len(firsts)] = np.add.reduceat(weights[:, order], firsts, axis=1)
        total[run, : len(firsts)] = np.add.reduceat(degree[order], firsts)
    for i in orders.T:
        own = labels[row, i]
        near = links[row, i]
        near[row, own] -= loops[i]
        total[row, own] -= degree[i]
        gains = near - (degree[i] / whole)[:, None] * total
        best = gains.argmax(1)
        best = np.where(gains[row, best] <= gains[row, own] + 1e-12 * whole, own, best)
        total[row, best] += degree[i]
        for run in np.flatnonzero(best != own):
            links[run, :, own[run]] -= weights[i[run]]
            links[run, :, best[run]] += weights[i[run]]
            labels[run, i[run]], changed[run] = best[run], True
    return labels, changed


def find_communities(weights: Array, seeds: int = SEEDS) -> Communities:
    """The partition of largest modularity of `seeds` runs of Louvain's method. Stability is the mean adjusted Rand
    index of all pairs of runs: 1 if all agree, about 0 if they agree as chance would."""
    from sklearn.metrics import adjusted_rand_score  # here: it takes a while, and most runs need none of it

    if not (np.isfinite(weights).all() and weights.sum() > 0):
        return Communities(np.zeros(len(weights), dtype=int), nan, nan)
    runs = partitions(weights, range(seeds))
    scores = [modularity(weights, labels) for labels in runs]
    best = int(np.argmax(scores))
    pairs = [float(adjusted_rand_score(a, b)) for a, b in combinations(runs, 2)]
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


@final
class CoordinateCommunities(TokenJacobians):
    """Communities of coordinates in the graph of weights |J_ij| + |J_ji|, J the Jacobians of the probe `jacobian` and
    the weights their mean over texts.

    By layer: "communities", how many Louvain's method finds (the best of 10 seeds); "modularity"; "stability", the mean
    adjusted Rand index of pairs of seeds; "correlation", Spearman's, between the position of a community (the mean
    eigenvector centrality of its coordinates) and its amplification |J 1_c| / |1_c|, J with the residual; "p", the
    share of 1,000 permutations that correlate as much. With fewer than 3 communities the last two are not numbers.
    Tensor "labels" [L, width].
    """

    def figures(self, passed: Pass) -> Figures:
        rows, labels = list[tuple[float, ...]](), list[Any]()
        for layer in self.linearised(passed):
            jacobians = [one.j for one in layer]
            weights = coupling_graph(jacobians)
            found: Communities = find_communities(weights)
            related = spearman(positions(weights, found.labels), amplifications(jacobians, found.labels))
            rows.append((found.labels.max() + 1.0, found.modularity, found.stability, *related))
            labels.append(torch.from_numpy(found.labels))
        if not rows:
            return {}
        names = ("communities", "modularity", "stability", "correlation", "p")
        series = {name: tuple(map(float, one)) for name, one in zip(names, zip(*rows, strict=True), strict=True)}
        return series | {"labels": torch.stack(labels).to(torch.int32)}
