"""The page of arms that are named alone: verdict, forest plot and table have the same intervals."""

import dataclasses
import math
import re

import numpy as np
import pytest
from made_up import comparison, trial
from scipy import stats

from splitstep.experiments.looks import Looks
from splitstep.report.charts import Forest
from splitstep.report.drawing import document_to_page, document_to_terminal
from splitstep.studies.compare.design import AT, NATS, Design
from splitstep.studies.compare.result import Comparison, rows_of

EFFECTS = {"lie": 0.0, "macaron": 0.10, "strang": 0.001, "parallel": -0.05}
SEEDS = 8


def arms(design: Design, seeds: int = SEEDS) -> Comparison:
    """Arms with these leads, and noise of one hundredth; lower is better."""
    random, trials = np.random.default_rng(4), []
    for arm, lead in EFFECTS.items():
        for seed in range(seeds):
            loss = 2.0 - lead + 0.01 * float(random.normal())
            made = dataclasses.replace(trial(arm, seed, 0.5), arm=arm, budget=1.0)
            trials.append(dataclasses.replace(made, test={"loss": loss}, valid={"loss": loss}))
    return comparison(trials, metric=NATS, design=design, rows=tuple(rows_of(trials, NATS)))


def figures(result: Comparison, arm: str) -> np.ndarray:
    return np.array([one.test["loss"] for one in result.trials if one.arm == arm and one.test])


def student(values: np.ndarray, level: float) -> tuple[float, ...]:
    """The mean and scipy's interval."""
    return values.mean(), *stats.t.interval(1 - level, len(values) - 1, values.mean(), stats.sem(values))


@pytest.mark.parametrize(("design", "level"), [
    (Design(), 0.05 / 3), (Design(until_decided=True), Looks(many=3).level), (Design(margin=0.02), 0.05 / 3)
], ids=["fixed", "looks", "margin"])  # fmt: skip
def test_the_intervals_of_the_table_are_those_of_the_verdict_and_the_plot(design: Design, level: float) -> None:
    result = arms(design, 12 if design.until_decided else SEEDS)
    document = result.document()
    [table] = [one for one in document.tables if one.title == "Figures"]
    [plot] = [one for one in document.charts if isinstance(one, Forest)]
    assert document.verdict is not None
    for record, bar in zip(table.records()[1:], plot.bars, strict=True):
        arm = bar.name
        ends = re.findall(r"[+-]\d\.\d{3}", record["against the first, [95%]".replace(", [", " [")])
        apart = figures(result, arm) - figures(result, "lie")
        looks = [student(apart[:n], level) for n in (AT if design.until_decided else (SEEDS,))]
        exact = next((one for one in looks if one[1] > 0 or one[2] < 0), looks[-1])
        assert [float(end) for end in ends] == pytest.approx(exact, abs=6e-4)
        assert (bar.value, bar.high, bar.low) == pytest.approx(tuple(-end for end in exact), rel=1e-6)
        if arm in ("macaron", "parallel"):
            near, far = sorted(abs(end) for end in exact[1:])
            assert f" by {abs(exact[0]):.3f} nats [{near:.3f}, {far:.3f}]" in document.verdict.sentence


def test_the_page_says_that_intervals_hold_at_once_and_that_two_are_equal() -> None:
    result = arms(Design(margin=0.03))
    assert "strang is within 0.030 nats of lie" in result.document().verdict.sentence
    assert "paired by seed and hold for all arms at once" in " ".join(document_to_terminal(result.document()).split())
    page = document_to_page(result.document())
    assert 'id="chart-leads"' in page
    assert "The noise floor is" in page
    assert "unpaired" in page


@pytest.mark.parametrize("figure", [math.nan, math.inf])
def test_a_run_with_a_figure_that_is_no_number_is_lost(figure: float) -> None:
    result = arms(Design())
    bad = next(one for one in result.trials if (one.arm, one.seed) == ("macaron", 2))
    trials = [dataclasses.replace(one, test={"loss": figure}) if one is bad else one for one in result.trials]
    found = comparison(trials, metric=NATS, design=Design(), rows=tuple(rows_of(trials, NATS)))
    sentence = found.document().verdict.sentence
    assert "macaron is ahead" in result.document().verdict.sentence
    assert "macaron is ahead" not in sentence
    assert "macaron diverged in 1 run" in sentence
    assert "nan" not in sentence
