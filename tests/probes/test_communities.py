"""Communities and clusters against planted ones, networkx, SciPy and brute force."""

import networkx
import numpy as np
import pytest
import torch
from scipy.sparse.csgraph import connected_components
from scipy.stats import spearmanr
from sklearn.metrics import adjusted_rand_score

from splitstep.probes import communities
from splitstep.probes.clusters import cluster_labels, mean_pairwise, token_cosines
from splitstep.probes.communities import (
    adjusted_rand,
    amplifications,
    communities_of,
    coupling_graph,
    eigenvector_centrality,
    find_communities,
    modularity,
    partitions,
    positions,
    spearman,
)

SIZES = (8, 12, 20)
PLANTED = np.repeat(np.arange(3), SIZES)


def planted(inside: float = 1.0, seed: int = 0) -> torch.Tensor:
    """A Jacobian whose blocks couple strongly and whose rest is weak noise."""
    noise = np.abs(np.random.default_rng(seed).standard_normal((40, 40)))
    return torch.from_numpy(noise * (0.05 + inside * (PLANTED[:, None] == PLANTED)))


def random_graph(seed: int) -> np.ndarray:
    return coupling_graph([torch.randn(30, 30, generator=torch.Generator().manual_seed(seed))])


def test_the_graph_is_the_mean_of_absolute_values_both_ways() -> None:
    a, b = torch.randn(4, 4), torch.randn(4, 4)
    graph = coupling_graph([a, b])
    for i in range(4):
        for j in range(4):
            wanted = 0.0 if i == j else float(abs(a[i, j]) + abs(a[j, i]) + abs(b[i, j]) + abs(b[j, i])) / 2
            assert graph[i, j] == pytest.approx(wanted, rel=1e-6)


def test_a_planted_partition_is_found_by_every_seed() -> None:
    [found] = find_communities([coupling_graph([planted(), planted(seed=1)])])
    assert adjusted_rand_score(PLANTED, found.labels) == 1.0
    assert found.stability == pytest.approx(1.0)


def test_a_graph_without_communities_is_unstable() -> None:
    [found] = find_communities([random_graph(0)])
    assert found.stability < 0.5


@pytest.mark.parametrize("seed", range(4))
def test_louvain_is_as_good_as_that_of_networkx(seed: int) -> None:
    """Modularity of both by networkx; the partitions of a graph without planted ones differ by seed."""
    weights = random_graph(seed)
    graph = networkx.from_numpy_array(weights)

    def score(labels: np.ndarray) -> float:
        return networkx.community.modularity(graph, [set(np.flatnonzero(labels == c)) for c in np.unique(labels)])

    [ours] = partitions(weights[None], range(10))
    assert modularity(weights, ours[0]) == pytest.approx(score(ours[0]))
    theirs = [networkx.community.louvain_communities(graph, seed=one) for one in range(10)]
    best = max(networkx.community.modularity(graph, one) for one in theirs)
    assert max(map(score, ours)) > best - 0.005


def joined_one_by_one(weights: np.ndarray, seed: int) -> np.ndarray:
    """The same method without anything kept from node to node: each looks at all communities anew."""
    n, labels, generator = len(weights), np.arange(len(weights)), np.random.default_rng(seed)
    result = np.arange(n)
    while True:
        for _ in range(10):
            before, spare = labels.copy(), labels.max() + 1
            for i in generator.permutation(n):
                own, labels[i] = labels[i], -1
                gains = [
                    weights[i, (labels == c) & (np.arange(n) != i)].sum()
                    - weights[i].sum() / weights.sum() * weights[labels == c].sum()
                    for c in range(spare + 1)
                ]
                best = int(np.argmax(gains))
                labels[i] = own if gains[best] <= gains[own] + 1e-12 * weights.sum() else best
            same = (labels == before).all()
            labels = np.unique(labels, return_inverse=True)[1]
            if same:
                break
        if labels.max() + 1 == n:
            return result
        result, belongs = labels[result], np.eye(labels.max() + 1)[labels]
        weights = belongs.T @ weights @ belongs
        n, labels = len(weights), np.arange(len(weights))


@pytest.mark.parametrize("n", [12, 100])
def test_all_graphs_and_seeds_side_by_side_have_the_labels_of_one_after_the_other(n: int) -> None:
    """Of the larger graph the sums of communities are kept in later rounds."""
    generators = [torch.Generator().manual_seed(seed) for seed in range(3)]
    graphs = np.stack([coupling_graph([torch.randn(n, n, generator=one)]) for one in generators])
    found = partitions(graphs, range(2))
    for weights, runs in zip(graphs, found, strict=True):
        for seed, labels in enumerate(runs):
            assert labels.tolist() == joined_one_by_one(weights, seed).tolist()


def test_layers_that_are_looked_at_a_few_at_a_time_have_the_same_communities(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = [[planted(seed=seed)] for seed in range(5)]
    layers[3] = [torch.full((40, 40), torch.nan)]
    whole = [found for _, _, found in communities_of(layers)]
    monkeypatch.setattr(communities, "WEIGHTS", 2 * 40 * 40)
    parts = [found for _, _, found in communities_of(layers)]
    assert [one.labels.tolist() for one in parts] == [one.labels.tolist() for one in whole]
    assert [np.isnan(one.stability) for one in parts] == [False, False, False, True, False]
    assert list(communities_of([])) == []


@pytest.mark.parametrize("seed", range(4))
def test_agreement_of_partitions_is_the_adjusted_rand_index(seed: int) -> None:
    generator = np.random.default_rng(seed)
    a, b = (np.unique(generator.integers(0, k, 30), return_inverse=True)[1] for k in (4, 6))
    assert adjusted_rand(a, b) == pytest.approx(adjusted_rand_score(a, b))
    assert adjusted_rand(a, a) == adjusted_rand(0 * a, 0 * b) == adjusted_rand(np.arange(30), np.arange(30)) == 1.0


def test_centrality_is_the_leading_eigenvector_where_powers_do_not_settle() -> None:
    """Two sides that only see each other have -s beside s; two halves that hardly see each other have two that are
    almost the same."""
    side = np.abs(np.random.default_rng(0).standard_normal((6, 6)))
    nothing = np.zeros((6, 6))
    both = np.block([[nothing, side], [side.T, nothing]])
    weak = np.block([[side + side.T, nothing], [nothing, 0.99 * (side + side.T)]]) + 1e-3
    for weights in (both, weak):
        wanted = np.abs(np.linalg.eigh(weights)[1][:, -1])
        assert eigenvector_centrality(weights) == pytest.approx(wanted, abs=1e-12)


def test_centrality_is_that_of_networkx() -> None:
    weights = random_graph(1)
    wanted = networkx.eigenvector_centrality_numpy(networkx.from_numpy_array(weights), weight="weight")
    assert eigenvector_centrality(weights) == pytest.approx(np.array([wanted[i] for i in range(30)]))
    means = [np.mean([wanted[i] for i in range(30) if i % 3 == c]) for c in range(3)]
    assert positions(weights, np.arange(30) % 3) == pytest.approx(means)


def test_a_community_that_is_scaled_is_amplified_by_this_factor() -> None:
    factors = torch.tensor([0.5, 2.0, 3.0], dtype=torch.float64)
    j = torch.diag(factors[torch.from_numpy(PLANTED)])
    assert amplifications([j, 2 * j], PLANTED) == pytest.approx(1.5 * factors.numpy())


def test_rank_correlation_is_that_of_scipy_and_permutations_give_its_p() -> None:
    generator = np.random.default_rng(0)
    x = generator.integers(0, 6, 12).astype(float)
    y = x + generator.standard_normal(12)
    wanted, found = spearmanr(x, y), spearman(x, y, permutations=4000)
    assert found.correlation == pytest.approx(wanted.statistic)
    assert found.p == pytest.approx(wanted.pvalue, abs=0.01)
    assert spearman(np.arange(3.0), np.arange(3.0)).p == pytest.approx(1 / 3, abs=0.05)  # 2 of 6 orders
    assert np.isnan(spearman(np.arange(2.0), np.arange(2.0)).correlation)


@pytest.mark.parametrize("seed", range(5))
def test_clusters_are_the_components_of_near_tokens(seed: int) -> None:
    """A chain on the circle whose neighbours are near, in random order, and other tokens."""
    generator = torch.Generator().manual_seed(seed)
    angles = torch.cat((torch.arange(10) * 0.4, torch.rand(5, generator=generator) * 6))
    angles = angles[torch.randperm(15, generator=generator)].double()
    x = torch.stack((angles.cos(), angles.sin()), -1) * torch.rand(15, 1, generator=generator) * 5
    labels = cluster_labels(token_cosines(x)).numpy()
    cosines = np.array([[float(u @ v / (u.norm() * v.norm())) for v in x] for u in x])
    count, wanted = connected_components(cosines > 0.9)
    assert labels.max() + 1 == count
    assert adjusted_rand_score(labels, wanted) == 1.0
    pairs = [cosines[i, j] for i in range(15) for j in range(15) if i != j]
    assert float(mean_pairwise(token_cosines(x))) == pytest.approx(np.mean(pairs))


def test_large_tokens_have_finite_cosines() -> None:
    x = torch.tensor([[1e30, 1e30], [1e30, 0.0], [0.0, 0.0]])
    assert float(token_cosines(x)[0, 1]) == pytest.approx(0.5**0.5)
    assert cluster_labels(token_cosines(x)).tolist() == [0, 1, 2]
