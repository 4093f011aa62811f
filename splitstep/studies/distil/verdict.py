"""The verdict: what the rule says about the terms, in short."""

from __future__ import annotations

from collections.abc import Sequence

from ...report.document import Verdict
from ...support.words import listed
from .claims import BETTER
from .result import BITS, ROUGE, Claim, DistilResult

CLAIMED = {ROUGE: "A higher ROUGE-L is", BITS: "Fewer bits per byte are"}
ANSWERS = ("supported", "not supported", "undecided")


def distil_verdict(result: DistilResult) -> Verdict:
    """The answers about ROUGE-L, then those about bits per byte; their figures are in the table of claims."""
    if not result.claims:
        names = listed([row.method for row in result.rows])
        return Verdict("open", f"Nothing was compared: among the methods that were run, {names}, there is no base.")
    settled = any(one.answer != "undecided" for one in result.claims)
    few = all("no interval" in one.evidence or "no seed" in one.evidence for one in result.claims)
    kind = "settled" if settled else "too few" if few else "open"
    parts = {what: in_short(result.claims, f" {better} ") for what, better in BETTER.items()}
    return Verdict(kind, " ".join(f"{CLAIMED[what]} {said}." for what, said in parts.items() if said))


def in_short(claims: Sequence[Claim], better: str) -> str:
    """The answers to the questions with these words, each with the pairs of methods that it is about."""
    found = {answer: list[str]() for answer in ANSWERS}
    for one in claims:
        method, words, base = one.question.partition(better)
        if words:
            found[one.answer].append(f"{method} over {base}")
    return "; ".join(f"{answer} for {listed(pairs)}" for answer, pairs in found.items() if pairs)
