"""Inspect a model: run texts through it with probes, text by text, and do the same with a null model or another one.

Nothing of a text is kept but its figures, and of the first few what the page draws.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...flows import Flow
from ...opening import Opened, load, open_model
from ...probes import PROBES, Figures, Probe
from ...probes.layer_maps import LayerBlocks
from ...probes.watching import watch_flow
from ...support.auto_classes import silent
from ...support.provenance import made_by_study
from ...training.progress import Counting
from .own_probes import Guarded, Judge, KeptStates, SavedStates, Sizes, rounded, rounded_rows, skipped, token_paths
from .result import Along, Inspection, Matrix, Missing, ModelFindings, Outlier, Series, Skipped, Spectrum
from .sources import Source, Text, TextChoice, source_of

RANDOM, NOTHING = "random", "none"
SEED = 16  # of the null model's weights
DEFAULT = (
    "trajectory", "drift", "clustering", "rank", "cka_layers", "attention", "rollout", "lens", "commutator", "jacobian",
    "products", "leading", "communities",
)  # fmt: skip
DIFFERENTIATED = 3  # texts for probes with derivatives: the fewest of which the verdict can be decided
PATHS = 4  # texts whose tokens the page shows as particles
SKIPPED = 4  # texts on which layers are left out
FEWER = {"lens": 4}  # texts that a probe looks at if a text takes it long
EIGENVALUES = 256  # of a layer that are kept for the page
LISTED = {("products", "exponents")}  # series that do not run along the depth
SHIFT = {"state": 0.0, "layer": 0.5, "pair": 1.0}  # layers from a number to the place that it stands for


class Plan(NamedTuple):
    """What is measured: probes, on how many texts those with derivatives; the layers that are listed, saved and left
    out; where states are saved."""

    probes: tuple[str, ...] = DEFAULT
    differentiated: int = DIFFERENTIATED
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
    first: dict[str, Tensor] = field(default_factory=dict)  # of the first text alone
    missing: dict[str, str] = field(default_factory=dict)
    states: list[Tensor] = field(default_factory=list)
    skips: list[dict[int, float]] = field(default_factory=list)

    def add(self, name: str, found: Figures) -> None:
        for key, values in found.items():
            if isinstance(values, Tensor):
                self.add_tensor(name, key, values)
            elif not key.endswith(" spread"):
                self.rows.setdefault((name, key), []).append(values)

    def add_tensor(self, name: str, key: str, values: Tensor) -> None:
        """What is kept of tensors: sums over texts, or those of the first text."""
        match name, key:
            case ("sizes", "shares") | ("cka_layers", "matrix"):
                total, number = self.sums.get(name, (torch.zeros(()), 0))
                self.sums[name] = total + values.double().cpu(), number + 1
            case ("jacobian", "J eigenvalues") | ("rollout", "weights"):
                self.first.setdefault(name, values.cpu())
            case "paths", "states":
                self.states.append(values)
            case _:
                pass

    def mean(self, name: str) -> Tensor | None:
        total, number = self.sums.get(name, (None, 0))
        return None if total is None else total / number

    def series(self) -> Iterator[Series]:
        """The series of all probes, each number with the share of the depth where it stands."""
        kinds: dict[int, Along] = {self.layers + 1: "state", self.layers: "layer", self.layers - 1: "pair"}
        for (probe, name), rows in self.rows.items():
            n = len(rows[0])
            along = "number" if (probe, name) in LISTED else kinds.get(n, "number")
            if n and all(len(row) == n for row in rows):
                t = tuple((i + SHIFT[along]) / self.layers if along in SHIFT else float(i) for i in range(n))
                figures = tuple(tuple(map(rounded, row)) for row in rows)
                yield Series(probe, name, along, tuple(range(n)), t, figures)

    def matrices(self, tokens: Sequence[str]) -> Iterator[Matrix]:
        """Those that charts show; `tokens` are those of the first text."""
        mean = self.mean("cka_layers")
        if mean is not None:
            yield Matrix("cka_layers", "matrix", tuple(map(str, range(len(mean)))), rounded_rows(mean))
        if "rollout" in self.first:
            weights = self.first["rollout"][0].float()
            n = min(len(tokens), len(weights))
            yield Matrix("rollout", "weights", tuple(tokens[:n]), rounded_rows(weights[:n, :n]))

    def spectra(self) -> Iterator[Spectrum]:
        """The eigenvalues of each layer; of a wide model, evenly chosen ones in the order of their size."""
        for layer in self.chosen if "jacobian" in self.first else ():
            values = self.first["jacobian"][layer, 0]
            order = torch.linalg.vector_norm(values, dim=-1).argsort(descending=True)
            places = torch.linspace(0, len(order) - 1, min(len(order), EIGENVALUES)).round().long()
            yield Spectrum(layer, *rounded_rows(values[order[places]].T, 3))

    def outliers(self) -> Iterator[Outlier]:
        mean = self.mean("sizes")
        for state, shares in enumerate(() if mean is None else mean):
            yield Outlier(state, int(shares.argmax()), rounded(float(shares.max())))

    def skipped(self) -> Iterator[Skipped]:
        for layer in self.chosen:
            changes = tuple(rounded(one[layer]) for one in self.skips if layer in one)
            if changes:
                yield Skipped(layer, changes)


def inspection(
    name: str,
    choice: TextChoice = TextChoice(),  # noqa: B008 - it cannot change
    plan: Plan = Plan(),  # noqa: B008
    against: str = RANDOM,
    trust_remote_code: bool = False,
    device: str | None = None,
    progress: Counting | None = None,
) -> Inspection:
    """What the probes find in a model, beside its null model ("random"), another model, or nothing ("none").

    A null model has the same architecture with fresh weights by its own initialisation.
    """
    place, opened = device_of(device), open_model(name, trust_remote_code)
    second = None if against in (RANDOM, NOTHING) else open_model(against, trust_remote_code)
    tokens = choice.length([opened] if second is None else [opened, second])
    source = source_of(opened, choice, tokens)
    beside = source if second is None else source_of(second, choice, tokens)
    done, total = count(1), len(source.texts) + (against != NOTHING) * len(beside.texts)

    def tick() -> None:
        if progress is not None:
            progress(next(done), total)

    look, config = partial(measured, place=place, tick=tick), deepcopy(opened.model.config)
    first, rest, other = look(opened, source, plan), plan._replace(states=None), None
    if second is not None:
        other = look(second, beside, rest._replace(layers=None))
    elif against == RANDOM:
        null = opened._replace(model=null_model(type(opened.model), config))
        other = look(null, source, rest._replace(skips=False), random=True)
    return Inspection(
        model=first, other=other, seed=SEED if against == RANDOM else None, texts=len(source.texts),
        tokens=tokens, source=source.name, probes=plan.probes, differentiated=plan.differentiated,
        layers=plan.layers or tuple(range(first.layers)), made=made_by_study(),
    )  # fmt: skip


def device_of(name: str | None) -> torch.device:
    """The device of this name; by default the GPU, if there is one."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=name)
        return torch.device(name)
    except (RuntimeError, AssertionError) as error:
        instead = "leave --device out" if name == "cpu" or not torch.cuda.is_available() else "use cpu or cuda"
        raise ValueError(f"--device {name} is not here ({str(error).splitlines()[0]}): {instead}") from None


def null_model(kind: Any, config: Any) -> Any:
    """A model of this class and config with fresh weights."""
    with silent(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        return kind._from_config(config)


def measured(
    opened: Opened,
    source: Source,
    plan: Plan,
    random: bool = False,
    *,
    place: torch.device,
    tick: Callable[[], None],
) -> ModelFindings:
    """What is found in a model in float32, since derivatives in half precision say little; what could not be taken
    apart is said in the result instead of a warning."""
    model = opened.model.float().to(place).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        flow = load(opened._replace(model=model))
    stack, texts = flow.stacks[flow.main], source.texts
    layers = len(stack.layers)
    if wrong := [one for one in plan.layers or () if one >= layers]:
        raise ValueError(f"--layers: {opened.name} has no layer {wrong[0]}; its layers are 0 to {layers - 1}")
    tally = Tally(layers, tuple(range(layers)) if plan.layers is None else plan.layers)
    judge = Judge.of(flow, texts[0].inputs)
    for i, text in enumerate(texts):
        observe_text(flow, text, i, plan, tally)
        tried = tally.chosen if plan.skips and i < SKIPPED else ()
        tally.skips.append(skipped(flow, judge, text.inputs, tried))
        tick()
    return ModelFindings(
        model=opened.name, scheme=str(stack.scheme), stack=flow.main, layers=layers, width=tally.states[0].shape[-1],
        parameters=sum(one.numel() for one in model.parameters()), random=random, notes=flow.notes,
        losses=tuple(one[-1] for one in tally.skips if -1 in one), series=tuple(tally.series()),
        matrices=tuple(tally.matrices(texts[0].tokens)), spectra=tuple(tally.spectra()),
        paths=tuple(token_paths(tally.states, [text[1:] for text in texts[:PATHS]])), outliers=tuple(tally.outliers()),
        skipped=tuple(tally.skipped()), missing=tuple(Missing(*one) for one in tally.missing.items()),
    )  # fmt: skip


def observe_text(flow: Flow, text: Text, i: int, plan: Plan, tally: Tally) -> None:
    """One pass of one text, and its figures."""
    guarded = {name: Guarded(probe) for name, probe in probes_for(flow, text, i, plan, tally).items()}
    observable: Any = flow  # a protocol with a Mapping, which a dict does not match
    for name, by_stack in watch_flow(observable, text.inputs, guarded).items():
        tally.add(name, by_stack[flow.main])
    tally.missing |= {name: one.why for name, one in guarded.items() if one.why}


def probes_for(flow: Flow, text: Text, i: int, plan: Plan, tally: Tally) -> Mapping[str, Probe]:
    """The probes for text i: those with derivatives look at the first texts only, and none that failed is tried
    again."""
    made = {name: PROBES.find(name)() for name in plan.probes if name not in tally.missing}
    found: dict[str, Probe] = {
        name: probe
        for name, probe in made.items()
        if i < (plan.differentiated if isinstance(probe, LayerBlocks) else FEWER.get(name, i + 1))
    }
    found["sizes"] = Sizes()
    if i < PATHS:
        found["paths"] = KeptStates()
    if plan.states is not None:
        file, substeps = plan.states / f"text-{i + 1:04d}.safetensors", flow.stacks[flow.main].substeps
        found["saved states"] = SavedStates(file, flow.scheme, substeps, tally.chosen, text.tokens)
    return found


def read_plan(probes: Sequence[str], spectra: int, layers: str | None, states: Path | None) -> Plan:
    """What a person asked for: names of probes, a number of texts, layers such as 0,4-7."""
    if spectra < 1:
        raise ValueError(f"--spectra {spectra}: give at least 1")
    chosen = None if layers is None else read_layers(layers)
    return Plan(check_probes(probes) if probes else DEFAULT, spectra, chosen, states)


LAYER = re.compile("[0-9]{1,5}")


def read_layers(text: str) -> tuple[int, ...]:
    """The numbers of layers in a list such as 0,4-7."""
    found = set[int]()
    for part in text.split(","):
        first, dash, last = (one.strip() for one in part.partition("-"))
        ends = (first, last if dash else first)
        if not all(LAYER.fullmatch(one) for one in ends) or int(ends[0]) > int(ends[1]):
            raise ValueError(f"--layers {text!r}: {part.strip()!r} is not a layer; write numbers from 0, as in 0,4-7")
        found |= set(range(int(ends[0]), int(ends[1]) + 1))
    return tuple(sorted(found))


def check_probes(given: Sequence[str]) -> tuple[str, ...]:
    """The names of probes, each once; all must be there, and work without a loss."""
    names = tuple(dict.fromkeys(given))
    for name in names:
        if PROBES.find(name)().gradients:
            raise ValueError(f'probe "{name}" differentiates the loss, which inspect does not do: leave it out')
    return names
