"""Tokens as particles: their directions in a plane that is the same at every depth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ...probes.clusters import cluster_labels, token_cosines
from .result import TokenPaths

SEED = 16


def token_paths(states: Sequence[Tensor], texts: Sequence[tuple[str, Sequence[str]]]) -> Iterator[TokenPaths]:
    """The paths of each text's tokens, from states [L + 1, tokens, width] of each.

    The plane is that of the two leading principal components of x / |x| over all states, tokens and texts: directions
    are what the next norm sees and what clusters are made of, and no long vector hides the others.
    """
    plane, mean = principal_plane([directions(one) for one in states])
    for one, (name, tokens) in zip(states, texts, strict=True):
        flat = (directions(one) - mean) @ plane
        labels = [cluster_labels(token_cosines(x)).tolist() for x in one]
        norms = torch.linalg.vector_norm(one.double(), dim=-1)
        yield TokenPaths(
            name, named(tokens, one.shape[1]), places(flat[..., 0], 3), places(flat[..., 1], 3),
            tuple(map(tuple, labels)), tuple(tuple(float(f"{x:.3g}") for x in row) for row in norms.tolist()),
        )  # fmt: skip


def directions(x: Tensor) -> Tensor:
    """x / |x|, scaled first so that large states stay finite; a state of zero stays zero."""
    wide = x.double()
    wide = wide / wide.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(wide.dtype).tiny)
    return torch.nn.functional.normalize(wide, dim=-1)


def principal_plane(states: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """The two leading principal components [width, 2] of points [.., width], and their mean; each points to where its
    largest coordinate is positive."""
    points = torch.cat([one.flatten(0, -2) for one in states])
    mean = points.mean(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        _, _, v = torch.svd_lowrank(points - mean, q=min(8, *points.shape), niter=6)
    plane = torch.nn.functional.pad(v[:, :2], (0, max(0, 2 - v.shape[1])))
    largest = plane.abs().argmax(0)
    return plane * plane[largest, range(2)].sign().where(plane[largest, range(2)] != 0, 1), mean


def places(values: Tensor, digits: int) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(round(x, digits) for x in row) for row in values.tolist())


def named(tokens: Sequence[str], count: int) -> tuple[str, ...]:
    """Names of so many tokens, numbers if they are not text."""
    return tuple(tokens[:count]) if len(tokens) >= count else tuple(str(i + 1) for i in range(count))
