"""What an inspection measures beside the registered probes: sizes, states, their paths, and layers left out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, final

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ...flows import Flow, state_name
from ...flows.blocks import first_float
from ...flows.examples import as_inputs
from ...integrate import Event, integrate
from ...models import SplitstepModel
from ...probes import Figures, Pass, Probe
from ...probes.clusters import cluster_labels, token_cosines
from ...probes.probe import LayerStates, lengths, mean_over, numbers
from ...scheme import Scheme
from ...support.words import first_line
from .result import TokenPaths

TOKENS = 128  # of a text whose paths are kept
SEED = 16  # of the plane of paths
SAME = 1e-3  # of the largest logit: by how much later tokens may change what earlier ones predict


def rounded(value: float, digits: int = 6) -> float:
    """The number with so many significant digits."""
    return float(f"{value:.{digits}g}")


def rounded_rows(matrix: Tensor, digits: int = 4) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(rounded(value, digits) for value in row) for row in matrix.tolist())


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


class Judge(NamedTuple):
    """How a model's output is judged: by the loss it returns, by the next token, or only by how it changes."""

    by: Literal["labels", "next token", "output"]

    @staticmethod
    def of(flow: Flow, inputs: Mapping[str, Any]) -> Judge:
        """The loss of our own models needs labels; that of others is the next token's, if they predict it."""
        if isinstance(flow.model, SplitstepModel):
            return Judge("output" if inputs.get("labels") is None else "labels")
        return Judge("next token" if predicts_next(flow, inputs) else "output")

    def loss(self, output: Tensor, inputs: Mapping[str, Any]) -> float | None:
        """Nats for each prediction."""
        if self.by == "next token":
            ids = inputs["input_ids"][:, 1:].to(output.device)
            return float(cross_entropy(output[:, :-1].double().flatten(0, 1), ids.flatten()))
        return float(output) if self.by == "labels" and output.numel() == 1 else None

    @torch.no_grad()
    def skipped(self, flow: Flow, inputs: Mapping[str, Any], layers: Sequence[int]) -> dict[int, float]:
        """What changes if a layer is left out: the loss minus the model's own, or |y' - y| / |y| of the output.

        The entry -1 is the model's own loss, if it has one.
        """
        if not layers and self.by == "output":
            return {}
        given = {name: x for name, x in inputs.items() if name != "labels" or self.by == "labels"}
        stack, context, x = flow.stacks[flow.main], flow.context(given), flow.embed(given)
        steps, k, starts = stack.steps(), stack.substeps, list[Any]()
        for first in range(0, len(steps), k):
            starts.append(x)
            x = integrate(stack.scheme, steps[first : first + k], x, context)
        own = flow.head(x, context)
        loss = self.loss(own, inputs)
        found = {} if loss is None else {-1: loss}
        for layer in layers:
            rest = steps[(layer + 1) * k :]
            end = integrate(stack.scheme, rest, starts[layer], context) if rest else starts[layer]
            output = flow.head(end, context)
            after = self.loss(output, inputs)
            lost = None if loss is None or after is None else after - loss
            found[layer] = float((output - own).norm() / own.norm()) if lost is None else lost
        return found


@torch.no_grad()
def predicts_next(flow: Flow, inputs: Mapping[str, Any]) -> bool:
    """Whether the output are logits over the vocabulary that do not depend on later tokens."""
    ids = inputs.get("input_ids")
    if ids is None or ids.shape[1] < 2 or "decoder_input_ids" in inputs:
        return False
    config: Any = flow.model.config
    words = config.get_text_config().vocab_size
    other = ids.clone()
    other[:, -1] = (other[:, -1] + 1) % words
    mask = {"attention_mask": inputs["attention_mask"]} if "attention_mask" in inputs else {}
    both = (as_inputs(flow.model, {"input_ids": x, **mask}) for x in (ids, other))
    one, two = (first_float(flow.model(**inputs)) for inputs in both)
    if one is None or two is None or one.shape != (*ids.shape, words):
        return False
    return bool((one[:, :-1] - two[:, :-1]).abs().max() <= SAME * one.abs().max())
