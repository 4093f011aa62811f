"""What an inspection measures beside the registered probes: sizes, states, their paths, and layers left out."""

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, final

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


def rounded(value: float, digits: int = 6) -> float:
    """The number with so many significant digits."""
    return float(f"{value:.{digits}g}")


def rounded_rows(matrix: Tensor, digits: int = 4) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(rounded(value, digits) for value in row) for row in matrix.tolist())


@final
class Sizes(LayerStates):
    """How far layers move tokens, and whether single coordinates hold much of the norm.

    "relative": the mean over tokens of |x_l - x_{l-1}| / |x_{l-1}|, l = 1 .. L; "outlier": the largest share of the
    squared norm that one coordinate holds, in the mean over tokens, at x_0 .. x_L; the tensor "shares" [2, L + 1,
    width]: the shares of all coordinates, with and without the first token.
    """

    def figures(self, passed: Pass) -> Figures:
        states = self.states(passed)
        relative = [mean_over(lengths(b - a) / lengths(a), passed.real) for a, b in pairwise(states)]
        texts = [(x if passed.real is None else x[passed.real]).reshape(-1, x.shape[-1]) for x in states]
        shares = torch.stack([torch.stack([mean_shares(x[first:]) for x in texts]) for first in range(2)])
        return {"relative": numbers(relative), "outlier": numbers(shares[0].amax(-1)), "shares": shares.cpu()}


def mean_shares(tokens: Tensor) -> Tensor:
    """x_j^2 / |x|^2 of each coordinate j, in the mean over tokens [n, width]."""
    wide = tokens.double()
    scaled = wide / wide.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
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
        sides: tuple[tuple[Literal["before", "after"], Tensor], ...]
        sides = ("before", event.before), ("after", event.x_after)
        for side, x in sides:
            name, layer, t = state_name(event, self.scheme, side, self.substeps)
            wanted = side == "before" or (name == "resid_post" and event.move.half < 0)
            if wanted and layer in self.layers and not event.site.branch:
                self.kept[f"{layer}.{name}"] = x[0].detach().float().cpu().contiguous().clone()
                self.t[f"{layer}.{name}"] = float(t)

    def figures(self, passed: Pass) -> Figures:
        from safetensors.torch import save_file

        self.file.parent.mkdir(parents=True, exist_ok=True)
        save_file(self.kept, self.file, {"t": json.dumps(self.t), "tokens": json.dumps(self.tokens)})
        return {"files": torch.ones(1)}


@final
class Guarded(Probe):
    """A probe that may fail without ending the pass: then `why` says so, and it has no figures."""

    def __init__(self, probe: Probe) -> None:
        self.probe, self.why = probe, ""

    def tried(self, call: Callable[[Any], Any], given: Any) -> Any:
        """What the probe returns, unless it fails or has failed before."""
        try:
            return None if self.why else call(given)
        except Exception as error:  # other people's models fail in any way
            self.why = f"{type(error).__name__}: {first_line(error)}"

    def __call__(self, event: Event) -> None:
        self.tried(self.probe, event)

    def figures(self, passed: Pass) -> Figures:
        found = self.tried(self.probe.figures, passed) or {}
        undefined = "not defined for blocks of this scheme" if "not defined" in found else ""
        self.why = self.why or undefined or ("" if found else "this model has nothing that it could measure")
        return {} if self.why else found


def token_paths(states: Sequence[Tensor], texts: Sequence[tuple[str, Sequence[str]]]) -> Iterator[TokenPaths]:
    """The paths of each text's tokens, from states [L + 1, tokens, width] of each.

    The plane is that of the two leading principal components of x / |x| over all states, tokens and texts: directions
    are what the next norm sees and what clusters are made of, and no long vector hides the others.
    """
    plane, mean = principal_plane([directions(one) for one in states])
    for one, (name, tokens) in zip(states, texts, strict=True):
        places = (directions(one) - mean) @ plane
        x, y = (tuple(tuple(round(v, 3) for v in row) for row in places[..., k].tolist()) for k in range(2))
        labels = tuple(tuple(cluster_labels(token_cosines(state)).tolist()) for state in one)
        norms = rounded_rows(torch.linalg.vector_norm(one.double(), dim=-1), 3)
        many = one.shape[1]  # tokens are called by numbers if they are not text
        names = tuple(tokens[:many]) if len(tokens) >= many else tuple(str(i + 1) for i in range(many))
        yield TokenPaths(name, names, x, y, labels, norms)


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
