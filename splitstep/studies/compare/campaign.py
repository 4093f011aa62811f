"""The runs of a comparison, stage by stage: learning rates are chosen, then all budgets are run with every seed; more
seeds follow for the arms that are open, if the comparison is to go on until they are decided.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ...experiments.experiment import Setting, setting_of
from ...experiments.plan import Entrant, Planned
from ...experiments.trials import RunRecord, Trial
from ...experiments.tuning import Losses, best_two, choose, tune
from ...tasks.measures import Metric
from .design import AT, TUNING, Design, losses_of
from .standing import Arms

Settings = Mapping[str, Sequence[Setting]]  # those that an arm is trained at


def planned_stages(entrants: Sequence[Entrant], seeds: Sequence[int], design: Design) -> list[list[Planned]]:
    """All runs that a comparison may need, stage by stage. A run that chooses a rate takes as long at any; one rate is
    counted that a best one at the end of those tried adds."""
    counts = [len(design.rates) + 1, *[2] * (len(design.budgets) - 1)] if design.rates else []
    stages = [
        [run for one in entrants for run in one.runs([seeds[0] + TUNING], (), budget, "tune") * count]
        for budget, count in zip(design.budgets, counts, strict=False)
    ]
    for own in parts_of(seeds, design):
        runs = [run for one in entrants for budget in design.budgets for run in one.runs(own, (), budget)]
        stages.append(runs + (entrants[0].runs(own, (), design.largest, "null") if design.null else []))
    return stages


def parts_of(seeds: Sequence[int], design: Design) -> list[Sequence[int]]:
    """The seeds that each look adds; all of them at once, if there is one look."""
    return [seeds[before:at] for before, at in pairwise((0, *AT))] if design.until_decided else [seeds]


@dataclass
class Campaign:
    """`execute` trains runs, or reads those that an earlier call has finished. Without rates to try, each entrant is
    trained at all settings of a sweep."""

    entrants: Sequence[Entrant]
    seeds: Sequence[int]
    design: Design
    metric: Metric
    execute: Callable[[Sequence[Planned]], list[RunRecord]]
    sweep: Sequence[Setting] = ()
    ended: dict[str, tuple[Planned, RunRecord]] = field(default_factory=dict)

    @property
    def trials(self) -> list[Trial]:
        """The trials that have ended, one entrant after another."""
        order = {(one.scheme, one.arm): place for place, one in enumerate(self.entrants)}
        found = [record.trial for _, record in self.ended.values()]
        return sorted(found, key=lambda trial: order[trial.scheme, trial.arm])

    def run(self) -> None:
        """All stages."""
        settings = self.tuned()
        for entrants, seeds in self.stages():
            self.do([
                run
                for budget in self.design.budgets
                for one in entrants
                for setting in settings[budget][one.arm]
                for run in one.runs(seeds, setting, budget)
            ] + [
                run
                for setting in settings[self.design.largest][self.entrants[0].arm]
                for run in self.entrants[0].runs(seeds, setting, self.design.largest, "null")
                if self.design.null
            ])  # fmt: skip

    def do(self, runs: Sequence[Planned]) -> None:
        """Execute runs, and keep what they ended with."""
        for run, record in zip(runs, self.execute(runs), strict=True):
            self.ended[run.folder] = run, record

    def stages(self) -> Iterator[tuple[Sequence[Entrant], Sequence[int]]]:
        """Which entrants are trained with which seeds; the next stage depends on how the one before ended."""
        first, *others = self.entrants
        for own in parts_of(self.seeds, self.design):
            yield [first, *others], own
            still = Arms(self.trials, self.metric, self.design).still_open if self.design.until_decided else ()
            others = [one for one in others if one.arm in still]
            if not others:
                return

    def tuned(self) -> dict[float, Settings]:
        """The settings of each arm at each budget: all of a sweep or, if rates are tried, the best one. The first
        budget tries all rates; each larger one the best two of the one before."""
        arms = [one.arm for one in self.entrants]
        if not self.design.rates:
            return dict.fromkeys(self.design.budgets, dict.fromkeys(arms, self.sweep or [()]))
        first, *larger = self.design.budgets
        while missing := tune(self.losses(first), arms, self.design.rates).missing:
            self.do_pairs(first, missing)
        best = {first: tune(self.losses(first), arms, self.design.rates).best}
        for before, budget in zip(self.design.budgets, larger, strict=False):
            tried = best_two(self.losses(before), arms)
            self.do_pairs(budget, choose(self.losses(budget), tried).missing)
            best[budget] = choose(self.losses(budget), tried).best
        return {budget: {arm: [setting_of(rate)] for arm, rate in own.items()} for budget, own in best.items()}

    def do_pairs(self, budget: float, pairs: Sequence[tuple[str, float]]) -> None:
        """Train arms at rates, with a seed that the verdict does not use."""
        entrants, seed = {one.arm: one for one in self.entrants}, self.seeds[0] + TUNING
        self.do([run for arm, rate in pairs for run in entrants[arm].runs([seed], setting_of(rate), budget, "tune")])

    def later(self, runs: Sequence[Planned]) -> list[Planned]:
        """The runs that are known to come after these; what a look may add is not."""
        if runs[0].role != "tune":
            return []
        stages, budgets = planned_stages(self.entrants, self.seeds, self.design), self.design.budgets
        return [run for own in stages[budgets.index(runs[0].budget) + 1 : len(budgets) + 1] for run in own]

    def losses(self, budget: float) -> Losses:
        """The validation loss of each arm at each rate that was tried at a budget."""
        return losses_of(self.trials, budget)
