"""The paper's three claims, decided by the rules of docs/theory/laboratory.md, which were written before any run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ...experiments.arms import FULL
from ...experiments.claims import Answer, Rule, all_of, decide, opposite
from ...experiments.statistics import Estimate
from ...report.document import Verdict
from .result import Ablation, ArmResult, Claim, Outcome

DRIFT = 0.1  # a network drifts if the cosine between its last layer and its input is below this
EXPLOSION = 10.0  # a run explodes if its gradient grows more than so many times per layer
STEADY = Rule(DRIFT, level_is="above")
EXPLODING = Rule(EXPLOSION, level_is="below")
ALIKE = Rule(level_is="above")  # at least as similar as another seed

Outcomes = Mapping[str, Outcome]  # by arm


class Ruling(NamedTuple):
    """What the figures say about a claim, and the figures."""

    ruling: Answer
    number: str


def written(found: Estimate | None, form: str = "{:.3g}") -> str:
    """A figure with its interval."""
    if found is None:
        return "no figure"
    if found.low is None or found.high is None:
        return f"{form.format(found.mean)} ({found.lacks})"
    return f"{form.format(found.mean)} [{form.format(found.low)}, {form.format(found.high)}]"


def drift(outcomes: Outcomes) -> Ruling:
    """Without residual connections, the last layer forgets the input."""
    without, full = outcomes["no-residual"].drift, outcomes[FULL].drift
    number = (
        f"cosine between the last layer and the input: no-residual {written(without)}, full {written(full)}; "
        f"drift is below {DRIFT:g}"
    )
    return Ruling(all_of([opposite(decide(without, STEADY)), decide(full, STEADY)]), number)


def explodes(outcome: Outcome) -> Answer:
    """Whether an arm explodes."""
    if outcome.not_finite == outcome.finished + len(outcome.lost):
        return "supported"
    found = decide(outcome.growth, EXPLODING)
    return found if found == "supported" or outcome.not_finite == 0 else "undecided"


def explosion(outcomes: Outcomes) -> Ruling:
    """Without layer normalisation, training explodes."""
    told = ", ".join(f"{name} {growth_text(outcomes[name])}" for name in ("no-norm", FULL))
    number = f"growth of the gradient per layer: {told}; explosion is above {EXPLOSION:g} or not finite"
    return Ruling(all_of([explodes(outcomes["no-norm"]), opposite(explodes(outcomes[FULL]))]), number)


def growth_text(outcome: Outcome) -> str:
    runs = outcome.finished + len(outcome.lost)
    ended = f", {outcome.not_finite} of {runs} not finite" if outcome.not_finite else ""
    return f"{written(outcome.growth)}{ended}"


LACKING = ("no-residual", "no-norm", "neither")


def alignment(outcomes: Outcomes) -> Ruling:
    """Both together give the best alignment with the Transformer."""
    found = {name: outcomes[name].alignment for name in LACKING}
    told = ", ".join(f"{name} {written(one, '{:+.3f}')}" for name, one in found.items())
    number = f"CKA with full minus CKA of two seeds of full: {told}; 0 is as similar as another seed"
    return Ruling(all_of(opposite(decide(one, ALIKE)) for one in found.values()), number)


class PaperClaim(NamedTuple):
    """A claim, the arms that it is about, and how it is decided."""

    name: str
    text: str
    arms: Sequence[str]
    decide: Callable[[Outcomes], Ruling]


RULES = (
    PaperClaim("drift", "Without residual connections, representations drift", ("no-residual",), drift),
    PaperClaim("explosion", "Without layer normalisation, training explodes", ("no-norm",), explosion),
    PaperClaim("alignment", "Both together give the best alignment with the Transformer", LACKING, alignment),
)


def claims_of(arms: Sequence[ArmResult]) -> tuple[Claim, ...]:
    """Each claim at the arms' own rates, which decide, and at the full arm's."""
    own, shared = ({arm.name: getattr(arm, kind) for arm in arms} for kind in ("own", "shared"))
    return tuple(Claim(rule.name, rule.text, *decided(rule, own), *decided(rule, shared)) for rule in RULES)


def decided(rule: PaperClaim, outcomes: Outcomes) -> Ruling:
    missing = [name for name in rule.arms if name not in outcomes]
    return Ruling("undecided", f"not run: {', '.join(missing)}") if missing else rule.decide(outcomes)


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
