"""What the figures say about the paper's claim, by the rule that docs/results/pretrain.md states, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence

from ...experiments.claims import Claim, Form, Rule, decide, evidence
from ...experiments.experiment import Difference
from ...report.document import Verdict
from ...schemes import scheme
from ...support.words import listed
from .result import LOSS, MEAN, GlueResult, Row
from .rows import DEFAULT

HIGHER_MEAN = Rule(margin=0.5, fewest=5)  # points of the GLUE mean; pairs of pre-training seeds
LOWER_LOSS = Rule(margin=0.01, fewest=5)  # nats per masked token
HELPS = Rule(fewest=0)
OVERLAP = 62.0  # Pearson's correlation on STS-B of counting shared words, in points
AGAINST_SCRATCH = {"sst2": "SST-2", "stsb pearson": "STS-B (Pearson)"}
POINTS, NATS = Form("{:+.2f}", "points"), Form("{:+.4f}", "nats")
MISSING = "no pre-training seed has both figures"


def base_of(rows: Sequence[tuple[str, str]]) -> str:
    """The name that the others are compared with: the first of the scheme lie, else the first. Rows are names with
    their schemes."""
    lie = str(scheme("lie"))
    return next((name for name, notation in rows if notation == lie), rows[0][0])


def claims_of(rows: Sequence[Row], differences: Sequence[Difference], tasks: Sequence[str]) -> list[Claim]:
    """The answers to all questions that these runs are about."""
    return [*(claim_of(one, tasks) for one in claimed(rows, differences)), *below_overlap(rows)]


def claimed(rows: Sequence[Row], differences: Sequence[Difference]) -> list[Difference]:
    """The differences that claims are about, in the order of the claims."""
    trained = {row.title for row in rows if row.kind == "pre-trained"}

    def is_claimed(one: Difference) -> bool:
        if one.to not in trained:
            return one.what in AGAINST_SCRATCH
        return one.of in trained and (one.what == MEAN or (one.what == LOSS and one.found is not None))

    return [one for one in differences if is_claimed(one)]


def claim_of(one: Difference, tasks: Sequence[str]) -> Claim:
    """The claim about a difference: of the mean, of the masked loss, or to the same network from scratch."""
    if one.what == LOSS:
        question, gain = f"{one.of} has a lower held-out masked loss than {one.to}", one.found and one.found.turned
        said = evidence(f"{one.to} minus {one.of}", gain, NATS, LOWER_LOSS.fewest, MISSING)
        return Claim(question, decide(gain, LOWER_LOSS), said)
    if one.what != MEAN:
        return against_scratch(one)
    question = f"{one.of} has a higher GLUE mean than {one.to}"
    if set(tasks) != set(DEFAULT):
        return Claim(question, "undecided", f"the rule is about the mean of {', '.join(DEFAULT)}")
    said = evidence(f"{one.of} minus {one.to}", one.found, POINTS, HIGHER_MEAN.fewest, MISSING)
    return Claim(question, decide(one.found, HIGHER_MEAN), said)


def against_scratch(one: Difference) -> Claim:
    """Whether pre-training helps on a task."""
    answer = decide(one.found, HELPS)
    return Claim(
        f"pre-training helps {one.of} on {AGAINST_SCRATCH[one.what]}",
        "undecided" if answer == "undecided" else "helps" if answer == "supported" else "hurts",
        evidence(f"{one.of} minus {one.to}", one.found, POINTS, HELPS.fewest, MISSING),
    )


def below_overlap(rows: Sequence[Row]) -> list[Claim]:
    """Says so if no pre-trained row reaches what word overlap alone gives on STS-B."""
    trained = [row for row in rows if row.kind == "pre-trained" and any(one.task == "stsb" for one in row.tasks)]
    found = [row.on("stsb").figures.get("pearson") for row in trained]
    if not found or any(one is None or one.mean >= OVERLAP for one in found):
        return []
    reached = ", ".join(f"{row.name} {one.mean / 100:.3f}" for row, one in zip(trained, found, strict=True) if one)
    return [Claim(f"STS-B is above word overlap ({OVERLAP / 100:.2f} Pearson)", "not supported", reached)]


def glue_verdict(result: GlueResult) -> Verdict:
    """The answers about the mean and the masked loss, or what is known if there is nothing to compare."""
    rows = [row for row in result.rows if row.kind == "pre-trained"]
    told = list(zip(claimed(result.rows, result.differences), result.claims, strict=False))  # the last may be of a row
    if len(rows) < 2:
        return Verdict("open", alone(rows[0], [claim for _, claim in told]))
    means, others = ([(one, claim) for one, claim in told if one.what == what] for what in (MEAN, LOSS))
    if not means:
        return Verdict("open", f"WNLI alone says nothing about {listed([row.name for row in rows])}.")
    settled = any(claim.answer != "undecided" for _, claim in means)
    few = all(one.found is not None and one.found.lacks for one, _ in means) and set(result.in_mean) == set(DEFAULT)
    kind = "settled" if settled else "too few" if few else "open"
    return Verdict(kind, f"The {'; the '.join(sentence(claim) for _, claim in [*means, *others])}.")


def sentence(claim: Claim) -> str:
    return f"claim that {claim.question} is {claim.answer}: {claim.evidence}"


def alone(row: Row, scratch: Sequence[Claim]) -> str:
    """What is known of a single name, and whether pre-training helps it."""
    if row.mean is None:
        return f"{row.name} has no GLUE mean; nothing was compared."
    interval = row.mean.lacks or f"95% interval {row.mean.low:.2f} to {row.mean.high:.2f}"
    rest = "".join(f"; {one.question}: {one.answer}, {one.evidence}" for one in scratch) or "; nothing was compared"
    return f"{row.name} has a GLUE mean of {row.mean.mean:.2f} points ({interval}){rest}."
