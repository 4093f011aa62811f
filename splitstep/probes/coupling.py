"""Communities of the residual stream's coordinates, layer by layer."""

from __future__ import annotations

from typing import Any, final

import torch

from .communities import Communities, amplifications, coupling_graph, find_communities, positions, spearman
from .jacobian import TokenJacobians
from .probe import Figures, Pass


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
