"""Forest plots: everything at its place, on the page and in characters."""

import json
import math
import re

import pytest

from splitstep.report.charts import Axis, Bar, Forest
from splitstep.report.document import Document
from splitstep.report.drawing import chart_to_html, document_to_page, document_to_terminal, figures
from splitstep.report.forest import forest_table
from splitstep.report.plots import MUTED
from splitstep.report.result import figure_of
from splitstep.report.tables import to_markdown

NOTE = "Grey: where lie itself is found in 95% of cases."
ROWS = [Bar("macaron", 0.4, 0.2, 0.6, 0.1), Bar("mine", -0.1, -0.5, 0.3, 0.1), Bar("alone", 1.0)]
CHART = Forest("Arms", Axis("lead, nats", "{:+.1f}", shown=(-1.0, 1.0)), ROWS, "mean [95% interval]", "arms", NOTE)


def numbers(pattern: str, drawn: str) -> list[tuple[float, ...]]:
    return [tuple(map(float, one)) for one in re.findall(pattern, drawn)]


def test_values_intervals_and_bands_stand_at_their_places_and_hovering_tells_them() -> None:
    """The axis is from -1 to 1: 0.4 is at 70% and its interval goes from 60% to 80%, which excludes zero."""
    drawn = chart_to_html(CHART)
    assert numbers(r'"whisker across" style="left:([\d.]+)%;width:([\d.]+)%', drawn) == [(60, 20), (25, 40)]
    assert [x for x, _ in numbers(r'"dot" style="left:([\d.]+)%;top:([\d.]+)%', drawn)] == [70, 45, 100]
    bands = numbers(r'<rect class="band"[^>]* x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', drawn)
    assert bands == [(450, 0, 100, 333.3), (450, 333.3, 100, 333.3)]
    assert '<path class="level" d="M500 0V1000"/>' in drawn
    assert NOTE in drawn
    assert re.findall(r'"dot" style="[^"]*--c:var\(--c(-?\d)\)', drawn) == ["0", str(MUTED), str(MUTED)]
    [tips] = re.findall(r'data-tips="([^"]*)"', drawn)
    found = json.loads(tips.replace("&quot;", '"'))
    assert found[0][2:] == [
        "macaron · mean [95% interval]", [[0, "+0.4 [+0.2, +0.6]"], [MUTED, "by chance up to 0.1"]]
    ]  # fmt: skip
    assert found[2][3] == [[0, "+1.0"]]


def test_the_figures_to_download_have_the_band() -> None:
    columns, rows = figures(CHART)
    assert columns == ("name", "lead, nats", "low", "high", "band")
    assert rows[0] == ["macaron", 0.4, 0.2, 0.6, 0.1]


def test_the_text_form_has_the_same_places() -> None:
    """33 characters from -1 to 1: sixteen to a unit, zero at 16."""
    rows = [row[-1] for row in forest_table(CHART).rows]
    assert rows == [
        "··············░░│░░├──●───┤······",
        "········├─────●──────┤···········",
        "················│···············●",
    ]


def test_terminals_and_markdown_have_the_text_form_and_pages_the_drawing() -> None:
    table = forest_table(CHART)
    document = Document("Arms", [CHART, table])
    assert "●" in document_to_terminal(document)
    assert "[+0.2, +0.6]" in document_to_terminal(document)
    assert NOTE in document_to_terminal(document)
    assert re.search(r"\| macaron \| \+0.4 \| \[\+0.2, \+0.6\] \| `[·░│├─●┤]{33}` \|", to_markdown(table))
    page = document_to_page(document)
    assert "●" not in page
    assert 'class="whisker across"' in page


def test_what_is_not_a_number_has_no_row() -> None:
    bad = [Bar("a", math.nan), Bar("b", 1.0, -math.inf, 2.0), Bar("c", 1.0, 0.5, 1.5)]
    assert [row[0] for row in forest_table(Forest("", Axis(), bad)).rows] == ["c"]
    assert forest_table(Forest("", Axis(), [])).rows == []


def test_it_is_a_figure_of_matplotlib() -> None:
    pytest.importorskip("matplotlib")
    [axes] = figure_of(CHART).axes
    assert [one.get_text() for one in axes.get_yticklabels()] == ["macaron", "mine", "alone"]
    spans = [line.get_xdata() for one in axes.containers for line in one.lines[1] if len(line.get_xdata()) == 1]
    assert [float(x[0]) for x in spans[:4]] == pytest.approx([0.2, 0.6, -0.5, 0.3])
