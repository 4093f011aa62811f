"""The verdict: what the rule says about the claim, in one sentence."""

from __future__ import annotations

from ...report.document import Verdict
from ...support.words import listed
from .result import Claim, GlueResult, Row


def glue_verdict(result: GlueResult) -> Verdict:
    """The answers about the mean and the masked loss, or what is known if there is nothing to compare."""
    rows = [row for row in result.rows if row.kind == "pre-trained"]
    if len(rows) < 2:
        return Verdict("open", alone(result, rows[0]))
    means = [one for one in result.claims if "GLUE mean" in one.question]
    others = [one for one in result.claims if "masked loss" in one.question]
    if not means:
        return Verdict("open", f"WNLI alone says nothing about {listed([row.name for row in rows])}.")
    settled = any(one.answer != "undecided" for one in means)
    few = all("no interval" in one.evidence for one in means)
    kind = "settled" if settled else "too few" if few else "open"
    return Verdict(kind, f"The {'; the '.join(map(said, [*means, *others]))}.")


def said(claim: Claim) -> str:
    return f"claim that {claim.question} is {claim.answer}: {claim.evidence}"


def alone(result: GlueResult, row: Row) -> str:
    """What is known of a single name."""
    if row.mean is None:
        return f"{row.name} has no GLUE mean; nothing was compared."
    interval = row.mean.lacks or f"95% interval {row.mean.low:.2f} to {row.mean.high:.2f}"
    scratch = [one for one in result.claims if one.question.startswith("pre-training helps")]
    rest = "".join(f"; {one.question}: {one.answer}, {one.evidence}" for one in scratch) or "; nothing was compared"
    return f"{row.name} has a GLUE mean of {row.mean.mean:.2f} points ({interval}){rest}."
