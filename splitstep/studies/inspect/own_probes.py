"""What an inspection measures beside the registered probes: sizes, outlier coordinates, the states, their paths."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import final

import torch
from torch import Tensor

from ...flows import state_name
from ...integrate import Event
from ...probes import Figures, Pass, Probe
from ...probes.clusters import cluster_labels, token_cosines
from ...probes.probe import LayerStates, lengths, mean_over, numbers
from ...scheme import Scheme
from ...support.words import first_line
from .result import TokenPaths

TOKENS = 128  # of a text whose paths are kept
SEED = 16  # of the plane of paths


@final
class Sizes(LayerStates):
    """How far layers move tokens, and whether single coordinates hold much of the norm.

    "relative": the mean over tokens of |x_l - x_{l-1}| / |x_{l-1}|, l = 1 .. L; "outlier": the largest share of the
    squared norm that one coordinate holds, in the mean over tokens, at x_0 .. x_L; the tensor "shares" [L + 1, width]:
    the shares of all coordinates.
    """

    def figures(self, passed: Pass) -> Figures:
        states = self.states(passed)
        relative = [mean_over(lengths(b - a) / lengths(a), passed.real) for a, b in pairwise(states)]
        shares = torch.stack([mean_shares(x, passed.real) for x in states])
        return {"relative": numbers(relative), "outlier": numbers(shares.amax(-1)), "shares": shares.cpu()}


def mean_shares(x: Tensor, real: Tensor | None) -> Tensor:
    """x_j^2 / |x|^2 of each coordinate j, in the mean over tokens [width]."""
    tokens = (x if real is None else x[real]).reshape(-1, x.shape[-1]).double()
    scaled = tokens / tokens.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
    squares = scaled.square()
    return (squares / squares.sum(-1, keepdim=True)).mean(0)


@final
class KeptStates(LayerStates):
    """The tensor "states" [L + 1, tokens, width] of the first text, without padding, at most 128 tokens."""

    def figures(self, passed: Pass) -> Figures:
        states = torch.stack([x[0] for x in self.states(passed)]).float().cpu()
        real = states if passed.real is None else states[:, passed.real[0].cpu()]
        return {"states": real[:, :TOKENS]}


@final
class SavedStates(Probe):
    """Writes the states of the chosen layers to a file: resid_pre, resid_mid and resid_post of each, with t and the
    tokens in its metadata. Only one pass is in memory at a time."""

    def __init__(self, file: Path, scheme: Scheme, substeps: int, layers: Sequence[int], tokens: Sequence[str]) -> None:
        self.file, self.scheme, self.substeps, self.tokens = file, scheme, substeps, list(tokens)
        self.layers, self.kept, self.t = set(layers), dict[str, Tensor](), dict[str, float]()

    def __call__(self, event: Event) -> None:
        before = state_name(event, self.scheme, "before", self.substeps)
        after = state_name(event, self.scheme, "after", self.substeps)
        if event.site.branch or before.layer not in self.layers:
            return
        self.keep(f"{before.layer}.{before.name}", float(before.t), event.before)
        if after.name == "resid_post" and event.move.half < 0:
            self.keep(f"{after.layer}.{after.name}", float(after.t), event.x_after)

    def keep(self, name: str, t: float, x: Tensor) -> None:
        self.kept[name], self.t[name] = x[0].detach().float().cpu().contiguous().clone(), t

    def figures(self, passed: Pass) -> Figures:
        from safetensors.torch import save_file

        self.file.parent.mkdir(parents=True, exist_ok=True)
        save_file(self.kept, self.file, {"t": json.dumps(self.t), "tokens": json.dumps(self.tokens)})
        return {"files": (1.0,)}


@final
class Guarded(Probe):
    """A probe that may fail without ending the pass: then `why` says so, and it has no figures."""

    def __init__(self, probe: Probe) -> None:
        self.probe, self.why = probe, ""

    def __call__(self, event: Event) -> None:
        if self.why:
            return
        try:
            self.probe(event)
        except Exception as error:  # other people's models fail in any way
            self.why = said(error)

    def figures(self, passed: Pass) -> Figures:
        if self.why:
            return {}
        try:
            found = self.probe.figures(passed)
        except Exception as error:
            self.why = said(error)
            return {}
        self.why = why_empty(found)
        return {} if self.why else found


def said(error: Exception) -> str:
    return f"{type(error).__name__}: {first_line(error)}"


def why_empty(found: Figures) -> str:
    if "not defined" in found:
        return "not defined for blocks of this scheme"
    return "" if found else "this model has nothing that it could measure"


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
