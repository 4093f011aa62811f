"""One model, text by text: nothing of a text is kept but its figures, and of the first few what the page draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...flows import Flow
from ...probes import PROBES, Figures, Probe
from ...probes.layer_maps import LayerBlocks
from ...probes.watching import watch_flow
from .own_probes import Guarded, KeptStates, SavedStates, Sizes, token_paths
from .result import Along, Looked, Matrix, Missing, Outlier, Series, Skipped, Spectrum
from .skipping import Judge, skipped_layers

DEFAULT = (
    "trajectory", "drift", "clustering", "rank", "cka_layers", "attention", "rollout", "lens", "commutator", "jacobian",
    "products", "leading", "communities",
)  # fmt: skip
PATHS = 4  # texts whose tokens the page shows as particles
SKIPPED = 4  # texts on which layers are left out
FEWER = {"lens": 4}  # texts that a probe looks at if a text takes it long
EIGENVALUES = 256  # of a layer that are kept for the page
LISTED = {("products", "exponents")}  # series that do not run along the depth


class Text(NamedTuple):
    """One text or example: its inputs (and labels), its name and its tokens."""

    inputs: dict[str, Any]
    name: str
    tokens: tuple[str, ...]


class Plan(NamedTuple):
    """What is measured: probes, on how many texts those with derivatives, which layers, where states are saved."""

    probes: tuple[str, ...] = DEFAULT
    differentiated: int = 2
    layers: tuple[int, ...] | None = None  # None: all
    states: Path | None = None
    skips: bool = True


@dataclass
class Tally:
    """What has been found so far."""

    layers: int
    chosen: tuple[int, ...]
    rows: dict[tuple[str, str], list[tuple[float, ...]]] = field(default_factory=dict)
    sums: dict[str, Tensor] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    eigenvalues: Tensor | None = None
    rollout: tuple[Tensor, tuple[str, ...]] | None = None
    states: list[Tensor] = field(default_factory=list)

    def add(self, text: Text, name: str, found: Figures) -> None:
        for key, values in found.items():
            if isinstance(values, Tensor):
                self.add_tensor(text, name, key, values)
            elif not key.endswith(" spread"):
                self.rows.setdefault((name, key), []).append(values)

    def add_tensor(self, text: Text, name: str, key: str, values: Tensor) -> None:
        """What is kept of tensors: sums over texts, or those of the first text."""
        match name, key:
            case ("sizes", "shares") | ("cka_layers", "matrix"):
                self.sums[name] = self.sums.get(name, torch.zeros(())) + values.double().cpu()
                self.counts[name] = self.counts.get(name, 0) + 1
            case "attention", "A weights":
                self.rows.setdefault((name, "first token"), []).append(sinks(values))
            case "jacobian", "J eigenvalues" if self.eigenvalues is None:
                self.eigenvalues = values[:, 0].cpu()
            case "rollout", "weights" if self.rollout is None:
                self.rollout = values[0].float().cpu(), text.tokens
            case "paths", "states":
                self.states.append(values)
            case _:
                pass

    def mean(self, name: str) -> Tensor | None:
        return self.sums[name] / self.counts[name] if name in self.sums else None


def sinks(weights: Tensor) -> tuple[float, ...]:
    """The mean weight on the first key by layer, over heads and all queries but the first; weights [L, 1, heads, T,
    T]."""
    if weights.shape[-2] < 2:
        return (float("nan"),) * len(weights)
    return tuple(weights[:, 0, :, 1:, 0].double().mean((-2, -1)).tolist())


def look(flow: Flow, name: str, texts: Iterator[Text], plan: Plan, random: bool, tick: Callable[[], None]) -> Looked:
    """What the probes find in a model."""
    stack = flow.stacks[flow.main]
    layers = len(stack.layers)
    chosen = tuple(range(layers)) if plan.layers is None else plan.layers
    tally, seen, skips = Tally(layers, chosen), list[Text](), list[dict[int, float]]()
    judge: Judge | None = None
    for i, text in enumerate(texts):
        judge = Judge.of(flow, text.inputs) if judge is None else judge
        observe_text(flow, text, i, plan, tally)
        if i < PATHS:
            seen.append(text._replace(inputs={}))
        wanted = chosen if plan.skips and i < SKIPPED else ()
        skips.append(skipped_layers(flow, text.inputs, judge, wanted))
        tick()
    width = tally.states[0].shape[-1]
    return Looked(
        model=name, scheme=str(stack.scheme), stack=flow.main, layers=layers, width=width,
        parameters=sum(one.numel() for one in flow.model.parameters()), random=random, notes=flow.notes,
        losses=tuple(one[-1] for one in skips if -1 in one), series=tuple(series_of(tally)),
        matrices=tuple(matrices_of(tally)), spectra=tuple(spectra_of(tally)),
        paths=tuple(token_paths(tally.states, seen_names(seen))), outliers=tuple(outliers_of(tally)),
        skipped=tuple(skips_of(skips, chosen)), missing=tuple(Missing(*one) for one in tally.missing.items()),
    )  # fmt: skip


def seen_names(seen: Sequence[Text]) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.name, one.tokens) for one in seen]


def observe_text(flow: Flow, text: Text, i: int, plan: Plan, tally: Tally) -> None:
    """One pass of one text, and its figures."""
    every = {**registered(plan, i, tally), **own_probes(flow, text, i, plan, tally.chosen)}
    guarded = {name: Guarded(probe) for name, probe in every.items()}
    observable: Any = flow  # a protocol with a Mapping, which a dict does not match
    found = watch_flow(observable, text.inputs, guarded)
    for name, by_stack in found.items():
        if guarded[name].why:
            tally.missing[name] = guarded[name].why
        tally.add(text, name, by_stack[flow.main])


def registered(plan: Plan, i: int, tally: Tally) -> Mapping[str, Probe]:
    """The probes for text i: those with derivatives look at the first texts only, and none that failed is tried
    again."""
    found = dict[str, Probe]()
    for name in plan.probes:
        probe = PROBES.find(name)()
        late = i >= (plan.differentiated if isinstance(probe, LayerBlocks) else FEWER.get(name, i + 1))
        if name not in tally.missing and not late:
            found[name] = probe
    return found


def own_probes(flow: Flow, text: Text, i: int, plan: Plan, chosen: Sequence[int]) -> Mapping[str, Probe]:
    found: dict[str, Probe] = {"sizes": Sizes()}
    if i < PATHS:
        found["paths"] = KeptStates()
    if plan.states is not None:
        file = plan.states / f"text-{i + 1:04d}.safetensors"
        found["saved states"] = SavedStates(
            file, flow.scheme, flow.stacks[flow.main].substeps, chosen, text.tokens
        )  # fmt: skip
    return found


def series_of(tally: Tally) -> Iterator[Series]:
    """The series of all probes at the chosen layers."""
    for (probe, name), rows in tally.rows.items():
        if probe == "saved states":
            continue
        along, numbers = places(probe, name, len(rows[0]), tally)
        kept = [i for i, number in enumerate(numbers) if is_chosen(along, number, tally.chosen)]
        if kept and all(len(row) == len(numbers) for row in rows):
            at = tuple(numbers[i] for i in kept)
            t = tuple(depth(along, number, tally.layers) for number in at)
            yield Series(probe, name, along, at, t, tuple(tuple(rounded(row[i]) for i in kept) for row in rows))


def places(probe: str, name: str, count: int, tally: Tally) -> tuple[Along, tuple[int, ...]]:
    """What a series of so many figures runs along, and the numbers of its layers or states."""
    if (probe, name) not in LISTED:
        if count == tally.layers + 1:
            return "state", tuple(range(count))
        if count == tally.layers:
            return "layer", tuple(range(count))
        if count == tally.layers - 1:
            return "pair", tuple(range(count))
    return "number", tuple(range(count))


def is_chosen(along: Along, number: int, chosen: Sequence[int]) -> bool:
    """A state is kept if the layer before or after it is; a pair if its first layer is."""
    return along == "number" or number in chosen or (along == "state" and number - 1 in chosen)


def depth(along: Along, number: int, layers: int) -> float:
    """The share of the depth at a state, in the middle of a layer, or between two of them."""
    shift = {"state": 0.0, "layer": 0.5, "pair": 1.0, "number": 0.0}[along]
    return (number + shift) / layers if along != "number" else float(number)


def rounded(value: float) -> float:
    return float(f"{value:.6g}")


def rows_of(matrix: Tensor) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(f"{value:.4g}") for value in row) for row in matrix.tolist())


def matrices_of(tally: Tally) -> Iterator[Matrix]:
    mean = tally.mean("cka_layers")
    if mean is not None:
        kept = [i for i in range(len(mean)) if is_chosen("state", i, tally.chosen)]
        yield Matrix("cka_layers", "matrix", tuple(map(str, kept)), rows_of(mean[kept][:, kept]))
    if tally.rollout is not None:
        weights, tokens = tally.rollout
        n = min(len(tokens), len(weights))
        yield Matrix("rollout", "weights", tokens[:n], rows_of(weights[:n, :n]))


def spectra_of(tally: Tally) -> Iterator[Spectrum]:
    """The eigenvalues of each layer; of a wide model, evenly chosen ones in the order of their size."""
    if tally.eigenvalues is None:
        return
    for layer in tally.chosen:
        values = tally.eigenvalues[layer]
        order = torch.linalg.vector_norm(values, dim=-1).argsort(descending=True)
        places = torch.linspace(0, len(order) - 1, min(len(order), EIGENVALUES)).round().long()
        real, imaginary = (tuple(float(f"{x:.3g}") for x in one.tolist()) for one in values[order[places]].T)
        yield Spectrum(layer, real, imaginary)


def outliers_of(tally: Tally) -> Iterator[Outlier]:
    mean = tally.mean("sizes")
    if mean is not None:
        for state, shares in enumerate(mean):
            if is_chosen("state", state, tally.chosen):
                yield Outlier(state, int(shares.argmax()), rounded(float(shares.max())))


def skips_of(skips: Sequence[Mapping[int, float]], chosen: Sequence[int]) -> Iterator[Skipped]:
    for layer in chosen:
        changes = tuple(rounded(one[layer]) for one in skips if layer in one)
        if changes:
            yield Skipped(layer, changes)
