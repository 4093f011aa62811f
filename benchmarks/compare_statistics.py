"""How often the statistics of a comparison are wrong: by simulation, through the functions that the comparison calls.

    python benchmarks/compare_statistics.py --out results/compare/statistics.json

Losses of arms are normal; seeds go together with correlation 0.8, and all arms share the first one. Each bar is a share
of draws that may not be above a level, may not be below it, or is to be near it, up to three standard errors. The last
ones are of rules that we do not use, and have to miss their bars.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from splitstep.experiments.ladder import Trend, leads, trend
from splitstep.experiments.looks import Decision, Looks, follow
from splitstep.experiments.noise import in_floors, noise_floor, outlook
from splitstep.experiments.statistics import estimate, student_t
from splitstep.support.provenance import stamp

DRAWS, SEEDS, TOGETHER = 10_000, 8, 0.8
APART = math.sqrt(2 * (1 - TOGETHER))  # the standard deviation of a difference
POINTS = 0.05  # a share may be so far from what was planned
MANY = 14
BUDGETS = (1, 3, 9)
Rule = Callable[[dict[int, float], int], Decision]  # of the leads of an arm, and how many arms there are


class Bar(NamedTuple):
    """What a share of draws must be."""

    what: str
    share: float
    must: str  # at most, at least, near
    level: float

    def holds(self, draws: int) -> bool:
        room = 3 * math.sqrt(self.level * (1 - self.level) / draws)
        over, under = self.share - self.level - room, self.level - self.share - room
        return {"at most": over <= 0, "at least": under <= 0, "near": max(over, under) <= POINTS}[self.must]


def fixed(seeds: int = SEEDS, margin: float | None = None) -> Rule:
    return lambda found, many: follow(found, range(seeds), Looks((seeds,), many), margin)


def looked(margin: float | None = None) -> Rule:
    return lambda found, many: follow(found, range(12), Looks(many=many), margin)


def plain_at_each_look(found: dict[int, float], many: int) -> Decision:
    """What we do not do: Student's usual interval at each look."""
    for n in Looks().at:
        decision = follow(found, range(n), Looks((n,), many))
        if decision.word != "open":
            break
    return decision


class Draws:
    """Simulated comparisons."""

    def __init__(self, draws: int) -> None:
        self.draws, self.random = draws, np.random.default_rng(20261119)

    def losses(self, seeds: int, arms: int = 1) -> np.ndarray:
        """Of the first arm and others with no difference [draws, 1 + arms, seeds]."""
        common = self.random.normal(0, math.sqrt(TOGETHER), (self.draws, 1, seeds))
        return common + self.random.normal(0, math.sqrt(1 - TOGETHER), (self.draws, 1 + arms, seeds))

    def leads(self, seeds: int, lead: float = 0.0, arms: int = 1) -> Iterator[list[dict[int, float]]]:
        """Of each arm over the first, whose true lead is given, draw by draw."""
        for first, *others in self.losses(seeds, arms):
            own = dict(enumerate(first.tolist()))
            yield [leads(dict(enumerate((one - lead).tolist())), own, higher=False) for one in others]

    def share(self, found: Iterable[bool]) -> float:
        return sum(found) / self.draws

    def decided(self, rule: Rule, words: Sequence[str], lead: float = 0.0, arms: int = 1, many: int = 0) -> float:
        """How often the rule says one of these words of some arm."""
        every = self.leads(12, lead, arms)
        return self.share(any(rule(one, many or arms).word in words for one in own) for own in every)

    def covered(self, rule: Rule, lead: float) -> float:
        """How often the interval of the lead has the true one inside."""
        every = (rule(one, 1).lead for [one] in self.leads(12, lead))
        return self.share(one is not None and one.low <= lead <= one.high for one in every)

    def trends(self, means: Sequence[float], margin: float | None, at: tuple[int, ...]) -> Iterator[Trend]:
        """Trends of leads with these true means: seeds have leads of their own, half of which all budgets share. With
        looks, the seeds are those at which the largest budget was decided."""
        seeds = max((SEEDS, *at))
        own = self.random.normal(0, APART / math.sqrt(2), (self.draws, 1, seeds))
        every = own + self.random.normal(0, APART / math.sqrt(2), (self.draws, len(means), seeds))
        for rows in every + np.array(means)[:, None]:
            found = [dict(enumerate(row.tolist())) for row in rows]
            used = follow(found[-1], range(seeds), Looks(at)).seeds if at else seeds
            yield trend(BUDGETS, [{seed: row[seed] for seed in range(used)} for row in found], 1, margin, at)


def decisions(draw: Draws) -> Iterator[Bar]:
    """False decisions, coverage and power."""
    wrong = ("ahead", "behind")
    for name, rule in (("fixed seeds", fixed()), ("looks", looked())):
        yield Bar(f"false decisions, {name}", draw.decided(rule, wrong), "at most", 0.05)
        yield Bar(f"any of {MANY} arms decided falsely, {name}", draw.decided(rule, wrong, arms=MANY), "at most", 0.05)
    for spreads in (0.5, 1, 2, 8):
        margin = spreads * APART
        for name, rule in (("fixed seeds", fixed(margin=margin)), ("looks", looked(margin))):
            share = draw.decided(rule, ("inside",), lead=margin)
            yield Bar(f"equal at a margin of {spreads} deviations, {name}", share, "at most", 0.05)
    for spreads in (0, 0.5, 1, 2):
        for name, rule in (("fixed seeds", fixed()), ("looks", looked(0.5 * APART))):
            share = draw.covered(rule, spreads * APART)
            yield Bar(f"coverage at a lead of {spreads} deviations, {name}", share, "at least", 0.95)


def powers(draw: Draws) -> Iterator[Bar]:
    """How often the planned difference is found, if the plan knows the spread."""
    true = noise_floor({0: -APART, 1: 0.0, 2: APART}, dict.fromkeys(range(3), 0.0))
    assert true is not None, "three differences show a spread"
    assert math.isclose(true.sd, APART)
    for many in (1, MANY):
        for seeds in (3, SEEDS, 12):
            size = outlook(true, seeds, many).size
            share = draw.decided(fixed(seeds), ["ahead"], size, many=many)
            yield Bar(f"power, {seeds} seeds, {many} arms", share, "near", 0.8)
        size = outlook(true, 12, many, Looks(many=many)).size
        yield Bar(f"power, looks, {many} arms", draw.decided(looked(), ["ahead"], size, many=many), "near", 0.8)


def words(draw: Draws) -> Iterator[Bar]:
    """How often each word about budgets is wrong, for true leads that make it wrong."""
    far, step = 8 * APART, 1.0 * APART
    wrong = {
        "no lead": ((0, 0, 0), None, ("grows", "fades", "moves", "turns")),
        "a lead that holds": ((far, far, far), None, ("grows", "fades", "moves", "turns")),
        "a lead out of nothing": ((0, step, 2 * step), None, ("grows", "fades", "turns")),
        "a large lead out of nothing": ((0, far, 2 * far), None, ("grows", "fades", "turns")),
        "a lead that fades to nothing": ((2 * far, far, 0), None, ("grows", "moves", "turns")),
        "a change as large as the margin": ((0, step / 2, step), step, ("holds",)),
        "a small change as large as the margin": ((far, far, far + 8 * step), 8 * step, ("holds",)),
    }
    for what, (means, margin, bad) in wrong.items():
        for name, at in (("fixed seeds", ()), ("looks", Looks().at)):
            said = [one.word for one in draw.trends(means, margin, at)]
            for word in bad:
                yield Bar(f"{word!r} of {what}, {name}", draw.share(one == word for one in said), "at most", 0.05)


def floors(draw: Draws) -> Iterator[Bar]:
    """Coverage of the noise floor, and of a lead's ratio to it."""
    lead, floor, ratio = 0.7 * APART, list[bool](), list[bool]()
    for first, again, arm in draw.losses(SEEDS, 2):
        own = dict(enumerate(first.tolist()))
        found = noise_floor(own, dict(enumerate(again.tolist())))
        mean = estimate((first - arm + lead).tolist())
        assert found is not None
        assert mean is not None
        floor.append(found.low <= APART <= found.high)
        within = in_floors(mean, found)
        ratio.append(within.low is not None and within.high is not None and within.low <= 0.7 <= within.high)
    yield Bar("coverage of the noise floor", draw.share(floor), "at least", 0.95)
    yield Bar("coverage of a lead in noise floors", draw.share(ratio), "at least", 0.95)


def not_used(draw: Draws) -> Iterator[Bar]:
    """Rules that have to miss the bars: Student's interval at each look, and a margin made of the first arm's seeds."""
    share = draw.decided(plain_at_each_look, ("ahead", "behind"))
    yield Bar("false decisions, plain t at each look", share, "at most", 0.05)
    margin, found = math.sqrt(2), list[bool]()  # the true spread of the first arm's seeds, times the root of two
    for first, arm in draw.losses(12):
        guessed = margin * float(np.std(first, ddof=1))
        decision = fixed(12, guessed)(dict(enumerate((first - arm + margin).tolist())), 1)
        found.append(decision.word == "inside")
    yield Bar("equal at a margin that is estimated", draw.share(found), "at most", 0.05)


def simulated(draws: int = DRAWS) -> dict[str, Any]:
    """All shares, whether each is as it must be, and what the rules that we do not use give."""
    draw = Draws(draws)

    def rows(bars: Iterable[Bar]) -> list[dict[str, Any]]:
        return [{**bar._asdict(), "holds": bar.holds(draws)} for bar in bars]

    ours = [bar for kind in (decisions, powers, words, floors) for bar in kind(draw)]
    bounds = {"looks": Looks().at, "pocock": Looks().bounds, "student": [student_t(n, 0.95) for n in Looks().at]}
    return {"draws": draws, "bounds": bounds, "bars": rows(ours), "not_used": rows(not_used(draw))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=DRAWS)
    chosen = parser.parse_args()
    found = {**simulated(chosen.draws), **stamp()}
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    for row in [*found["bars"], *found["not_used"]]:
        end = "holds" if row["holds"] else "missed"
        print(f"{row['share']:.4f} {row['must']} {row['level']:g} {end}: {row['what']}")


if __name__ == "__main__":
    main()
