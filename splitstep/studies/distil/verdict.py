"""The verdict: what the rule says about the terms, in one sentence."""

from __future__ import annotations

from ...report.verdict import Verdict
from ...support.words import listed
from .result import Claim, DistilResult


def distil_verdict(result: DistilResult) -> Verdict:
    """The answers about ROUGE-L first, then those about bits per byte."""
    if not result.claims:
        names = listed([row.method for row in result.rows])
        return Verdict("open", f"Nothing was compared: {names} has no base among the methods that were run.")
    settled = any(one.answer != "undecided" for one in result.claims)
    few = all("no interval" in one.evidence or "no seed" in one.evidence for one in result.claims)
    kind = "settled" if settled else "too few" if few else "open"
    return Verdict(kind, f"The {'; the '.join(map(said, result.claims))}.")


def said(claim: Claim) -> str:
    return f"claim that {claim.question} is {claim.answer}: {claim.evidence}"
