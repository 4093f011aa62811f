"""The sentence of a comparison of arms: who is ahead of the first and by how much, or what its seeds would show."""

from collections.abc import Sequence
from typing import NamedTuple

from ...experiments.ladder import EQUAL_COST, Multiplier, Trend
from ...experiments.looks import Decision
from ...experiments.noise import Outlook
from ...experiments.statistics import FEWEST, Estimate
from ...report.document import Verdict
from ...support.words import counted, listed

NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
SHORT = 3  # arms of which the sentence says all that is known; of more the tables do


class Unit(NamedTuple):
    """How a difference is written, what it is in, and what it is multiplied by, as 100 for points of a percentage."""

    name: str = "nats"
    form: str = "{:.3f}"
    scale: float = 1.0

    def number(self, value: float) -> str:
        return self.form.format(value * self.scale + 0.0)

    def size(self, value: float) -> str:
        return f"{self.number(value)} {self.name}"

    def numbers(self, values: Sequence[float]) -> str:
        return ", ".join(map(self.number, values))


NATS = Unit()


class Finding(NamedTuple):
    """What is known of one arm beside the first: its lead, in noise floors too, the lead's trend, the tokens that the
    better one saves, its cost over the first's, runs that diverged, and whether its best rate was at an end."""

    arm: str
    decision: Decision
    floors: Estimate | None = None
    trend: Trend | None = None
    multiplier: Multiplier | None = None
    cost: float = 1.0
    lost: int = 0
    at_edge: bool = False


def compared_in_words(
    first: Finding, arms: Sequence[Finding], detects: Outlook | None, margin: float | None = None, unit: Unit = NATS
) -> Verdict:
    """The whole sentence. `detects` is what the seeds of open differences would show; the first arm's own finding says
    how many of its runs diverged, and where its best rate was."""
    decided = [one for one in arms if one.decision.word != "open"]
    still = [one for one in arms if one.decision.word == "open"]
    if not decided and all(one.decision.lead is None or one.decision.lead.low is None for one in still):
        kind, clauses = "too few", [too_few(first, still)]
    else:
        told = arms if len(arms) <= SHORT else ()
        kind = "settled" if decided else "open"
        short = [one if told else one._replace(trend=None, multiplier=None) for one in decided]
        clauses = [clause(first.arm, one, margin, unit) for one in short]
        clauses += ["intervals hold for all arms at once"] if decided and len(arms) > 1 else []
        clauses += [not_told(still, decided, detects, unit)] if still else []
        clauses += [text for one in still if told and (text := in_trend(first.arm, one, unit))]
    clauses += remarks(first, arms)
    return Verdict(kind, f"{'; '.join(clauses)}.")


def too_few(first: Finding, still: Sequence[Finding]) -> str:
    """What is missing to tell anything."""
    seeds = max((one.decision.lead.n for one in still if one.decision.lead), default=0)
    if seeds == 0:
        return f"No arm has a figure to compare with {first.arm}'s"
    if seeds >= FEWEST:
        return f"{in_words(seeds).capitalize()} seeds are too few for the first look, or show no spread"
    return f"{'Two seeds are' if seeds > 1 else 'One seed is'} too few: use {FEWEST} or more"


def in_words(n: int) -> str:
    return NUMBERS[n] if n < len(NUMBERS) else f"{n:,}"


def clause(first: str, one: Finding, margin: float | None, unit: Unit) -> str:
    """What is decided of an arm, at what cost, and what the budget does to it."""
    lead = one.decision.lead
    assert lead is not None, "a decision has a lead"
    at_cost = "" if abs(one.cost - 1) < EQUAL_COST else f" at {one.cost:.3g} times its FLOPs per token"
    if one.decision.word == "inside":
        assert margin is not None, "only a margin makes arms equal"
        ends = interval(lead, unit)
        said = f"{one.arm} is within {unit.size(margin)} of {first}{at_cost} ({unit.number(lead.mean)} {ends})"
    else:
        over = lead if lead.mean > 0 else lead.turned
        where = f"ahead of {first}" if lead.mean > 0 else f"behind {first}"
        said = f"{one.arm} is {where}{at_cost} by {unit.size(over.mean)} {interval(over, unit)}{floors(one)}"
        said += saving(first, one)
    trend = in_trend(first, one, unit)
    return f"{said}; {trend}" if trend else said


def interval(lead: Estimate, unit: Unit) -> str:
    return f"[{unit.numbers([end for end in (lead.low, lead.high) if end is not None])}]"


def floors(one: Finding) -> str:
    if one.floors is None:
        return ""
    text = f"{abs(one.floors.mean):.2g}"
    return f", {text} noise floor{'' if text == '1' else 's'}"


def saving(first: str, one: Finding) -> str:
    """How many times the tokens the worse of the two takes."""
    found = one.multiplier
    if found is None or found.mean is None:
        return ""
    times, low, high = (None if end is None else f"{end:.2f}" for end in found.mean[:3])
    ends = f" [{low}, {high}]" if low else ""
    worse = first if one.decision.word == "ahead" else one.arm
    return f", for whose loss {worse} takes {times}{ends} times the {found.unit}"


def in_trend(first: str, one: Finding, unit: Unit) -> str:
    """What the budget does to a lead, with the lead at each budget; empty if there are fewer than two budgets."""
    if one.trend is None or len(one.trend.means) < 2:
        return ""
    means = [mean.mean for mean in one.trend.means]
    owner, other, turn = (one.arm, first, 1) if means[0] > 0 else (first, one.arm, -1)
    own = [turn * mean for mean in means]
    ahead = one.decision.word == "ahead" and owner == one.arm
    lead, word = "the lead" if ahead else f"{owner}'s lead", one.trend.word
    if word in ("grows", "fades"):
        return f"{lead} {word} with the budget ({unit.numbers(own)})"
    if word == "turns":
        ends = f"{owner}'s at the smallest, {other}'s at the largest"
        return f"the lead turns with the budget: {ends} ({unit.numbers(own)})"
    if word == "moves":
        goal = one.arm if one.trend.slope and one.trend.slope.sign > 0 else first
        return f"the difference moves towards {goal} as the budget grows ({unit.numbers(means)})"
    if word == "holds":
        return f"{lead if ahead else 'the difference'} holds over the budgets ({unit.numbers(own if ahead else means)})"
    return f"how the budget changes it is open ({unit.numbers(means)})" if one.decision.word != "open" else ""


def not_told(still: Sequence[Finding], decided: Sequence[Finding], detects: Outlook | None, unit: Unit) -> str:
    """That the others are open, and what would have been shown."""
    none = "No significant difference"
    if decided:
        none = f"{none.lower()} for {listed([one.arm for one in still])}"
    if detects is None:
        return none
    seen = f"{in_words(detects.seeds)} seeds detect one of {unit.size(detects.size)} with {detects.power:.0%} power"
    return f"{none}; {seen}"


def remarks(first: Finding, arms: Sequence[Finding]) -> list[str]:
    """What diverged, what open arms cost, and whose best rate was at an end of those tried."""
    every = [first, *arms]
    found = [f"{one.arm} diverged in {counted(one.lost, 'run')}" for one in every if one.lost]
    dear = [one for one in arms if one.decision.word == "open" and abs(one.cost - 1) >= EQUAL_COST]
    found += [f"{one.arm} takes {one.cost:.3g} times {first.arm}'s FLOPs per token" for one in dear]
    edge = [one.arm for one in every if one.at_edge]
    return [*found, f"the best rate of {listed(edge)} is at the end of those tried"] if edge else found
