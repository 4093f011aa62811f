"""The paper's three claims, decided by the rules of docs/theory/laboratory.md, which were written before any run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ...experiments.arms import FULL
from ...experiments.statistics import Estimate
from ...report.document import Verdict
from .result import Ablation, ArmResult, Claim, Outcome, Ruling

DRIFT = 0.1  # a network drifts if the cosine between its last layer and its input is below this
EXPLOSION = 10.0  # a run explodes if its gradient grows more than so many times per layer

Outcomes = Mapping[str, Outcome]  # by arm


class Ruled(NamedTuple):
    """What the figures say about a claim, and the figures."""

    ruling: Ruling
    number: str


def below(found: Estimate | None, limit: float) -> bool:
    """Whether the whole interval lies below the limit; a figure without an interval decides nothing."""
    return found is not None and found.high is not None and found.high < limit


def at_or_above(found: Estimate | None, limit: float) -> bool:
    return found is not None and found.low is not None and found.low >= limit


def above(found: Estimate | None, limit: float) -> bool:
    return found is not None and found.low is not None and found.low > limit


def at_or_below(found: Estimate | None, limit: float) -> bool:
    return found is not None and found.high is not None and found.high <= limit


def written(found: Estimate | None, form: str = "{:.3g}") -> str:
    """A figure with its interval."""
    if found is None:
        return "no figure"
    if found.low is None or found.high is None:
        return f"{form.format(found.mean)} ({found.lacks})"
    return f"{form.format(found.mean)} [{form.format(found.low)}, {form.format(found.high)}]"


def drift(outcomes: Outcomes) -> Ruled:
    """Without residual connections, the last layer forgets the input."""
    without, full = outcomes["no-residual"].drift, outcomes[FULL].drift
    number = (
        f"cosine between the last layer and the input: no-residual {written(without)}, full {written(full)}; "
        f"drift is below {DRIFT:g}"
    )
    if below(without, DRIFT) and at_or_above(full, DRIFT):
        return Ruled("supported", number)
    refuted = at_or_above(without, DRIFT) or below(full, DRIFT)
    return Ruled("not supported" if refuted else "undecided", number)


def explodes(outcome: Outcome) -> bool | None:
    """Whether an arm explodes; None if its seeds do not decide it."""
    runs = outcome.finished + len(outcome.lost)
    if outcome.not_finite == runs or above(outcome.growth, EXPLOSION):
        return True
    return False if outcome.not_finite == 0 and at_or_below(outcome.growth, EXPLOSION) else None


def explosion(outcomes: Outcomes) -> Ruled:
    """Without layer normalisation, training explodes."""
    without, full = explodes(outcomes["no-norm"]), explodes(outcomes[FULL])
    told = ", ".join(f"{name} {growth_text(outcomes[name])}" for name in ("no-norm", FULL))
    number = f"growth of the gradient per layer: {told}; explosion is above {EXPLOSION:g} or not finite"
    if without is True and full is False:
        return Ruled("supported", number)
    return Ruled("not supported" if without is False or full is True else "undecided", number)


def growth_text(outcome: Outcome) -> str:
    runs = outcome.finished + len(outcome.lost)
    ended = f", {outcome.not_finite} of {runs} not finite" if outcome.not_finite else ""
    return f"{written(outcome.growth)}{ended}"


LACKING = ("no-residual", "no-norm", "neither")


def alignment(outcomes: Outcomes) -> Ruled:
    """Both together give the best alignment with the Transformer."""
    found = {name: outcomes[name].alignment for name in LACKING}
    told = ", ".join(f"{name} {written(one, '{:+.3f}')}" for name, one in found.items())
    number = f"CKA with full minus CKA of two seeds of full: {told}; 0 is as similar as another seed"
    if all(below(one, 0.0) for one in found.values()):
        return Ruled("supported", number)
    refuted = any(at_or_above(one, 0.0) for one in found.values())
    return Ruled("not supported" if refuted else "undecided", number)


class Rule(NamedTuple):
    """A claim, the arms that it is about, and how it is decided."""

    name: str
    text: str
    arms: Sequence[str]
    decide: Callable[[Outcomes], Ruled]


RULES = (
    Rule("drift", "Without residual connections, representations drift", ("no-residual",), drift),
    Rule("explosion", "Without layer normalisation, training explodes", ("no-norm",), explosion),
    Rule("alignment", "Both together give the best alignment with the Transformer", LACKING, alignment),
)


def claims_of(arms: Sequence[ArmResult]) -> tuple[Claim, ...]:
    """Each claim at the arms' own rates, which decide, and at the full arm's."""
    own, shared = ({arm.name: getattr(arm, kind) for arm in arms} for kind in ("own", "shared"))
    return tuple(Claim(rule.name, rule.text, *decided(rule, own), *decided(rule, shared)) for rule in RULES)


def decided(rule: Rule, outcomes: Outcomes) -> Ruled:
    missing = [name for name in rule.arms if name not in outcomes]
    return Ruled("undecided", f"not run: {', '.join(missing)}") if missing else rule.decide(outcomes)


def claim_verdict(claim: Claim) -> Verdict:
    """A claim as a sentence, with the figures that decide it."""
    kind = "open" if claim.ruling == "undecided" else "settled"
    return Verdict(kind, f"{claim.text}: {claim.ruling}. {sentence(claim)}")


def sentence(claim: Claim) -> str:
    return f"{claim.number[0].upper()}{claim.number[1:]}."


def ablation_verdict(result: Ablation) -> Verdict:
    """All claims in one sentence."""
    told = "; ".join(f"{claim.text[0].lower()}{claim.text[1:]}: {claim.ruling}" for claim in result.claims)
    settled = any(claim.ruling != "undecided" for claim in result.claims)
    kind = "settled" if settled else "open" if len(result.seeds) > 2 else "too few"
    return Verdict(kind, f"{told[0].upper()}{told[1:]}.")
