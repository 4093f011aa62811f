"""A verdict is one sentence made from the figures, at the top of the terminal, of Markdown and of the page."""

import dataclasses
import json
import re
from html import unescape
from pathlib import Path

import pytest
from made_up import LOSS, comparison, translation, trial

from splitstep import cli
from splitstep.experiments.statistics import detectable, jointly
from splitstep.experiments.trials import Trial
from splitstep.report.drawing import document_to_page
from splitstep.studies.compare.document import verdict_of
from splitstep.studies.compare.result import Comparison, rows_of
from splitstep.studies.orders import orders, orders_verdict
from splitstep.studies.slopes import with_slopes

NOISE = (0.000, 0.004, -0.004, 0.002)


def compared(*gaps: tuple[str, float], seeds: int = 4) -> Comparison:
    """Lie-Trotter at 90%, and schemes that are ahead of it by these differences, with noise."""
    runs = [trial("lie", seed, 0.9) for seed in range(seeds)]
    runs += [trial(text, seed, 0.9 + gap + NOISE[seed]) for text, gap in gaps for seed in range(seeds)]
    return alike(runs)


def alike(runs: list[Trial]) -> Comparison:
    """Runs that cost the same."""
    return comparison([dataclasses.replace(one, cost=runs[0].cost) for one in runs])


def test_a_scheme_is_ahead_or_behind_by_its_difference_with_its_interval() -> None:
    kind, sentence = verdict_of(compared(("macaron", 0.02)))[:2]
    assert kind == "settled"
    assert sentence == "macaron is ahead of lie by 2.05 points [1.51, 2.59]."
    _, sentence = verdict_of(compared(("macaron", -0.05)))[:2]
    assert sentence.startswith("macaron is behind lie by 4.95 points [")
    runs = compared(("macaron", -0.05)).trials  # of a loss less is ahead
    metric = LOSS._replace(name="accuracy")
    found = comparison(runs, metric=metric, rows=tuple(rows_of(runs, metric)))
    assert verdict_of(found).sentence.startswith("macaron is ahead of lie by 0.050 accuracy [0.0")


def test_an_open_comparison_says_what_its_seeds_can_detect() -> None:
    result = compared(("macaron", 0.0))
    difference = result.rows[1].difference
    assert difference is not None
    size = detectable(difference)
    assert size is not None
    assert verdict_of(result)[:2] == (
        "open",
        f"No significant difference; four seeds detect one of {100 * size:.2f} points with 80% power.",
    )


def test_with_several_schemes_the_intervals_are_corrected() -> None:
    """A difference that excludes zero by itself may not do so as one of four."""
    assert verdict_of(compared(("macaron", 0.006), seeds=4)).kind == "settled"
    many = compared(("macaron", 0.006), ("parallel", 0.0), ("strang", 0.0), ("heun", 0.0))
    assert verdict_of(many).kind == "open"
    result = compared(("macaron", 0.1), ("parallel", 0.0), ("strang", -0.1))
    kind, sentence = verdict_of(result)[:2]
    assert kind == "settled"
    ends = jointly(result.rows[1].difference, 3)  # pyright: ignore[reportArgumentType]
    assert sentence.startswith(f"macaron is ahead of lie by 10.05 points [{100 * ends[1]:.2f}, {100 * ends[2]:.2f}]; ")
    assert "; strang is behind lie by 9.95 points [" in sentence
    assert "; intervals hold for all arms at once; no significant difference for parallel; four seeds" in sentence


@pytest.mark.parametrize(("seeds", "said"), [(1, "One seed is"), (2, "Two seeds are")])
def test_too_few_seeds_are_no_certainty(seeds: int, said: str) -> None:
    found = verdict_of(compared(("macaron", 0.3), seeds=seeds))
    assert found[:2] == ("too few", f"{said} too few: use 3 or more.")


def test_equal_seeds_are_no_certainty() -> None:
    runs = [trial(text, seed, value) for text, value in (("lie", 0.9), ("macaron", 0.8)) for seed in range(5)]
    kind, sentence = verdict_of(alike(runs))[:2]
    assert kind == "too few"
    assert sentence == "Five seeds are too few for the first look, or show no spread."


def test_runs_without_figures_are_told() -> None:
    lost = [trial("parallel", 0, None)]
    assert verdict_of(comparison(lost)).sentence == "No run of parallel gave a figure."
    _, sentence = verdict_of(alike([*compared(("macaron", 0.05)).trials, *lost]))[:2]
    assert "no significant difference for parallel; parallel diverged in 1 run" in sentence
    _, sentence = verdict_of(alike([trial("lie", 0, 0.9), *lost]))[:2]
    assert sentence == "No arm has a figure to compare with lie's; parallel diverged in 1 run."
    assert verdict_of(compared()).sentence == (
        "lie has a test accuracy of 90.00% (too few seeds: all equal); nothing was compared."
    )


def test_a_translator_s_verdict_is_over_sentences_and_seeds() -> None:
    kind, sentence = verdict_of(translation(5))[:2]
    assert kind == "open"
    assert "; five seeds detect one of 0.7" in sentence
    assert verdict_of(translation(1)).kind == "too few"  # though its interval over sentences exists


def test_the_verdict_of_orders_is_the_largest_gap() -> None:
    kind, sentence = orders_verdict(with_slopes(orders(("lie", "strang-midpoint"))))[:2]
    assert kind == "settled"
    assert re.fullmatch(
        r"2 schemes of orders 1 to 2: the measured slopes are within 0.0\d of the orders computed from the notation\.",
        sentence,
    )
    assert orders_verdict(orders(("lie",))).sentence.startswith("1 scheme of order 1, computed")
    assert orders_verdict(orders(("=A =F",))).sentence.startswith("1 scheme of no order")


def test_it_is_the_same_sentence_three_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = compared(("macaron", 0.0))
    (tmp_path / "result.json").write_text(json.dumps(result.json()))
    sentence = verdict_of(result).sentence
    assert cli.main(["report", str(tmp_path)]) == 0
    assert " ".join(capsys.readouterr().out.split()).startswith(sentence)
    assert cli.main(["report", str(tmp_path), "--markdown"]) == 0
    assert capsys.readouterr().out.startswith(f"{sentence}\n\n| task")
    assert cli.main(["report", str(tmp_path), str(tmp_path), "--markdown"]) == 0
    assert capsys.readouterr().out.startswith(f"- {tmp_path.name}: {sentence}\n- {tmp_path.name}: {sentence}\n\n| task")
    [shown] = re.findall(
        r'</h1>\n<p class="verdict headline open">(.*?)</p>', page := document_to_page(result.document())
    )
    assert unescape(shown) == result.document().headline
    assert unescape(page).count(f"<p>{sentence}</p>") == 1  # below the picture, with its figures
