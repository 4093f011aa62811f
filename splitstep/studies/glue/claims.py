"""What the figures say about the paper's claim, by the rule that docs/results/pretrain.md states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from ...experiments.statistics import Estimate
from ...schemes import scheme
from ...support.words import counted
from .result import LOSS, MEAN, Claim, Difference, Row
from .scores import DEFAULT

FEWEST = 5  # pairs of pre-training seeds
MARGIN = 0.5  # points of the GLUE mean
MARGIN_LOSS = 0.01  # nats per masked token
OVERLAP = 62.0  # Pearson's correlation on STS-B of counting shared words, in points
AGAINST_SCRATCH = {"sst2": "SST-2", "stsb pearson": "STS-B (Pearson)"}
Answer = Literal["supported", "not supported", "undecided"]


class Measure(NamedTuple):
    """A difference: what it is, its format, its unit, and the size below which it is of no account."""

    title: str
    form: str
    unit: str
    margin: float


def base_of(rows: Sequence[tuple[str, str]]) -> str:
    """The name that the others are compared with: the first of the scheme lie, else the first. Rows are names with
    their schemes."""
    lie = str(scheme("lie"))
    return next((name for name, notation in rows if notation == lie), rows[0][0])


def answer(found: Estimate | None, margin: float) -> Answer:
    """Whether a difference that should be above 0 is; the rule of docs/results/pretrain.md."""
    if found is None or found.n < FEWEST or found.low is None or found.high is None:
        return "undecided"
    if found.low > 0:
        return "supported"
    return "not supported" if found.high < 0 or (-margin < found.low and found.high < margin) else "undecided"


def claims_of(rows: Sequence[Row], differences: Sequence[Difference], tasks: Sequence[str]) -> list[Claim]:
    """The answers to all questions that these runs are about."""
    titles = [row.title for row in rows if row.kind == "pre-trained"]
    found = list[Claim]()
    for one in differences:
        if one.of in titles and one.to in titles and one.what == MEAN:
            found.append(higher_mean(one, tasks))
        elif one.of in titles and one.to in titles and one.what == LOSS and one.found is not None:
            found.append(lower_loss(one))
        elif one.to not in titles and one.what in AGAINST_SCRATCH:
            found.append(against_scratch(one))
    return [*found, *below_overlap(rows)]


def higher_mean(one: Difference, tasks: Sequence[str]) -> Claim:
    question = f"{one.of} has a higher GLUE mean than {one.to}"
    if set(tasks) != set(DEFAULT):
        needed = f"the rule is about the mean of {', '.join(DEFAULT)}"
        return Claim(question, "undecided", needed)
    return judged(question, one.found, Measure(f"{one.of} minus {one.to}", "{:+.2f}", "points", MARGIN))


def lower_loss(one: Difference) -> Claim:
    assert one.found is not None
    mean, low, high, n = one.found
    turned = Estimate(-mean, None if high is None else -high, None if low is None else -low, n)
    question = f"{one.of} has a lower held-out masked loss than {one.to}"
    return judged(question, turned, Measure(f"{one.to} minus {one.of}", "{:+.4f}", "nats", MARGIN_LOSS))


def judged(question: str, found: Estimate | None, measure: Measure) -> Claim:
    """The claim with its answer and the figures behind it. A positive difference is in its favour."""
    result = answer(found, measure.margin)
    few = found is not None and found.n < FEWEST
    why = f"; the rule needs at least {FEWEST}" if few else ""
    return Claim(question, result, measured(found, measure, why))


def measured(found: Estimate | None, measure: Measure, more: str = "") -> str:
    """The difference with its interval, and how many seeds it is of."""
    if found is None:
        return "no pre-training seed has both figures"
    mean = f"{measure.title} is {measure.form.format(found.mean)} {measure.unit}"
    seeds = counted(found.n, "seed")
    if found.low is None or found.high is None:
        return f"{mean} (no interval, {seeds}{more})"
    low, high = (measure.form.format(end) for end in (found.low, found.high))
    return f"{mean} (95% interval {low} to {high}, {seeds}{more})"


def against_scratch(one: Difference) -> Claim:
    """Whether pre-training helps on a task."""
    measure = Measure(f"{one.of} minus {one.to}", "{:+.2f}", "points", 0.0)
    question = f"pre-training helps {one.of} on {AGAINST_SCRATCH[one.what]}"
    return Claim(question, direction(one.found), measured(one.found, measure))


def direction(found: Estimate | None) -> Literal["helps", "hurts", "undecided"]:
    if found is None or found.low is None or found.high is None or found.low <= 0 <= found.high:
        return "undecided"
    return "helps" if found.low > 0 else "hurts"


def below_overlap(rows: Sequence[Row]) -> list[Claim]:
    """Says so if no pre-trained row reaches what word overlap alone gives on STS-B."""
    trained = [row for row in rows if row.kind == "pre-trained" and any(one.task == "stsb" for one in row.tasks)]
    found = [row.on("stsb").figures.get("pearson") for row in trained]
    if not found or any(one is None or one.mean >= OVERLAP for one in found):
        return []
    reached = ", ".join(f"{row.name} {one.mean / 100:.3f}" for row, one in zip(trained, found, strict=True) if one)
    return [Claim(f"STS-B is above word overlap ({OVERLAP / 100:.2f} Pearson)", "not supported", reached)]
