"""Networks compared in pairs, layer by layer and head by head: an arm with the full arm, beside two seeds of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from torch import Tensor

from ...probes.divergence import COMPARISONS, compare_attention
from ...probes.similarity import linear_cka, mean_cosine
from .records import Values, Watched, mean_values, rounded

Load = Callable[[Watched], Tensor | None]
Measure = Callable[[Tensor, Tensor], Values]
Partners = Callable[[Watched, Sequence[Watched]], list[Watched]]


def other_seeds(run: Watched, full: Sequence[Watched]) -> list[Watched]:
    return [one for one in full if one.seed != run.seed]


def same_seed(run: Watched, full: Sequence[Watched]) -> list[Watched]:
    """The full network from the same start on the same batches; for a full network itself, those of other seeds."""
    same = [one for one in full if one.seed == run.seed]
    return other_seeds(run, full) if any(one.trial.folder == run.trial.folder for one in same) else same


def compared(
    runs: Sequence[Watched], full: Sequence[Watched], partners: Partners, load: Load, measure: Measure
) -> dict[int, Values]:
    """What is measured between each run and its partners among the full runs, in the mean over them, by seed.

    Networks of other depths have no layers that correspond, so they are left out.
    """
    loaded = {run.trial.folder: load(run) for run in {one.trial.folder: one for one in (*runs, *full)}.values()}
    found: dict[int, Values] = {}
    for run in runs:
        own, others = loaded[run.trial.folder], [loaded[one.trial.folder] for one in partners(run, full)]
        values = [measure(own, one) for one in others if own is not None and one is not None and len(own) == len(one)]
        if values:
            found[run.seed] = mean_values(values)
    return found


def at_last(probe: str, series: str) -> Load:
    """Loads what a probe found at a run's last record."""
    return lambda run: run.tensor(run.steps[-1], probe, series) if run.steps else None


def along(
    runs: Sequence[Watched], full: Sequence[Watched], partners: Partners, measure: Measure, probe: str, series: str
) -> list[Mapping[int, Values]]:
    """The same at every record that the runs share, by step for each seed."""
    found: dict[int, dict[int, Values]] = {}
    for step in sorted({step for run in runs for step in run.steps}):
        for seed, values in compared(
            runs, full, partners, lambda run, step=step: run.tensor(step, probe, series), measure
        ).items():
            found.setdefault(seed, {})[step] = values
    return list(found.values())


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


def attention_heads(real: Tensor | None) -> Measure:
    """Compares attention weights [L, n, heads, T, S]: each comparison one after the other, by layer and head. `real`
    [n, T] says which queries are not padding. All are NaN if the numbers of heads differ."""

    def measure(x: Tensor, y: Tensor) -> Values:
        if x.shape != y.shape:
            return (math.nan,) * (len(COMPARISONS) * x.shape[0] * x.shape[2])
        found = compare_attention(x, y, None if real is None else real.bool())
        return tuple(value for one in found.values() for value in one.flatten().tolist())

    return measure


def by_head(values: Values, layers: int) -> dict[str, tuple[Values, ...]]:
    """What `attention_heads` has found: `[layer][head]` by the name of the comparison."""
    heads = len(values) // (len(COMPARISONS) * layers)
    rows = [tuple(map(rounded, values[i : i + heads])) for i in range(0, len(values), heads)]
    return {name: tuple(rows[i * layers : (i + 1) * layers]) for i, name in enumerate(COMPARISONS)}
