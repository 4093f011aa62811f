"""What the figures say about each term, by the rule that docs/results/distil.md states, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...experiments.claims import Claim, Form, Rule, decide, evidence
from ...experiments.experiment import Difference
from ...report.document import Verdict
from ...support.words import listed
from .result import BITS, ROUGE, DistilResult

RULES = {ROUGE: Rule(margin=0.2), BITS: Rule(margin=0.005)}  # differences below the margins are of no account
FORMS = {ROUGE: Form("{:+.2f}", "points"), BITS: Form("{:+.4f}", "bits per byte")}
BETTER = {ROUGE: "has a higher mean ROUGE-L than", BITS: "has fewer bits per byte than"}
CLAIMED = {ROUGE: "A higher ROUGE-L is", BITS: "Fewer bits per byte are"}
ANSWERS = ("supported", "not supported", "undecided")


def claims_of(differences: Sequence[Difference]) -> list[Claim]:
    """A claim for each difference; fewer bits are better, so there the rule is asked about minus the difference."""
    return [claim_of(one, RULES[one.what]) for one in differences]


def claim_of(one: Difference, rule: Rule) -> Claim:
    gain = one.found if one.what == ROUGE else one.found and one.found.turned
    return Claim(
        f"{one.of} {BETTER[one.what]} {one.to}",
        decide(gain, rule),
        evidence(f"{one.of} minus {one.to}", one.found, FORMS[one.what], rule.fewest, "no seed has both figures"),
    )


def with_claims(found: DistilResult) -> DistilResult:
    """The result with its claims made again, so that results of all versions say them in the same words."""
    return replace(found, claims=tuple(claims_of(found.differences)))


def distil_verdict(result: DistilResult) -> Verdict:
    """The answers about ROUGE-L, then those about bits per byte; their figures are in the table of claims."""
    if not result.claims:
        names = listed([row.method for row in result.rows])
        return Verdict("open", f"Nothing was compared: among the methods that were run, {names}, there is no base.")
    settled = any(one.answer != "undecided" for one in result.claims)
    few = all(one.found is None or one.found.lacks for one in result.differences)
    kind = "settled" if settled else "too few" if few else "open"
    parts = {what: in_short(result, what) for what in CLAIMED}
    return Verdict(kind, " ".join(f"{CLAIMED[what]} {said}." for what, said in parts.items() if said))


def in_short(result: DistilResult, what: str) -> str:
    """The answers about a figure, each with the pairs of methods that it is about."""
    found = {answer: list[str]() for answer in ANSWERS}
    for one, claim in zip(result.differences, result.claims, strict=True):
        if one.what == what:
            found[claim.answer].append(f"{one.of} over {one.to}")
    return "; ".join(f"{answer} for {listed(pairs)}" for answer, pairs in found.items() if pairs)
