"""The verdict: what the rule says about the terms, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence

from ...report.verdict import Verdict
from ...support.words import listed
from .result import Claim, DistilResult

ANSWERS = ("supported", "not supported", "undecided")


def distil_verdict(result: DistilResult) -> Verdict:
    """The answers about ROUGE-L with their figures, then those about bits per byte in short."""
    if not result.claims:
        names = listed([row.method for row in result.rows])
        return Verdict("open", f"Nothing was compared: among the methods that were run, {names}, there is no base.")
    rouge, bits = ([one for one in result.claims if is_about(one, what)] for what in ("ROUGE-L", "bits per byte"))
    settled = any(one.answer != "undecided" for one in result.claims)
    few = all("no interval" in one.evidence or "no seed" in one.evidence for one in result.claims)
    kind = "settled" if settled else "too few" if few else "open"
    return Verdict(kind, f"The {'; the '.join(map(said, rouge))}. Apart, by bits per byte: {in_short(bits)}.")


def is_about(claim: Claim, what: str) -> bool:
    return what in claim.question


def said(claim: Claim) -> str:
    return f"claim that {claim.question} is {claim.answer}: {claim.evidence}"


def in_short(claims: Sequence[Claim]) -> str:
    """The answers, each with the pairs of methods that it is about."""
    pairs = {answer: [pair(one) for one in claims if one.answer == answer] for answer in ANSWERS}
    return "; ".join(f"{answer} for {listed(found)}" for answer, found in pairs.items() if found)


def pair(claim: Claim) -> str:
    method, base = claim.question.split(" has fewer bits per byte than ")
    return f"{method} over {base}"
