"""The page of a comparison: complete, offline, safe with any text, and readable on a desk and on a phone."""

import dataclasses
import io
import json
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from made_up import LOSS, comparison, translation, trial
from page_checks import faults, outside, unfolded
from rich.console import Console

from splitstep import SCHEMES, cli
from splitstep.experiments.sections import band_line
from splitstep.experiments.study import STUDIES
from splitstep.experiments.trials import Curve
from splitstep.report.charts import Line
from splitstep.report.diagram import draw
from splitstep.report.drawing import chart_to_html, document_to_page
from splitstep.report.tables import to_markdown, to_terminal
from splitstep.schemes import scheme
from splitstep.studies.compare.document import differences, quality
from splitstep.studies.compare.result import Comparison
from splitstep.studies.compare.tables import comparison_tables, main_scores, tables_together
from splitstep.studies.orders import orders
from splitstep.studies.slopes import with_slopes

read_comparison = STUDIES["compare"].read


STORED = Path(__file__).parents[2] / "results" / "compare"
WIDTHS = (1280, 390)
HOSTILE = "</script><script>document.title='owned'</script><img src=http://192.0.2.1/x onerror=alert(1)>&amp;\"'"
WIDEST = ("lie", "suzuki4", "reversible", "symmetrised-heun", "lie-postnorm", "A*1/7 F/2 A*2/7 F/4 A*4/7 F/4 @rk4")


def made(*schemes: str, seeds: int = 3, **changes: Any) -> Comparison:
    trials = [
        trial(text, seed, 0.97 + 0.003 * i + 0.002 * seed, 0.96, points=60)
        for i, text in enumerate(schemes)
        for seed in range(seeds)
    ]
    return comparison(trials, **changes)


def hostile() -> Comparison:
    """A comparison with such text wherever text comes from outside."""
    result = made("lie", "macaron")
    rows = [dataclasses.replace(row, name=HOSTILE, setting=(HOSTILE,)) for row in result.rows]
    trials = [
        dataclasses.replace(
            t, setting=(HOSTILE,), device=HOSTILE, folder=HOSTILE, valid={HOSTILE: 0.5}, test={HOSTILE: 0.5}
        )
        for t in result.trials
    ]
    return dataclasses.replace(
        result, task=HOSTILE, rows=tuple(rows), trials=tuple(trials), sweep=((HOSTILE,),),
        metric=result.metric._replace(name=HOSTILE), made=dataclasses.replace(
            result.made, command=HOSTILE, commit=HOSTILE, engine=HOSTILE, versions={HOSTILE: HOSTILE},
            recipe={HOSTILE: HOSTILE}, data={HOSTILE: HOSTILE},
        ),
    )  # fmt: skip


PAGES = {
    "three": lambda: made("lie", "macaron", "strang-midpoint"),
    "widest": lambda: made(*WIDEST, match="flops"),
    "one seed": lambda: made("lie", "macaron", seeds=1, match="none"),
    "diverged": lambda: comparison([trial("lie", 0, 0.9), trial("lie", 1, None), trial("macaron", 0, None)]),
    "all diverged": lambda: comparison([trial("lie", 0, None)]),
    "sweep": lambda: comparison(
        [trial("lie", s, 0.9, v, (f"train.lr={v}",), points=20) for s in range(2) for v in (0.1, 0.2)]
    ),
    "bits": lambda: dataclasses.replace(
        made("lie", "macaron"),
        metric=LOSS._replace(name="accuracy"),
    ),
    "translation": lambda: translation(5),
    "translation, one seed": lambda: translation(1),
    "hostile": hostile,
}


@pytest.mark.slow
@pytest.mark.parametrize("width", [WIDTHS[-1], *(pytest.param(one, marks=pytest.mark.nightly) for one in WIDTHS[:-1])])
@pytest.mark.parametrize("name", PAGES)
def test_a_browser_is_content_with_the_page(look: Any, tmp_path: Path, name: str, width: int) -> None:
    file = PAGES[name]().save_page(tmp_path)
    page = look(file, width)
    assert faults(page) + outside(page, "h1, h2, p, pre, dl, .scroll, .plot, figure") == []
    assert page.evaluate("[...document.images].length") == 0
    smallest = page.evaluate(
        """Math.min(...[...document.querySelectorAll('td, th, p, small, dd')]
        .map(e => parseFloat(getComputedStyle(e).fontSize)))"""
    )
    assert smallest >= 11


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
def test_hovering_tells_step_mean_and_interval_on_every_chart(look: Any, tmp_path: Path, width: int) -> None:
    file = STORED / "wikitext2" / "result.json"
    result = read_comparison(json.loads(file.read_text()), str(file))
    page = unfolded(look(result.save_page(tmp_path), width))
    said = dict[str, str]()
    for chart in page.query_selector_all(".chart"):
        area, tip = chart.query_selector(".area"), chart.query_selector(".tip")
        assert not tip.is_visible()
        area.scroll_into_view_if_needed()
        area.hover()
        assert tip.is_visible()
        inside = tip.bounding_box()
        assert 0 <= inside["x"] <= inside["x"] + inside["width"] <= width
        said[chart.get_attribute("id")] = tip.inner_text()
        page.mouse.move(0, 0)
        assert not tip.is_visible()
    assert len(said) == 7
    number = r"[-+]?[\d.]+%?"
    three = rf"{number} \[{number}, {number}\]"
    for name in ("chart-train", "chart-valid", "chart-metric"):
        assert re.match(rf"step [\d,]+ · mean \[least, greatest seed\]\nlie: {three}", said[name])
    for name in ("chart-training-difference", "chart-validation-difference"):
        assert re.match(rf"step [\d,]+ · mean \[95% interval\]\nmacaron: {three}", said[name])
    costs = [f"FLOPs per token {row.cost.flops:,}" for row in result.rows]
    assert any(cost in said["chart-flops"] for cost in costs)


@pytest.mark.slow
def test_the_arrow_keys_move_along_a_chart(look: Any, tmp_path: Path) -> None:
    page = unfolded(look(made("lie", "macaron").save_page(tmp_path), 1280))
    area = page.query_selector("#chart-train .area")
    area.focus()
    for step in (10, 20, 30):
        page.keyboard.press("ArrowRight")
        assert page.query_selector("#chart-train .tip").inner_text().startswith(f"step {step} ")
    page.keyboard.press("Escape")
    assert not page.query_selector("#chart-train .tip").is_visible()


@pytest.mark.slow
def test_paper_has_all_evidence_and_a_link_opens_its_own(look: Any, tmp_path: Path) -> None:
    page = look(made("lie", "macaron").save_page(tmp_path), 1280)
    folds = "[...document.querySelectorAll('details')].map((one) => one.open)"
    assert len(page.evaluate(folds)) > 4
    page.evaluate(f"addEventListener('beforeprint', () => {{ window.printed = {folds}; }})")
    page.pdf()
    assert all(page.evaluate("window.printed"))
    assert not any(page.evaluate(folds))  # as it was
    page.evaluate("location.hash = 'all-runs'")
    page.wait_for_function("document.querySelector('#all-runs').open")
    assert page.evaluate(folds).count(True) == 1


@pytest.mark.slow
def test_a_dark_screen_has_a_dark_page_and_words_that_can_be_read(look: Any, tmp_path: Path) -> None:
    file = made("lie", "macaron").save_page(tmp_path)
    lines = {}
    for colours in ("light", "dark"):
        page = look(file, 1280, colours)
        lines[colours] = page.evaluate("getComputedStyle(document.querySelector('.plot .line')).stroke")
        assert (colours, faults(page)) == (colours, [])
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
        assert dark == (colours == "dark")
        ink = page.evaluate("getComputedStyle(document.querySelector('figure svg line')).stroke")
        assert (ink == "rgb(29, 36, 51)") == (colours == "light")
    assert lines["light"] != lines["dark"]


@pytest.mark.slow
def test_hostile_text_stays_text(look: Any, tmp_path: Path) -> None:
    file = hostile().save_page(tmp_path)
    page = look(file, 1280)
    assert page.evaluate("document.querySelector('h1').textContent").startswith(HOSTILE)
    assert page.evaluate("document.title").startswith(HOSTILE)
    assert page.evaluate("document.querySelector('pre').textContent") == HOSTILE
    assert page.evaluate("document.querySelector('.legend span').textContent").startswith("</script>")


def test_the_page_has_every_part_and_asks_for_nothing(tmp_path: Path) -> None:
    result = made("lie", "macaron", "strang-midpoint")
    text = result.save_page(tmp_path).read_text()
    own = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    for heading in ("Training loss", "Validation accuracy", "Validation loss, difference to lie", "Losses at the end",
                    "Quality against cost", "The schemes", "What was matched", "All runs",
                    "How to reproduce"):  # fmt: skip
        assert f"<h2>{heading}</h2>" in own
    for row in result.rows:
        assert row.test is not None
        assert f"{row.test.mean:.2%}" in own
        assert f"{row.cost.flops:,}" in own
    assert "+0.30 points" in own
    assert "splitstep compare --task digits" in re.sub(r"</?span[^>]*>", "", own)  # options are in one piece
    assert set(re.findall(r"(?:src|href)=[^ >]*", own)) == {'href="data:,"'}
    assert len(text) < 200_000
    assert text.count("<script>") == 1
    assert os.listdir(tmp_path) == ["report.html"]


@pytest.mark.parametrize("seeds", [5, 1])
def test_a_page_of_translators_has_every_test_set(seeds: int) -> None:
    result = translation(seeds)
    own = re.sub(r"<script.*?</script>", "", document_to_page(result.document()), flags=re.DOTALL)
    assert "<h2>Test sets</h2>" in own
    for one in result.tests:
        name = "lie" if one.scheme == "A F" else "macaron"
        assert f'{one.split}<small>1,000 lines</small></th><td class="text" data-head="scheme"><span>{name}<' in own
        for pair in one.pairs:
            assert f"{pair.seed}: {pair.difference:+.2f}, p {pair.p:.3f}" in own
    assert "[-0.35, +0.71]" in own
    assert ("over seeds and a paired bootstrap over sentences" in own) == (seeds > 1)
    assert ("over sentences alone: there is only one seed" in own) == (seeds == 1)
    assert ("(sentences alone)</small>" in own) == (seeds == 1)
    assert "40.50*" in own  # sacreBLEU against references that are no published text
    assert f"40.50<small>{'[40.10, 40.90]' if seeds > 1 else '(one seed)'}</small>" in own  # the metric has no star
    assert "tok:13a" in own
    assert "Validation BLEU" not in own  # nobody computed it within the run
    assert "the mean of 10, steps 5,010 to 6,000" in own
    assert "Test sets" not in document_to_page(made("lie").document())


def test_a_page_tells_of_runs_that_diverged() -> None:
    text = document_to_page(PAGES["diverged"]().document())
    assert "Diverged, and left out of the means: 2 runs." in text
    assert "1 of 2 diverged" in text
    assert "1 of 1 diverged" in text
    assert text.count("<span>diverged<small>step 3</small><small>loss nan</small><small>layer 0</small></span>") == 2


@pytest.mark.parametrize("text", [*SCHEMES, "=A =F", "D/2 A F D/2", "1/3(A F) + 2/3(F A)", "A/2 C/2 F C/2 A/2 @heun"])
def test_every_scheme_can_be_drawn(text: str) -> None:
    s = scheme(text)
    root = ElementTree.fromstring(draw(s))
    tag = "{http://www.w3.org/2000/svg}"
    boxes = root.findall(f"{tag}rect")
    parts = [part for _, program in s.branches for part in program]
    moves = [move for _, program in s.plan for move in program]
    assert len(boxes) == sum(len(move.fields) for move in moves)
    words = [t.text for t in root.findall(f"{tag}text")]
    for name in (*s.fields, *s.projections):
        assert any(word in (name, f"={name}") for word in words)
    staged = [m for m, p in zip(moves, parts, strict=True) if getattr(p, "tableau", None) and p.tableau.name != "euler"]
    nodes = [c for c in root.findall(f"{tag}circle") if c.get("r") == "2.6"]
    assert len(nodes) == sum(len(m.stages) for m in staged)
    width, height = float(root.get("width", "0")), float(root.get("height", "0"))
    for box in boxes:
        x, y, w, h = (float(box.get(k, "nan")) for k in ("x", "y", "width", "height"))
        assert 0 <= x <= x + w <= width
        assert 0 <= y <= y + h <= height


def test_bands_run_from_the_least_to_the_greatest() -> None:
    curves = [Curve((1, 2, 3), (5.0, 3.0, 1.0)), Curve((1, 2), (7.0, 1.0))]
    assert band_line("a", curves) == Line("a", [1, 2, 3], [6.0, 2.0, 1.0], [5.0, 1.0, 1.0], [7.0, 3.0, 1.0])
    assert band_line("a", []) == Line("a", [], [])


def test_differences_are_paired_by_seed_and_keep_late_ones_in_sight() -> None:
    """Whatever their seeds have in common drops out; a run that the other row lacks counts for nothing."""
    steps = tuple(range(1, 101))
    result = made("lie", "macaron")

    def curve(scheme: str, seed: int) -> Curve:
        other = scheme != "A F"
        return Curve(steps, tuple(seed + other * (5.0 * (step < 5) - 0.02 - 0.01 * seed) for step in steps))

    trials = [dataclasses.replace(t, train_loss=curve(t.scheme, t.seed)) for t in result.trials]
    chart = differences(dataclasses.replace(result, trials=tuple(trials)), "train_loss", "", "")
    [line] = chart.lines
    assert line.x == list(steps)
    assert line.y[-1] == pytest.approx(-0.03)
    half = 4.302653 * 0.01 / 3**0.5  # Student's t of two degrees of freedom
    assert (line.low[-1], line.high[-1]) == pytest.approx((-0.03 - half, -0.03 + half), abs=1e-6)
    assert chart.y.shown is not None
    low, high = chart.y.shown
    assert -0.07 < low < -0.03 - half < high < 0.02
    assert "reach beyond the chart" in chart_to_html(chart)
    fewer = [t for t in trials if (t.scheme, t.seed) != ("A F", 2)]
    [line] = differences(dataclasses.replace(result, trials=tuple(fewer)), "train_loss", "", "").lines
    assert line.y[-1] == pytest.approx(-0.025)
    assert not line.low  # two pairs have no interval
    assert differences(made("lie"), "train_loss", "", "").lines == []


def test_points_stand_at_their_counted_cost() -> None:
    result = made("lie", "macaron", "strang-midpoint")
    chart = quality(result, "flops", "FLOPs per token", "")
    assert [point.x for point in chart.points] == [row.cost.flops for row in result.rows]
    assert len({point.x for point in quality(result, "parameters", "parameters", "").points}) == 1


def markdown(results: list[tuple[str, Comparison]], name: str = "") -> str:
    """The tables that `splitstep report --markdown` prints, or those of one name."""
    found = tables_together(results)
    return "\n".join(to_markdown(table) for table in found if (table.name == name if name else not table.detail))


def after_verdicts(text: str) -> str:
    return text.split("\n\n", 1)[1]


def markdown_tables(text: str) -> list[list[list[str]]]:
    """The cells of each table of a Markdown text that has nothing but tables."""
    rows = [[re.split(r"(?<!\\)\|", line) for line in block.splitlines()] for block in text.strip().split("\n\n")]
    assert all(row[0] == row[-1] == "" for block in rows for row in block)
    return [[[cell.strip() for cell in row[1:-1]] for row in block] for block in rows]


def test_losses_are_of_the_last_tenth_and_paired_by_seed() -> None:
    runs = [(text, seed) for text in ("lie", "macaron") for seed in (0, 1, 2)]
    trials = [trial(text, seed, 0.9) for text, seed in runs] + [trial("parallel", 0, None)]
    losses = {("A F", 0): 2.0, ("A F", 1): 3.0, ("A F", 2): 2.5, ("A+F", 0): 1.0}
    losses |= {("F0/2 A F1/2", 0): 1.9, ("F0/2 A F1/2", 1): 2.7, ("F0/2 A F1/2", 2): 2.3}
    given = [(t, losses[t.scheme, t.seed]) for t in trials]
    trials = [
        dataclasses.replace(
            t, steps=100, train_loss=Curve((90, 95, 100), (9.0, v - 0.5, v + 0.5)),
            valid={"loss": 2 * v, "accuracy": 0}, test=t.test and {"loss": 5.0, "accuracy": 0},
        )
        for t, v in given
    ]  # fmt: skip
    [[heads, _, lie, macaron, lost]] = markdown_tables(markdown([("mine", comparison(trials))], "losses"))
    assert heads[:4] == ["task", "scheme", "training loss", "against the first [95%]"]
    assert lie == ["digits", "lie, `A F`", "2.500", "", "5.000", "", "5.000", ""]
    half = 4.30265 * 0.1 / 3**0.5  # Student's t of two degrees of freedom, times the standard error of -.1, -.3 and -.2
    assert macaron[2:6] == [
        "2.300", f"-0.200 [{-0.2 - half:+.3f}, {-0.2 + half:+.3f}]", "4.600",
        f"-0.400 [{-0.4 - 2 * half:+.3f}, {-0.4 + 2 * half:+.3f}]",
    ]  # fmt: skip
    assert macaron[6:] == ["5.000", "+0.000 (too few seeds: all equal)"]
    assert lost[1].endswith("1 of 1 diverged")
    assert lost[2:] == ["-", "", "-", "", "-", ""]


def test_comparisons_with_the_same_scores_share_a_table_of_test_sets() -> None:
    one, other = translation(5), dataclasses.replace(translation(1), task="another")
    [_, _, *rows], [_, _, *test_rows], signatures = markdown_tables(markdown([("one", one), ("other", other)]))
    assert [row[0] for row in rows if row[0]] == ["multi30k", "another"]
    assert len(test_rows) == len(one.tests) + len(other.tests)
    assert {row[0].split()[0] for row in test_rows if row[0]} == {"multi30k", "another"}
    resigned = tuple(
        dataclasses.replace(test, scores=tuple(s._replace(signature="new") for s in test.scores))
        for test in other.tests
    )
    apart = markdown([("one", one), ("other", dataclasses.replace(other, tests=resigned))])
    assert len(markdown_tables(apart)) == 5
    assert len(signatures) == 2 + len(main_scores(one))


def test_two_comparisons_of_one_task_are_told_apart_by_their_directories(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("small", "large"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_text(json.dumps(made("lie").json()))
    task = made("lie").task
    assert cli.main(["report", str(tmp_path / "small"), "--markdown"]) == 0
    assert [row[0] for row in markdown_tables(after_verdicts(capsys.readouterr().out))[0]][2:] == [task]
    assert cli.main(["report", str(tmp_path / "small"), str(tmp_path / "large"), "--markdown"]) == 0
    [[_, _, *rows]] = markdown_tables(after_verdicts(capsys.readouterr().out))
    assert [row[0] for row in rows] == [f"{task} (small)", f"{task} (large)"]


def test_the_verb_draws_again_from_the_document_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = made("lie", "macaron")
    (tmp_path / "result.json").write_text(json.dumps(result.json()))
    assert cli.main(["report", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((tmp_path / "result.json").read_text())
    assert (tmp_path / "report.html").read_text() == document_to_page(result.document())
    assert cli.main(["report", str(tmp_path), "--out", str(tmp_path / "there")]) == 0
    assert "macaron" in capsys.readouterr().out
    assert sorted(os.listdir(tmp_path / "there")) == ["report.html", "result.json"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "result.json is not JSON"),
        ("[7]", "is not the result of a study: name a directory"),
        ('{"study": "compare", "format": 2}', "has format 2"),
        ('{"study": "compare", "format": 1}', "result.json is damaged: the document has no match."),
    ],
)
def test_a_directory_without_a_comparison_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, message: str
) -> None:
    (tmp_path / "result.json").write_text(content)
    assert cli.main(["report", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "report.html").exists()


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the values of a document stand, of lists the first ones."""
    inner = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, one in inner:
        yield (*at, key)
        yield from places(one, (*at, key))


@pytest.mark.parametrize(
    "name", ["translation, one seed", *(pytest.param(one, marks=pytest.mark.nightly) for one in ("diverged", "sweep"))]
)
@pytest.mark.parametrize("wrong", ["nothing", None, "x", -1, []], ids=str)
def test_a_document_with_anything_wrong_is_drawn_or_refused_in_one_line(name: str, wrong: Any) -> None:
    text = json.dumps(PAGES[name]().json())
    refused = list[str]()
    for *path, last in places(json.loads(text)):
        document = inner = json.loads(text)
        for key in path:
            inner = inner[key]
        if wrong == "nothing":
            del inner[last]
        else:
            inner[last] = wrong
        try:
            result = read_comparison(document, "there/result.json")
        except ValueError as error:
            refused.append(str(error))
        else:
            markdown([("it", result)])
            Console(file=io.StringIO()).print(to_terminal(comparison_tables(result)))
    assert len(refused) > 50
    assert all(line.startswith("there/result.json ") and "\n" not in line for line in refused)


def test_the_page_of_orders_draws_errors_whose_slope_is_the_order() -> None:
    result = with_slopes(orders(("lie", "strang-midpoint", "rk4")))
    text = document_to_page(result.document())
    assert re.findall(r'class="guide-name"[^>]*>(.*?)<', text) == ["order 1", "order 2", "order 4"]
    assert len(re.findall(r'<path class="guide"', text)) == 3
    for row in result.rows:
        assert row.errors is not None
        assert row.order is not None
        assert math.log2(row.errors[3] / row.errors[4]) == pytest.approx(row.order, abs=0.1)
        assert f"{row.name}: {row.errors[2]:.2e}" in text
    assert 'class="guide' not in document_to_page(orders(("lie",)).document())
