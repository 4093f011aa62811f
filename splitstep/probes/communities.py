"""Communities of residual coordinates: the graph that a Jacobian spans, and what the Jacobian does to its communities.

Nodes are the coordinates of the stream, and the weight of an edge is |J_ij| + |J_ji|, without loops. Louvain's method
is written out for dense graphs, all seeds of several layers side by side: that of networkx walks over dictionaries, and
10 seeds for every layer of a network would take longer than everything else together. The tests hold one against the
other.
"""

from collections.abc import Callable, Iterator, Sequence
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
WEIGHTS = 2**22  # of graphs that are looked at side by side
POWERS = 50  # of a matrix, for its leading eigenvector
FEW = 8  # nodes for each community, from which on the sums of all communities are kept


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
    belongs, whole = one_hot(labels), weights.sum()
    inside = belongs.T @ weights @ belongs
    return float(inside.trace() / whole - ((inside.sum(1) / whole) ** 2).sum())


def one_hot(labels: Array, count: int | None = None) -> Array:
    """[n, communities]: 1 where a node belongs."""
    return np.eye(int(labels.max()) + 1 if count is None else count)[labels]


def partitions(graphs: Array, seeds: Sequence[int]) -> list[list[Array]]:
    """Partitions of large modularity as labels 0, 1, ... [n] (Blondel et al., 2008), for each graph [graphs, n, n] one
    for each seed.

    Each node in turn joins the community that adds most to the modularity, until none moves; then communities become
    nodes, and so on until nothing changes. A seed draws the order of the nodes. The first phase, which takes nearly all
    of the time, runs for all graphs and seeds at once.
    """
    of = np.repeat(np.arange(len(graphs)), len(seeds))
    generators = [np.random.default_rng(seed) for _ in graphs for seed in seeds]
    firsts = joined_neighbours(graphs, of, generators)
    found = [merged(graphs[g], *one) for g, one in zip(of, zip(firsts, generators, strict=True), strict=True)]
    return [found[i : i + len(seeds)] for i in range(0, len(found), len(seeds))]


def merged(weights: Array, joined: Array, generator: np.random.Generator) -> Array:
    """Labels after communities have become nodes, until nothing changes."""
    labels = np.arange(len(weights))
    while joined.max() + 1 < len(weights):
        labels = joined[labels]
        weights = one_hot(joined).T @ weights @ one_hot(joined)
        [joined] = joined_neighbours(weights[None], np.zeros(1, dtype=int), [generator])
    return labels


class Degrees(NamedTuple):
    """The degrees of some graphs' nodes [graphs, n], their shares of the whole weight, their loops; and that weight."""

    degree: Array
    share: Array
    loops: Array
    whole: Array


def degrees_of(graphs: Array) -> Degrees:
    degree, whole = graphs.sum(2), graphs.sum((1, 2))
    return Degrees(degree, degree / whole[:, None], graphs.diagonal(axis1=1, axis2=2), whole)


def joined_neighbours(graphs: Array, of: Array, generators: Sequence[np.random.Generator]) -> list[Array]:
    """Labels after the first phase of Louvain's method, for each generator; `of` says on which graph it runs.

    As soon as there are few communities, the weight between each of them and each node is kept: links [runs, count, n].
    """
    n, links, degrees = graphs.shape[-1], None, degrees_of(graphs)
    labels = np.tile(np.arange(n), (len(generators), 1))
    moving = np.arange(len(generators))  # the runs that still change
    for _ in range(ROUNDS):
        orders, new = np.stack([generators[int(run)].permutation(n) for run in moving]), labels[moving]
        count = int(new.max()) + 2  # one label is of no node, so a node can also be alone
        if links is None and count * FEW <= n:
            links = np.stack([one_hot(own, count).T @ graphs[g] for g, own in zip(of[moving], new, strict=True)])
        changed = one_round(graphs, degrees, of[moving], new, count, orders, links)
        kept, labels[moving] = zip(*(np.unique(one, return_inverse=True) for one in new), strict=True)
        moving = moving[changed]
        if not len(moving):
            break
        if links is not None:
            links = padded([links[run][kept[run]] for run in np.flatnonzero(changed)])
    return list(labels)


def padded(links: Sequence[Array]) -> Array:
    """Links of several runs, each with a community of no node at least, [runs, count, n]."""
    out = np.zeros((len(links), max(map(len, links)) + 1, links[0].shape[1]))
    for one, own in zip(out, links, strict=True):
        one[: len(own)] = own
    return out


def one_round(
    graphs: Array, degrees: Degrees, of: Array, labels: Array, count: int, orders: Array, links: Array | None
) -> Array:
    """Each node in turn joins its best community: changes labels [runs, n] and links, and says which runs changed."""
    runs, row, changed = len(labels), np.arange(len(labels)), np.zeros(len(labels), dtype=bool)
    flat, least = labels + row[:, None] * count, 1e-12 * degrees.whole[of]  # the communities of all runs in a row
    total = np.bincount(flat.ravel(), degrees.degree[of].ravel(), runs * count).reshape(runs, count)
    for i in orders.T:
        own, d = labels[row, i], degrees.degree[of, i]
        if links is None:
            near = np.bincount(flat.ravel(), graphs[of, i].ravel(), runs * count).reshape(runs, count)
        else:
            near = links[row, :, i]
        near[row, own] -= degrees.loops[of, i]
        total[row, own] -= d
        gains = near - degrees.share[of, i][:, None] * total
        best = gains.argmax(1)
        best = np.where(gains[row, best] <= gains[row, own] + least, own, best)
        total[row, best] += d
        if len(moved := np.flatnonzero(best != own)):
            to, at = best[moved], i[moved]
            labels[moved, at], flat[moved, at], changed[moved] = to, to + moved * count, True
            if links is not None:
                weights = graphs[of[moved], at]
                links[moved, own[moved]] -= weights
                links[moved, to] += weights
    return changed


def find_communities(graphs: Sequence[Array], seeds: int = SEEDS) -> list[Communities]:
    """For each graph the partition of largest modularity of `seeds` runs of Louvain's method. Stability is the mean
    adjusted Rand index of all pairs of runs: 1 if all agree, about 0 if they agree as chance would."""
    known = [weights for weights in graphs if is_usable(weights)]
    runs = iter(partitions(np.stack(known), range(seeds)) if known else ())
    nothing = Communities(np.zeros(len(graphs[0]), dtype=int), nan, nan)
    return [best_of(weights, next(runs)) if is_usable(weights) else nothing for weights in graphs]


def is_usable(weights: Array) -> bool:
    """Whether a graph has edges, all of them of finite weight."""
    return bool(np.isfinite(weights).all() and weights.sum() > 0)


def best_of(weights: Array, runs: Sequence[Array]) -> Communities:
    """The partition of largest modularity."""
    scores = [modularity(weights, labels) for labels in runs]
    best = int(np.argmax(scores))
    pairs = [adjusted_rand(a, b) for a, b in combinations(runs, 2)]
    return Communities(runs[best], scores[best], float(np.mean(pairs)) if pairs else nan)


def adjusted_rand(a: Array, b: Array) -> float:
    """The adjusted Rand index of two partitions, given as labels 0, 1, ... [n]."""
    both, one, other, every = (
        float((sizes * (sizes - 1)).sum())
        for sizes in (np.bincount(a * (b.max() + 1) + b), np.bincount(a), np.bincount(b), np.array([len(a)]))
    )
    chance, most = one * other / every, (one + other) / 2
    return 1.0 if most == chance else (both - chance) / (most - chance)


def eigenvector_centrality(weights: Array) -> Array:
    """The leading eigenvector of the weights [n], positive and of length 1: by powers of the matrix, which take a tenth
    of the time, if they settle."""
    if not np.isfinite(weights).all():
        return np.full(len(weights), nan)
    v = np.full(len(weights), len(weights) ** -0.5)
    for _ in range(POWERS):
        before, v = v, weights @ v
        v = v / np.linalg.norm(v)
        if np.abs(v - before).max() <= 1e-14:
            return v
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
    drawn = np.random.default_rng(seed).permuted(np.tile(b, (permutations, 1)), axis=1) @ a / scale
    found = float(a @ b) / scale
    return Association(found, float(1 + (np.abs(drawn) >= abs(found) - 1e-12).sum()) / (1 + permutations))


def communities_of(layers: Sequence[Sequence[Tensor]]) -> Iterator[tuple[Sequence[Tensor], Array, Communities]]:
    """The Jacobians of each layer with their graph and its communities, some layers at a time."""
    most = max(1, WEIGHTS // layers[0][0].numel()) if layers else 1
    for i in range(0, len(layers), most):
        graphs = [coupling_graph(one) for one in layers[i : i + most]]
        yield from zip(layers[i : i + most], graphs, find_communities(graphs), strict=True)


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
        for jacobians, weights, found in communities_of(
            [[one.j for one in layer] for layer in self.linearised(passed)]
        ):
            related = spearman(positions(weights, found.labels), amplifications(jacobians, found.labels))
            rows.append((found.labels.max() + 1.0, found.modularity, found.stability, *related))
            labels.append(torch.from_numpy(found.labels))
        if not rows:
            return {}
        names = ("communities", "modularity", "stability", "correlation", "p")
        series = {name: tuple(map(float, one)) for name, one in zip(names, zip(*rows, strict=True), strict=True)}
        return series | {"labels": torch.stack(labels).to(torch.int32)}
