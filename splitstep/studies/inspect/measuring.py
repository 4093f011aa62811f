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
from .own_probes import Guarded, Judge, KeptStates, SavedStates, Sizes, skipped_layers, token_paths
from .result import Along, Matrix, Missing, ModelFindings, Outlier, Series, Skipped, Spectrum
from .sources import Text

DEFAULT = (
    "trajectory", "drift", "clustering", "rank", "cka_layers", "attention", "rollout", "lens", "commutator", "jacobian",
    "products", "leading", "communities",
)  # fmt: skip
PATHS = 4  # texts whose tokens the page shows as particles
SKIPPED = 4  # texts on which layers are left out
FEWER = {"lens": 4}  # texts that a probe looks at if a text takes it long
EIGENVALUES = 256  # of a layer that are kept for the page
LISTED = {("products", "exponents")}  # series that do not run along the depth
SHIFT = {"state": 0.0, "layer": 0.5, "pair": 1.0}  # layers from a number to the place that it stands for


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
    sums: dict[str, tuple[Tensor, int]] = field(default_factory=dict)  # over texts, and of how many
    missing: dict[str, str] = field(default_factory=dict)
    eigenvalues: Tensor | None = None
    rollout: tuple[Tensor, tuple[str, ...]] | None = None
    states: list[Tensor] = field(default_factory=list)
    skips: list[dict[int, float]] = field(default_factory=list)

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
                total, number = self.sums.get(name, (torch.zeros(()), 0))
                self.sums[name] = total + values.double().cpu(), number + 1
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
        total, number = self.sums.get(name, (None, 0))
        return None if total is None else total / number

    def is_chosen(self, along: Along, number: int) -> bool:
        """A state is kept if the layer before or after it is; a pair if its first layer is."""
        return along == "number" or number in self.chosen or (along == "state" and number - 1 in self.chosen)

    def series(self) -> Iterator[Series]:
        """The series of all probes at the chosen layers, each with the share of the depth where it stands."""
        kinds: dict[int, Along] = {self.layers + 1: "state", self.layers: "layer", self.layers - 1: "pair"}
        for (probe, name), rows in self.rows.items():
            n = len(rows[0])
            along = "number" if (probe, name) in LISTED else kinds.get(n, "number")
            kept = tuple(i for i in range(n) if self.is_chosen(along, i))
            if kept and probe != "saved states" and all(len(row) == n for row in rows):
                t = tuple((i + SHIFT[along]) / self.layers if along in SHIFT else float(i) for i in kept)
                figures = tuple(tuple(rounded(row[i]) for i in kept) for row in rows)
                yield Series(probe, name, along, kept, t, figures)

    def matrices(self) -> Iterator[Matrix]:
        mean = self.mean("cka_layers")
        if mean is not None:
            kept = [i for i in range(len(mean)) if self.is_chosen("state", i)]
            yield Matrix("cka_layers", "matrix", tuple(map(str, kept)), rounded_rows(mean[kept][:, kept]))
        if self.rollout is not None:
            weights, tokens = self.rollout
            n = min(len(tokens), len(weights))
            yield Matrix("rollout", "weights", tokens[:n], rounded_rows(weights[:n, :n]))

    def spectra(self) -> Iterator[Spectrum]:
        """The eigenvalues of each layer; of a wide model, evenly chosen ones in the order of their size."""
        if self.eigenvalues is None:
            return
        for layer in self.chosen:
            values = self.eigenvalues[layer]
            order = torch.linalg.vector_norm(values, dim=-1).argsort(descending=True)
            places = torch.linspace(0, len(order) - 1, min(len(order), EIGENVALUES)).round().long()
            yield Spectrum(layer, *rounded_rows(values[order[places]].T, 3))

    def outliers(self) -> Iterator[Outlier]:
        mean = self.mean("sizes")
        for state, shares in enumerate(() if mean is None else mean):
            if self.is_chosen("state", state):
                yield Outlier(state, int(shares.argmax()), rounded(float(shares.max())))

    def skipped(self) -> Iterator[Skipped]:
        for layer in self.chosen:
            changes = tuple(rounded(one[layer]) for one in self.skips if layer in one)
            if changes:
                yield Skipped(layer, changes)


def sinks(weights: Tensor) -> tuple[float, ...]:
    """The mean weight on the first key by layer, over heads and all queries but the first; weights [L, 1, heads, T,
    T]."""
    if weights.shape[-2] < 2:
        return (float("nan"),) * len(weights)
    return tuple(weights[:, 0, :, 1:, 0].double().mean((-2, -1)).tolist())


def rounded(value: float, digits: int = 6) -> float:
    return float(f"{value:.{digits}g}")


def rounded_rows(matrix: Tensor, digits: int = 4) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(rounded(value, digits) for value in row) for row in matrix.tolist())


def measure_model(
    flow: Flow, name: str, texts: Sequence[Text], plan: Plan, random: bool, tick: Callable[[], None]
) -> ModelFindings:
    """What the probes find in a model."""
    stack = flow.stacks[flow.main]
    layers = len(stack.layers)
    tally = Tally(layers, tuple(range(layers)) if plan.layers is None else plan.layers)
    judge = Judge.of(flow, texts[0].inputs)
    for i, text in enumerate(texts):
        observe_text(flow, text, i, plan, tally)
        tried = tally.chosen if plan.skips and i < SKIPPED else ()
        tally.skips.append(skipped_layers(flow, text.inputs, judge, tried))
        tick()
    return ModelFindings(
        model=name, scheme=str(stack.scheme), stack=flow.main, layers=layers, width=tally.states[0].shape[-1],
        parameters=sum(one.numel() for one in flow.model.parameters()), random=random, notes=flow.notes,
        losses=tuple(one[-1] for one in tally.skips if -1 in one), series=tuple(tally.series()),
        matrices=tuple(tally.matrices()), spectra=tuple(tally.spectra()),
        paths=tuple(token_paths(tally.states, [text[1:] for text in texts[:PATHS]])), outliers=tuple(tally.outliers()),
        skipped=tuple(tally.skipped()), missing=tuple(Missing(*one) for one in tally.missing.items()),
    )  # fmt: skip


def observe_text(flow: Flow, text: Text, i: int, plan: Plan, tally: Tally) -> None:
    """One pass of one text, and its figures."""
    guarded = {name: Guarded(probe) for name, probe in probes_for(flow, text, i, plan, tally).items()}
    observable: Any = flow  # a protocol with a Mapping, which a dict does not match
    for name, by_stack in watch_flow(observable, text.inputs, guarded).items():
        if guarded[name].why:
            tally.missing[name] = guarded[name].why
        tally.add(text, name, by_stack[flow.main])


def probes_for(flow: Flow, text: Text, i: int, plan: Plan, tally: Tally) -> Mapping[str, Probe]:
    """The probes for text i: those with derivatives look at the first texts only, and none that failed is tried
    again."""
    found = dict[str, Probe]()
    for name in plan.probes:
        probe = PROBES.find(name)()
        late = i >= (plan.differentiated if isinstance(probe, LayerBlocks) else FEWER.get(name, i + 1))
        if name not in tally.missing and not late:
            found[name] = probe
    found["sizes"] = Sizes()
    if i < PATHS:
        found["paths"] = KeptStates()
    if plan.states is not None:
        file, substeps = plan.states / f"text-{i + 1:04d}.safetensors", flow.stacks[flow.main].substeps
        found["saved states"] = SavedStates(file, flow.scheme, substeps, tally.chosen, text.tokens)
    return found
