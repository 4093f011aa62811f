"""Rows and paired differences from runs."""

from __future__ import annotations

from collections.abc import Sequence

from ...distillation.judging.exam import Figures
from ...distillation.method import parse_method
from ...experiments.experiment import Difference, Observation, Quantity, by_unit, difference, over_units
from ...experiments.statistics import Bounds, Estimate
from .plan import base_of
from .result import BITS, ROUGE, DistilRun, MethodRow

POINTS, SHARE, POSITIVE = Bounds(0, 100), Bounds(0, 1), Bounds(0)
ROUGE_L = Quantity[Figures](lambda one: one.rouge, POINTS)
BITS_PER_BYTE = Quantity[Figures](lambda one: one.bits_per_byte, POSITIVE)
QUANTITIES = {
    "rouge": ROUGE_L,
    "bits_per_byte": BITS_PER_BYTE,
    "text_bits_per_byte": Quantity[Figures](lambda one: one.text_bits_per_byte, POSITIVE),
    "top1": Quantity[Figures](lambda one: one.top1, SHARE),
    "kl": Quantity[Figures](lambda one: one.kl, POSITIVE),
    "ended": Quantity[Figures](lambda one: one.ended, SHARE),
}  # by the entries of a row


def judged(runs: Sequence[DistilRun], method: str) -> list[Observation[Figures]]:
    """The runs of a method that have figures."""
    return [Observation(method, run.seed, (), True, run.figures) for run in runs if run.method == method if run.figures]


def row_of(runs: Sequence[DistilRun], method: str, methods: Sequence[str], sets: Sequence[str]) -> MethodRow:
    own, statuses = judged(runs, method), [run.status for run in runs if run.method == method]

    def mean(quantity: Quantity[Figures]) -> Estimate | None:
        """The mean of a figure that all runs have; those of an older version may lack one."""
        return over_units(own, quantity) if len(by_unit(own, quantity)) == len(own) else None

    on_sets = {name: mean(Quantity(lambda one, name=name: one.rouge_on.get(name), POINTS)) for name in sets}
    return MethodRow(
        method=method,
        written=str(parse_method(method)),
        base=base_of(method, methods),
        finished=statuses.count("finished"),
        diverged=statuses.count("diverged"),
        rouge_on={name: found for name, found in on_sets.items() if found is not None},
        **{name: mean(quantity) for name, quantity in QUANTITIES.items()},
    )


def differences_of(rows: Sequence[MethodRow], runs: Sequence[DistilRun]) -> list[Difference]:
    """Each method minus its base in ROUGE-L, then in bits per byte."""
    pairs, figures = [(row.method, row.base) for row in rows if row.base], {ROUGE: ROUGE_L, BITS: BITS_PER_BYTE}

    def seen(method: str, what: str) -> dict[int, float]:
        return by_unit(judged(runs, method), figures[what])

    return [difference(what, of, to, seen(of, what), seen(to, what)) for what in figures for of, to in pairs]
