"""What the probes of a run recorded, read from its directory: figures by step, and how alike two networks are."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...experiments.statistics import UNBOUNDED, Bounds, Estimate, estimate
from ...experiments.trials import Trial
from ...probes.similarity import COMPARISONS, compare_attention, linear_cka, mean_cosine
from ...training.directory import RunDirectory
from .result import GROUP, Series

KEPT = 25  # records of a series in the result, at most
DIGITS = 4  # of a figure in the result
LAYERED = {
    "drift": ("drift", "input"),
    "neighbours": ("drift", "previous"),
    "gradients": ("gradients", "x"),
    "growth": ("gradients", "rate"),
    "entropy": ("attention", "A"),
    "sensitivity": ("sensitivity", "growth"),
    "exponent": ("sensitivity", "exponent"),
    "information_x": ("information", "I(X;T) mixture 1"),
    "information_y": ("information", "I(Y;T) mixture 1"),
}  # the probe and the series of each figure

Values = tuple[float, ...]  # of the layers


class Watched(NamedTuple):
    """A run, and each of its figures by step."""

    trial: Trial
    directory: RunDirectory
    figures: Mapping[str, Mapping[int, Values]]
    stack: str  # whose figures these are: a translator's decoder, the last one

    @property
    def steps(self) -> list[int]:
        """The steps of all records."""
        return sorted({step for found in self.figures.values() for step in found})

    def last(self, name: str) -> Values:
        """The figure at the last record; of no layers if there is none."""
        found = self.figures.get(name)
        return found[max(found)] if found else ()

    def tensor(self, probe: str, series: str, step: int | None = None) -> Tensor | None:
        """What a probe found in the stack, at a step or at the last record."""
        from safetensors import safe_open

        file = self.directory.tensors_file(max(self.steps, default=0) if step is None else step)
        if not file.is_file():
            return None
        with safe_open(file, "pt") as tensors:
            name = f"{probe}/{self.stack}/{series}"  # a file lists stacks by name, not in the order of the network
            return tensors.get_tensor(name).float() if name in tensors.keys() else None  # noqa: SIM118


def read_watched(trial: Trial, out: Path) -> Watched:
    """What the run of a trial recorded; of a translator its decoder, the last stack."""
    directory, figures, stack = RunDirectory(out / trial.folder), dict[str, dict[int, Values]](), ""
    for record in directory.logged():
        if record["split"] != "probe":
            continue
        last = {probe: list(found.items())[-1] for probe, found in record.items() if isinstance(found, dict) and found}
        stack = next(iter(last.values()))[0]
        for name, values in layered({probe: series for probe, (_, series) in last.items()}):
            figures.setdefault(name, {})[record["step"]] = tuple(map(float, values))  # not finite ones are text
    return Watched(trial, directory, figures, stack)


def layered(found: Mapping[str, Mapping[str, Any]]) -> Iterable[tuple[str, Sequence[Any]]]:
    """The figures of one record by name: those of `LAYERED`, of groups of parameters, and estimates of information."""
    for name, (probe, series) in LAYERED.items():
        if series in found.get(probe, {}):
            yield name, found[probe][series]
    yield from ((f"{GROUP}{name}", values) for name, values in found.get("gradients", {}).items() if "." in name)
    yield from (one for one in found.get("information", {}).items() if not one[0].endswith(" error"))


def rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def finite_mean(values: Iterable[float]) -> float:
    """The mean of the finite values; NaN if there are none."""
    found = [value for value in values if math.isfinite(value)]
    return rounded(math.fsum(found) / len(found)) if found else math.nan


def series_of(by_seed: Sequence[Mapping[int, Values]], kept: int = KEPT) -> Series | None:
    """A figure along training, as the mean over seeds; of many records some are left out, never the last."""
    steps = sorted({step for found in by_seed for step in found})
    if not steps:
        return None
    steps = sorted({*steps[:: math.ceil(len(steps) / kept)], steps[-1]})
    records = [[found[step] for found in by_seed if step in found] for step in steps]
    return Series(tuple(steps), tuple(tuple(map(finite_mean, zip(*one, strict=True))) for one in records))


def over_seeds(values: Iterable[float], bounds: Bounds = UNBOUNDED) -> Estimate | None:
    """The mean over the seeds whose figure is finite, with its interval."""
    found = estimate([value for value in values if math.isfinite(value)], bounds=bounds)
    if found is None:
        return None
    low, high = (None if end is None else rounded(end) for end in (found.low, found.high))
    return Estimate(rounded(found.mean), low, high, found.n)


def profile_of(by_seed: Iterable[Values]) -> tuple[Estimate | None, ...]:
    """A figure of each layer over seeds."""
    return tuple(map(over_seeds, zip(*by_seed, strict=True)))


def mean_values(found: Sequence[Values]) -> Values:
    """The mean of several figures, layer by layer."""
    return tuple(math.fsum(one) / len(found) for one in zip(*found, strict=True))


def other_seeds(run: Watched, full: Sequence[Watched]) -> list[Watched]:
    return [one for one in full if one.trial.seed != run.trial.seed]


def same_start(run: Watched, full: Sequence[Watched]) -> list[Watched]:
    """The full network from the same start on the same batches; for a full network itself, those of other seeds."""
    same = [one for one in full if one.trial.seed == run.trial.seed and one.trial.folder != run.trial.folder]
    return same or other_seeds(run, full)


class Likeness(NamedTuple):
    """How alike a network is to others: what a probe recorded of both, the others, and what is measured between them.

    Networks of other depths have no layers that correspond, so they are left out.
    """

    probe: str
    series: str
    partners: Callable[[Watched, Sequence[Watched]], list[Watched]]
    measure: Callable[[Tensor, Tensor], Values]

    def of(self, runs: Sequence[Watched], full: Sequence[Watched], step: int | None = None) -> dict[int, Values]:
        """The mean of each run over its partners among the full runs, by seed: at a step, or at the last record."""
        every = {one.trial.folder: one for one in (*runs, *full)}
        tensors = {folder: one.tensor(self.probe, self.series, step) for folder, one in every.items()}
        found: dict[int, Values] = {}
        for run in runs:
            own, others = tensors[run.trial.folder], [tensors[one.trial.folder] for one in self.partners(run, full)]
            known = [] if own is None else [one for one in others if one is not None and len(one) == len(own)]
            if own is not None and known:
                found[run.trial.seed] = mean_values([self.measure(own, one) for one in known])
        return found

    def along(self, runs: Sequence[Watched], full: Sequence[Watched]) -> Series | None:
        """The same along training."""
        by_seed: dict[int, dict[int, Values]] = {}
        for step in sorted({step for run in runs for step in run.steps}):
            for seed, values in self.of(runs, full, step).items():
                by_seed.setdefault(seed, {})[step] = values
        return series_of(list(by_seed.values()))


def cka_layers(x: Tensor, y: Tensor) -> Values:
    """Linear CKA of each layer's states [L + 1, N, width]; 0 where the states of a layer are all the same, so nothing
    varies together. States that are not finite have none, nor have those of other tokens."""
    if x.shape[:2] != y.shape[:2]:
        return (math.nan,) * len(x)
    finite = x.isfinite().flatten(1).all(1) & y.isfinite().flatten(1).all(1)
    found = linear_cka(x, y)
    return tuple(found.where(~(found.isnan() & finite), 0.0).tolist())


def cosine_layers(x: Tensor, y: Tensor) -> Values:
    """The mean cosine of each layer's states [L + 1, N, width]; NaN if the widths differ."""
    return tuple(mean_cosine(x, y).tolist()) if x.shape == y.shape else (math.nan,) * len(x)


CKA = Likeness("states", "tokens", other_seeds, cka_layers)
COSINE = Likeness("states", "tokens", same_start, cosine_layers)


def series(runs: Sequence[Watched], full: Sequence[Watched]) -> dict[str, Series]:
    """The figures of an arm along training."""
    found = {name: series_of([run.figures[name] for run in runs if name in run.figures]) for name in LAYERED}
    return {name: one for name, one in {**found, "cka": CKA.along(runs, full)}.items() if one is not None}


def head_maps(runs: Sequence[Watched], full: Sequence[Watched]) -> dict[str, tuple[Values, ...]]:
    """How far attention is from the full arm's, from the same start: each comparison by layer and head, in the mean
    over seeds. Networks with other numbers of heads have none."""
    real = next((one for run in full if (one := run.tensor("attention", "A queries")) is not None), None)

    def measure(x: Tensor, y: Tensor) -> Values:
        if x.shape != y.shape:
            return (math.nan,) * (len(COMPARISONS) * x.shape[0] * x.shape[2])
        found = compare_attention(x, y, None if real is None else real.bool())
        return tuple(value for one in found.values() for value in one.flatten().tolist())

    found = Likeness("attention", "A weights", same_start, measure).of(runs, full)
    known = [values for values in found.values() if all(map(math.isfinite, values))]
    layers = len(runs[0].last("entropy")) if runs else 0
    if not known or not layers:
        return {}
    values = torch.tensor([rounded(one) for one in mean_values(known)], dtype=torch.float64)
    by_name = zip(COMPARISONS, values.view(len(COMPARISONS), layers, -1).tolist(), strict=True)
    return {name: tuple(map(tuple, rows)) for name, rows in by_name}
