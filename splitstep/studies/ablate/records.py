"""What the probes of a run recorded, read from its directory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from ...experiments.statistics import UNBOUNDED, Bounds, Estimate, estimate
from ...experiments.trials import Trial
from ...training.directory import RunDirectory
from .result import Series

PROBES = ("drift", "gradients", "information", "attention", "sensitivity", "states")
RECORDS = 20  # of each run, at least
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
ERROR, BIAS = " error", " bias"  # after the name of an estimate of information
GROUP = "gradient of "  # before the name of a group of parameters

Values = tuple[float, ...]  # of the layers


class Watched(NamedTuple):
    """A run, and each of its figures by step."""

    trial: Trial
    directory: RunDirectory
    figures: Mapping[str, Mapping[int, Values]]
    stack: str  # whose figures these are: a translator's decoder, the last one

    @property
    def seed(self) -> int:
        return self.trial.seed

    @property
    def steps(self) -> list[int]:
        """The steps of all records."""
        return sorted({step for found in self.figures.values() for step in found})

    def last(self, name: str) -> Values | None:
        """The figure at the last record."""
        found = self.figures.get(name)
        return found[max(found)] if found else None

    def tensor(self, step: int, probe: str, series: str) -> Tensor | None:
        """What a probe found in the stack, at a step."""
        from safetensors import safe_open

        file = self.directory.tensors_file(step)
        if not file.is_file():
            return None
        with safe_open(file, "pt") as tensors:
            name = f"{probe}/{self.stack}/{series}"  # a file lists stacks by name, not in the order of the network
            return tensors.get_tensor(name).float() if name in tensors.keys() else None  # noqa: SIM118


def read_watched(trial: Trial, out: Path) -> Watched:
    """What the run of a trial recorded."""
    directory = RunDirectory(out / trial.folder)
    figures: dict[str, dict[int, Values]] = {}
    stack = ""
    for record in directory.logged():
        if record["split"] == "probe":
            stack = last_stack(record)
            for name, values in layered(record):
                figures.setdefault(name, {})[record["step"]] = values
    return Watched(trial, directory, figures, stack)


def last_stack(record: Mapping[str, Any]) -> str:
    """The name of the last stack that the probes of a record saw."""
    return next(list(found)[-1] for found in record.values() if isinstance(found, dict) and found)


def layered(record: Mapping[str, Any]) -> Iterable[tuple[str, Values]]:
    """The figures of one record by name; those of a translator are its decoder's, the last stack."""
    stacks = {probe: list(found.values())[-1] for probe, found in record.items() if isinstance(found, dict) and found}
    for name, (probe, series) in LAYERED.items():
        if series in stacks.get(probe, {}):
            yield name, numbers(stacks[probe][series])
    for series, values in stacks.get("gradients", {}).items():
        if "." in series:
            yield f"{GROUP}{series}", numbers(values)
    for series, values in stacks.get("information", {}).items():
        if not series.endswith(ERROR):
            yield series, numbers(values)


def numbers(values: Sequence[Any]) -> Values:
    """Numbers of a log, in which those that are not finite are text."""
    return tuple(float(value) for value in values)


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
    every = math.ceil(len(steps) / kept)
    steps = sorted({*steps[::every], steps[-1]})
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


def by_seed(runs: Iterable[Watched], figure: Callable[[Watched], float | None]) -> dict[int, float]:
    """A figure of each run that has one."""
    found = {run.seed: figure(run) for run in runs}
    return {seed: value for seed, value in found.items() if value is not None}
