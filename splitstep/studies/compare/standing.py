"""How each arm stands against the first one: its lead with what the looks decide, the noise floor, what larger budgets
change, and how much training it saves. All of it follows from the trials.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...experiments import noise
from ...experiments.experiment import sample
from ...experiments.ladder import Ladder, Multiplier, Trend, leads, multiplier, trend
from ...experiments.looks import Decision, follow, word_of
from ...experiments.noise import Floor, Outlook, in_floors, outlook
from ...experiments.statistics import FEWEST, POWER, Bounds, Estimate, detectable, jointly
from ...experiments.trials import Trial, figure_on, observed
from ...experiments.tuning import tune
from ...notation import shortened
from ...tasks.measures import Metric, title_of
from .design import AT, NATS, Design, looks_of, losses_of
from .result import Comparison, Row
from .sentence import Finding, Unit

Figures = Mapping[int, float]  # of each seed that has one


class Arms(NamedTuple):
    """The trials of a comparison by arm, budget and purpose; all but the first arm are compared with it."""

    trials: Sequence[Trial]
    metric: Metric
    design: Design = Design()

    @property
    def names(self) -> list[str]:
        """The arms in order."""
        return list(dict.fromkeys(one.arm for one in self.trials))

    def of(self, arm: str, budget: float, role: str = "") -> list[Trial]:
        """The trials of an arm at a budget."""
        return [one for one in self.trials if (one.arm, one.budget, one.role) == (arm, budget, role)]

    def figures(self, arm: str, budget: float, role: str = "") -> Figures:
        """The test figure of each seed that finished with a finite one."""
        return sample(observed(self.of(arm, budget, role)), figure_on("test", self.metric)).values

    def lost(self, arm: str) -> set[int]:
        """The seeds that ended without a figure at the largest budget."""
        budget = self.design.largest
        return {one.seed for one in self.of(arm, budget)} - self.figures(arm, budget).keys()

    def leads(self, arm: str, budget: float) -> dict[int, float]:
        """The lead over the first arm, seed by seed."""
        first = self.figures(self.names[0], budget)
        return leads(self.figures(arm, budget), first, self.metric.higher_is_better)

    def decision(self, arm: str) -> Decision:
        """What the looks decide at the largest budget."""
        first, *others = self.names
        ours, theirs = ({one.seed for one in self.of(each, self.design.largest)} for each in (arm, first))
        seeds = sorted(ours & theirs)
        return follow(
            self.leads(arm, self.design.largest),
            seeds,
            looks_of(self.design, max(FEWEST, len(seeds)), len(others)),
            self.design.margin,
            self.lost(arm),
            self.lost(first),
            Bounds(self.metric.least, self.metric.greatest),
        )

    @property
    def still_open(self) -> list[str]:
        """The arms that no look has decided yet."""
        return [arm for arm in self.names[1:] if self.decision(arm).word == "open"]

    @property
    def floor(self) -> Floor | None:
        """How far two arms that are the same lie apart."""
        first, budget = self.names[0], self.design.largest
        return noise.noise_floor(
            self.figures(first, budget), self.figures(first, budget, "null") if self.design.null else None
        )

    def trend(self, arm: str) -> Trend | None:
        """What larger budgets change in the lead."""
        budgets, design = self.design.budgets, self.design
        if len(budgets) < 2:
            return None
        found = [self.leads(arm, budget) for budget in budgets]
        return trend(budgets, found, len(self.names) - 1, design.margin, AT if design.until_decided else ())

    def ladder(self, arm: str) -> Ladder:
        """An arm's losses at each number of tokens, of the seeds that have one at all of them."""
        rungs = [self.of(arm, budget)[0] for budget in self.design.budgets]
        found = [self.figures(arm, budget) for budget in self.design.budgets]
        losses = {seed: [own[seed] for own in found] for seed in set.intersection(*map(set, found))}
        return Ladder([float(one.tokens) for one in rungs], losses, float(rungs[0].cost.flops))

    def multiplier(self, arm: str) -> Multiplier | None:
        """How many times as much the worse arm of the largest budget takes for its loss."""
        if len(self.design.budgets) < 2 or self.metric.higher_is_better:
            return None
        pair = arm, self.names[0]
        better, other = pair if sum(self.leads(arm, self.design.largest).values()) >= 0 else pair[::-1]
        return multiplier(self.ladder(better), self.ladder(other))


def arms_of(result: Comparison) -> Arms:
    """The arms of a comparison in which they are named alone."""
    assert result.design is not None
    return Arms(result.trials, result.metric, result.design)


def findings(result: Comparison) -> list[Finding]:
    """What is known of each arm, the first one's own first."""
    if result.design is None:
        return scheme_findings(result)
    arms, (first, *rows), edges = arms_of(result), result.rows, at_edge(result)
    floor = arms.floor
    found = [Finding(first.arm, Decision("open", None, 0), lost=len(arms.lost(first.arm)), at_edge=first.arm in edges)]
    for row in rows:
        decision = arms.decision(row.arm)
        found.append(Finding(
            row.arm,
            decision,
            in_floors(decision.lead, floor) if floor and decision.lead else None,
            arms.trend(row.arm),
            arms.multiplier(row.arm),
            row.cost.flops / first.cost.flops,
            len(arms.lost(row.arm)),
            row.arm in edges,
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


def at_edge(result: Comparison) -> tuple[str, ...]:
    """The arms whose best learning rate is at the end of those tried."""
    arms = arms_of(result)
    losses, rates = losses_of(result.trials, arms.design.budgets[0]), arms.design.rates
    return tune(losses, arms.names, rates).at_edge if rates else ()


def detects(result: Comparison) -> Outlook | None:
    """What the seeds detect by the spread that was found: the largest of the arms that are open."""
    if result.design is None:
        return schemes_detect(result)
    arms, found = arms_of(result), list[Outlook]()
    for arm in arms.still_open:
        own, many = arms.leads(arm, arms.design.largest), len(arms.names) - 1
        if spread := noise.spread(own):
            looks = looks_of(arms.design, len(own), many) if arms.design.until_decided else None
            found.append(outlook(spread, len(own), many, looks))
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
