"""The sentence of a comparison: made of figures, word by word."""

import pytest

from splitstep.experiments.ladder import Move, Multiplier, Trend
from splitstep.experiments.looks import Decision, Word
from splitstep.experiments.noise import Floor, Outlook
from splitstep.experiments.statistics import Estimate
from splitstep.report.charts import Axis, Forest, LineChart
from splitstep.report.tables import Table
from splitstep.studies.compare.lead_charts import against_budget, forest, lead_record
from splitstep.studies.compare.sentence import NATS, Finding, Unit, compared_in_words

AHEAD = Decision("ahead", Estimate(0.021, 0.012, 0.030, 8), 8)
BEHIND = Decision("behind", Estimate(-0.021, -0.030, -0.012, 8), 8)
OPEN = Decision("open", Estimate(0.002, -0.006, 0.010, 8), 8)
INSIDE = Decision("inside", Estimate(0.002, -0.003, 0.007, 8), 8)
EIGHT = Outlook(0.010, 0.007, 0.020, 8, 0.8)
LIE = Finding("lie", Decision("open", None, 8))
FLOORS = Estimate(3.02, 1.5, 6.0, 8)


def moved(word: Move, *means: float) -> Trend:
    """A trend with these means; its slope is shown."""
    slope = Estimate(means[-1] - means[0], *sorted((0.5 * (means[-1] - means[0]), 2 * (means[-1] - means[0]))), 8)
    return Trend(word, slope, tuple(Estimate(one, None, None, 8) for one in means))


def said(*arms: Finding, margin: float | None = None, detects: Outlook | None = EIGHT, first: Finding = LIE) -> str:
    return compared_in_words(first, arms, detects, margin).sentence


def test_the_sentences_of_the_guide() -> None:
    trend = moved("fades", 0.040, 0.030, 0.021)
    assert compared_in_words(LIE, [Finding("macaron", AHEAD, FLOORS, trend)], EIGHT)[:2] == (
        "settled",
        "macaron is ahead of lie by 0.021 nats [0.012, 0.030], 3 noise floors; "
        "the lead fades with the budget (0.040, 0.030, 0.021).",
    )
    assert compared_in_words(LIE, [Finding("macaron", OPEN)], EIGHT)[:2] == (
        "open",
        "No significant difference; eight seeds detect one of 0.010 nats with 80% power.",
    )


def test_one_arm_behind_one_that_is_equal_and_several_at_once() -> None:
    assert said(Finding("mine", BEHIND, FLOORS._replace(mean=-1.04))) == (
        "mine is behind lie by 0.021 nats [0.012, 0.030], 1 noise floor."
    )
    assert said(Finding("rms", INSIDE), margin=0.01) == "rms is within 0.010 nats of lie (0.002 [-0.003, 0.007])."
    found = said(Finding("macaron", AHEAD), Finding("rms", OPEN), Finding("mine", BEHIND), Finding("post", OPEN))
    assert found == (
        "macaron is ahead of lie by 0.021 nats [0.012, 0.030]; mine is behind lie by 0.021 nats [0.012, 0.030]; "
        "intervals hold for all arms at once; no significant difference for rms and post; eight seeds detect one of "
        "0.010 nats with 80% power."
    )


@pytest.mark.parametrize(("decision", "word", "means", "text"), [
    (AHEAD, "grows", (0.01, 0.02), "the lead grows with the budget (0.010, 0.020)"),
    (BEHIND, "fades", (-0.04, -0.02), "lie's lead fades with the budget (0.040, 0.020)"),
    (BEHIND, "grows", (-0.01, -0.02), "lie's lead grows with the budget (0.010, 0.020)"),
    (OPEN, "fades", (0.04, 0.002), "mine's lead fades with the budget (0.040, 0.002)"),
    (AHEAD, "moves", (-0.001, 0.021), "the difference moves towards mine as the budget grows (-0.001, 0.021)"),
    (OPEN, "moves", (0.020, 0.002), "the difference moves towards lie as the budget grows (0.020, 0.002)"),
    (BEHIND, "turns", (0.03, -0.02),
     "the lead turns with the budget: mine's at the smallest, lie's at the largest (0.030, -0.020)"),
    (AHEAD, "turns", (-0.03, 0.02),
     "the lead turns with the budget: lie's at the smallest, mine's at the largest (0.030, -0.020)"),
    (AHEAD, "holds", (0.021, 0.021), "the lead holds over the budgets (0.021, 0.021)"),
    (OPEN, "holds", (0.002, 0.002), "the difference holds over the budgets (0.002, 0.002)"),
    (AHEAD, "open", (0.03, 0.021), "how the budget changes it is open (0.030, 0.021)"),
])  # fmt: skip
def test_each_trend(decision: Decision, word: Move, means: tuple[float, ...], text: str) -> None:
    assert said(Finding("mine", decision, trend=moved(word, *means))).endswith(f"; {text}.")


def test_one_budget_and_an_open_trend_of_an_open_arm_say_nothing() -> None:
    plain = said(Finding("mine", OPEN))
    assert said(Finding("mine", OPEN, trend=moved("open", 0.01))) == plain
    assert said(Finding("mine", OPEN, trend=moved("open", 0.01, 0.02))) == plain


@pytest.mark.parametrize(("decision", "worse"), [(AHEAD, "lie"), (BEHIND, "mine")])
def test_the_worse_arm_takes_more_tokens(decision: Decision, worse: str) -> None:
    mean = Estimate(1.7, 1.4, 2.06, 8)
    found = said(Finding("mine", decision, multiplier=Multiplier({}, mean, "tokens")))
    assert found.endswith(f"[0.012, 0.030], for whose loss {worse} takes 1.70 [1.40, 2.06] times the tokens.")
    few = Multiplier({}, Estimate(1.7, None, None, 1), "FLOPs")
    assert said(Finding("mine", decision, multiplier=few)).endswith(f"{worse} takes 1.70 times the FLOPs.")
    lost = Multiplier({}, None, "tokens", "a run diverged with seed 3")
    assert said(Finding("mine", decision, multiplier=lost)) == said(Finding("mine", decision))


def test_what_could_not_be_matched_diverged_or_ended_at_the_edge_is_said() -> None:
    arms = [Finding("swiglu", AHEAD, cost=1.333), Finding("mine", OPEN, cost=2.0, lost=1, at_edge=True)]
    assert said(*arms, first=LIE._replace(lost=2, at_edge=True)).startswith(
        "swiglu is ahead of lie at 1.33 times its FLOPs per token by 0.021 nats"
    )
    assert said(*arms, first=LIE._replace(lost=2, at_edge=True)).endswith(
        "; lie diverged in 2 runs; mine diverged in 1 run; mine takes 2 times lie's FLOPs per token; "
        "the best rate of lie and mine is at the end of those tried."
    )
    assert "FLOPs" not in said(Finding("mine", AHEAD, cost=1.004))


def few(n: int, word: Word = "open") -> Finding:
    return Finding("mine", Decision(word, Estimate(0.1, None, None, n) if n else None, 0))


@pytest.mark.parametrize(("n", "text"), [
    (0, "No arm has a figure to compare with lie's."),
    (1, "One seed is too few: use 3 or more."),
    (2, "Two seeds are too few: use 3 or more."),
    (3, "Three seeds are too few for the first look, or show no spread."),
])  # fmt: skip
def test_too_few_seeds_are_told(n: int, text: str) -> None:
    assert compared_in_words(LIE, [few(n)], None)[:2] == ("too few", text)


def test_points_and_large_numbers_of_seeds() -> None:
    points = Unit("points", "{:.2f}", 100)
    found = compared_in_words(LIE, [Finding("mine", OPEN)], EIGHT._replace(seeds=24), unit=points).sentence
    assert found == "No significant difference; 24 seeds detect one of 1.00 points with 80% power."
    assert said(Finding("mine", OPEN), detects=None) == "No significant difference."


def test_the_charts_have_the_figures_of_the_sentence() -> None:
    floor, trend = Floor(0.007, 0.005, 0.014, 8), moved("fades", 0.040, 0.030, 0.021)
    trend = trend._replace(means=tuple(one._replace(low=one.mean - 0.01, high=one.mean + 0.01) for one in trend.means))
    arms = [Finding("macaron", AHEAD, FLOORS, trend), Finding("mine", few(2).decision), few(0)]
    drawn, table = forest("lie", arms, floor)
    assert isinstance(drawn, Forest)
    assert [tuple(bar) for bar in drawn.bars] == [
        ("macaron", 0.021, 0.012, 0.030, pytest.approx(floor.band(8))), ("mine", 0.1, None, None, floor.band(2))
    ]  # fmt: skip
    assert drawn.note.endswith("The noise floor is 0.007 nats [0.005, 0.014], by lie trained again with other weights.")
    assert table.records()[0]["interval"] == "[+0.012, +0.030]"
    assert forest("lie", [few(0)], floor) == []
    assert forest("lie", arms, None)[0].bars[0].band == 0
    chart = against_budget("lie", arms, Axis("tokens", log=True), (1e6, 3e6, 9e6), NATS)
    assert isinstance(chart, LineChart)
    assert [tuple(line) for line in chart.lines] == [
        ("macaron", (1e6, 3e6, 9e6), [0.04, 0.03, 0.021], [one.low for one in trend.means],
         [one.high for one in trend.means])
    ]  # fmt: skip


def test_of_many_arms_the_sentence_leaves_trends_and_tokens_to_the_table() -> None:
    trend, tokens = moved("grows", 0.01, 0.021), Multiplier({}, Estimate(1.7, 1.4, 2.06, 8), "tokens")
    arms = [Finding(name, AHEAD, None, trend, tokens) for name in ("a", "b", "c", "d")]
    assert "grows" in said(*arms[:3])
    assert "tokens" in said(*arms[:3])
    assert "grows" not in said(*arms)
    assert "tokens" not in said(*arms)
    still = [one._replace(decision=OPEN) for one in arms]
    assert "a's lead grows" in said(*still[:3])
    assert "grows" not in said(*still)


def test_the_table_has_what_is_known_of_each_arm() -> None:
    lost = Multiplier({}, None, "tokens", "a run diverged with seed 3")
    saved = Multiplier({}, Estimate(1.7, 1.4, 2.06, 8), "FLOPs")
    records = Table.of([lead_record("lie", one, NATS) for one in (
        None,
        Finding("macaron", AHEAD, FLOORS, moved("fades", 0.040, 0.020), saved),
        Finding("mine", OPEN, None, moved("moves", 0.02, 0.0), lost),
        Finding("rms", BEHIND, None, moved("grows", -0.02, -0.04)),
        Finding("post", INSIDE, None, moved("holds", 0.002, 0.002)),
    )]).records()  # fmt: skip
    assert [list(one.values()) for one in records] == [
        ["", "", ""],
        ["ahead, +3.0 [+1.5, +6.0]", "macaron's lead fades, -0.020 [-0.040, -0.010]", "1.70 [1.40, 2.06], FLOPs"],
        ["open", "moves towards lie, -0.020 [-0.040, -0.010]", "none, a run diverged with seed 3"],
        ["behind", "lie's lead grows, -0.020 [-0.040, -0.010]", ""],
        ["inside", "holds, +0.000 [+0.000, +0.000]", ""],
    ]
    assert next(iter(records[0])) == "decided, noise floors [95%]"
