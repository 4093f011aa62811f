"""How each arm stands against the first one: its lead with what the looks decide, the noise floor, what larger budgets
change, and how much training it saves. All of it follows from the trials.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...experiments import noise
from ...experiments.experiment import sample
from ...experiments.ladder import Ladder, Multiplier, Trend, leads, multiplier, trend
from ...experiments.looks import Decision, follow, word_of
from ...experiments.noise import Floor, in_floors
from ...experiments.outlook import Outlook, outlook
from ...experiments.statistics import FEWEST, POWER, Bounds, Estimate, detectable, jointly
from ...experiments.trials import Trial, figure_on, observed
from ...experiments.tuning import tune
from ...notation import shortened
from ...tasks.measures import Metric, title_of
from .design import AT, NATS, Design, looks_of, losses_of
from .sentence import Finding, Unit

if TYPE_CHECKING:
    from .result import Comparison, Row

Figures = dict[int, float]  # the test figure of each seed that finished with one


class Arms(NamedTuple):
    """The trials of a comparison by arm, budget and purpose."""

    trials: Sequence[Trial]
    metric: Metric

    def of(self, arm: str, budget: float, role: str = "") -> list[Trial]:
        """The trials of an arm at a budget."""
        return [one for one in self.trials if (one.arm, one.budget, one.role) == (arm, budget, role)]

    def figures(self, arm: str, budget: float, role: str = "") -> Figures:
        """The test figure of each seed that finished with a finite one."""
        return dict(sample(observed(self.of(arm, budget, role)), figure_on("test", self.metric)).values)

    def lost(self, arm: str, budget: float) -> set[int]:
        """The seeds that ended without a figure."""
        return {one.seed for one in self.of(arm, budget)} - self.figures(arm, budget).keys()


def findings(result: Comparison) -> list[Finding]:
    """What is known of each arm, the first one's own first."""
    if result.design is None:
        return scheme_findings(result)
    design, rows = designed(result), result.rows
    arms, (first, *others) = Arms(result.trials, result.metric), [row.arm for row in rows]
    edges, floor, largest = at_edge(result), floor_of(result), design.largest
    found = [Finding(first, Decision("open", None, 0), lost=len(arms.lost(first, largest)), at_edge=first in edges)]
    for arm, row in zip(others, rows[1:], strict=True):
        decision = decision_of(arms, arm, first, design, len(others))
        found.append(Finding(
            arm,
            decision,
            in_floors(decision.lead, floor) if floor and decision.lead else None,
            trend_of(arms, arm, first, design, len(others)),
            multiplier_of(arms, arm, first, design),
            row.cost.flops / rows[0].cost.flops,
            len(arms.lost(arm, largest)),
            arm in edges,
        ))  # fmt: skip
    return found


def scheme_findings(result: Comparison) -> list[Finding]:
    """What is known of rows that are schemes, perhaps with arms or settings: differences at one number of seeds."""
    first, *others = result.rows
    known = [(row, difference_of(result, row)) for row in others]
    many, found = max(1, sum(one is not None for _, one in known)), list[Finding]()
    for row, one in known:
        lead = None if one is None else joint_lead(one, many, result.metric)
        cost = row.cost.flops / first.cost.flops
        found.append(Finding(
            shortened(row.name), Decision(word_of(lead, None, False, False), lead, lead.n if lead else 0), cost=cost,
            lost=row.diverged,
        ))  # fmt: skip
    return [Finding(shortened(first.name), Decision("open", None, 0), lost=first.diverged), *found]


def difference_of(result: Comparison, row: Row) -> Estimate | None:
    """The difference to the first scheme; of translators that on the first test set, over sentences and seeds."""
    if not result.tests:
        return row.difference
    wanted = result.tests[0].split, row.scheme, row.arm
    return next((one.difference for one in result.tests if (one.split, one.scheme, one.arm) == wanted), None)


def joint_lead(found: Estimate, many: int, metric: Metric) -> Estimate:
    """A difference as a lead, with an interval that holds for so many at once; too few seeds have none, though
    sentences may."""
    wide = jointly(found, many, Bounds(metric.least, metric.greatest))
    lead = wide if metric.higher_is_better else wide.turned
    return lead if lead.n >= FEWEST else lead._replace(low=None, high=None)


def designed(result: Comparison) -> Design:
    """The design of a comparison of arms that are named alone."""
    assert result.design is not None
    return result.design


def at_edge(result: Comparison) -> tuple[str, ...]:
    """The arms whose best learning rate is at the end of those tried."""
    design = designed(result)
    if not design.rates:
        return ()
    return tune(losses_of(result.trials, design.budgets[0]), [row.arm for row in result.rows], design.rates).at_edge


def detects(result: Comparison) -> Outlook | None:
    """What the seeds detect by the spread that was found: the largest of the arms that are open."""
    if result.design is None:
        return schemes_detect(result)
    design, arms = designed(result), Arms(result.trials, result.metric)
    first, *others = [row.arm for row in result.rows]
    found = list[Outlook]()
    for arm in others:
        own = leads(arms.figures(arm, design.largest), arms.figures(first, design.largest), True)
        if decision_of(arms, arm, first, design, len(others)).word == "open" and (spread := noise.spread(own)):
            looks = looks_of(design, len(own), len(others)) if design.until_decided else None
            found.append(outlook(spread, len(own), len(others), looks))
    return max(found, key=lambda one: one.size, default=None)


def schemes_detect(result: Comparison) -> Outlook | None:
    """As `detects`, of rows that are schemes."""
    metric = result.metric
    known = [one for row in result.rows[1:] if (one := difference_of(result, row))]
    still = [one for one in known if one.n >= FEWEST and not joint_lead(one, len(known), metric).sign]
    size = max((size for one in still if (size := detectable(one, len(known)))), default=math.inf)
    if size > (math.inf if metric.least is None or metric.greatest is None else metric.greatest - metric.least):
        return None  # larger than any that there can be
    return None if size == math.inf else Outlook(size, size, size, min(one.n for one in still), POWER)


def unit_of(metric: Metric) -> Unit:
    """How differences of a metric are written."""
    if metric.format.endswith("%}"):
        return Unit("points", metric.format.replace("%}", "f}"), 100.0)
    return Unit("nats" if metric == NATS else title_of(metric), metric.format)


def decision_of(arms: Arms, arm: str, first: str, design: Design, many: int) -> Decision:
    """What the looks decide at the largest budget."""
    budget, metric = design.largest, arms.metric
    seeds = sorted({one.seed for one in arms.of(first, budget)} & {one.seed for one in arms.of(arm, budget)})
    return follow(
        leads(arms.figures(arm, budget), arms.figures(first, budget), metric.higher_is_better),
        seeds,
        looks_of(design, max(FEWEST, len(seeds)), many),
        design.margin,
        arms.lost(arm, budget),
        arms.lost(first, budget),
        Bounds(metric.least, metric.greatest),
    )


def open_arms(trials: Sequence[Trial], design: Design, metric: Metric) -> set[str]:
    """The arms that no look has decided yet."""
    arms = Arms(trials, metric)
    first, *others = dict.fromkeys(one.arm for one in trials)
    return {arm for arm in others if decision_of(arms, arm, first, design, len(others)).word == "open"}


def floor_of(result: Comparison) -> Floor | None:
    """How far two arms that are the same lie apart."""
    design, arms, first = designed(result), Arms(result.trials, result.metric), result.rows[0].arm
    again = arms.figures(first, design.largest, "null") if design.null else None
    return noise.noise_floor(arms.figures(first, design.largest), again)


def trend_of(arms: Arms, arm: str, first: str, design: Design, many: int) -> Trend | None:
    """What larger budgets change in the lead."""
    if len(design.budgets) < 2:
        return None
    found = [
        leads(arms.figures(arm, budget), arms.figures(first, budget), arms.metric.higher_is_better)
        for budget in design.budgets
    ]
    return trend(design.budgets, found, many, design.margin, AT if design.until_decided else ())


def ladder_of(arms: Arms, arm: str, design: Design) -> Ladder:
    """An arm's losses at each number of tokens, of the seeds that have one at all of them."""
    rungs = [arms.of(arm, budget) for budget in design.budgets]
    found = [arms.figures(arm, budget) for budget in design.budgets]
    seeds = set.intersection(*map(set, found))
    cost = rungs[0][0].cost.flops
    return Ladder([float(own[0].tokens) for own in rungs], {s: [own[s] for own in found] for s in seeds}, float(cost))


def multiplier_of(arms: Arms, arm: str, first: str, design: Design) -> Multiplier | None:
    """How many times as much the worse arm of the largest budget takes for its loss."""
    if len(design.budgets) < 2 or arms.metric.higher_is_better:
        return None
    lead = leads(arms.figures(arm, design.largest), arms.figures(first, design.largest), False)
    better, other = (arm, first) if sum(lead.values()) >= 0 else (first, arm)
    return multiplier(ladder_of(arms, better, design), ladder_of(arms, other, design))
