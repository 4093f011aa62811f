"""Charts are values: every one is drawn with its numbers at their places, and hostile text stays text."""

import html
import json
import math
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from splitstep.experiments.sections import dots
from splitstep.experiments.statistics import Estimate
from splitstep.report import charts
from splitstep.report.charts import (
    Axis,
    Bar,
    BarChart,
    Chart,
    ComplexPlane,
    Explained,
    Forest,
    HeatMap,
    Line,
    LineChart,
    ParticleChart,
    Particles,
    Point,
    PointChart,
    Scale,
    SliderChart,
    SmallMultiples,
    Trail,
    TrailChart,
    scale,
)
from splitstep.report.drawing import chart_to_html
from splitstep.report.heat import on_one_scale
from splitstep.report.plots import APART, COLOURS
from splitstep.report.result import figure_of

HOSTILE = "</script><b onclick=\"alert('x')\">&amp;"
LINE = Line("lie", (1, 2, 4), (1.0, 0.1, 0.01), (0.9, 0.09, 0.009), (1.1, 0.2, 0.02))
STEP, LOSS = Axis("step", "{:,.0f}"), Axis("loss", log=True)
CHARTS: dict[str, Chart] = {
    "lines": LineChart("Loss", STEP, LOSS, [LINE], "mean [95% interval]"),
    "empty": LineChart("Nothing", STEP, LOSS, []),
    "not finite": LineChart("Broken", STEP, LOSS, [Line("a", (1, 2, 3), (1.0, math.nan, math.inf))]),
    "constant": LineChart("Flat", STEP, Axis("y"), [Line("a", (1,), (0.0,))]),
    "muted": LineChart("Rank", STEP, LOSS, [LINE, LINE._replace(name="null")], muted=["null"]),
    "points": PointChart("Cost", Axis("FLOPs", "{:,.0f}"), Axis("y", "{:.2%}"), [Point("a", 10, 0.5, 0.4, 0.6)]),
    "broken points": PointChart(
        "points", Axis(), Axis(), [Point("a", 1, 2), Point("b", 2, math.nan), Point("c", math.inf, 2)]
    ),
    "plane": ComplexPlane("Eigenvalues", [("a", [1j, 2 + 0j, -1 - 1j])]),
    "broken plane": ComplexPlane("plane", [("a", [1 + 1j, complex(math.nan, 0), complex(math.inf, 0)])]),
    "bars": BarChart("Bars", Axis("y"), [Bar("a", 2.0, 1.5, 2.5), Bar("b", -1.0)]),
    "broken bars": BarChart("bars", Axis(), [Bar("a", 1), Bar("b", math.nan), Bar("c", 1, 0.5, math.inf)]),
    "broken forest": Forest(
        "forest", Axis(), [Bar("a", 1), Bar("b", math.inf), Bar("c", 1, 0.5, math.inf), Bar("d", 1, band=math.nan)]
    ),
    "forest": Forest(
        "Arms", Axis("lead", "{:+.2f}"), [Bar("a", 0.2, 0.1, 0.3, 0.1), Bar("b", -0.1), Bar(HOSTILE, 0, -1, 1)]
    ),
    "heat": HeatMap("Heat", "column", "row", ["x", "y"], ["1", "2", "3"], [[1.0, -2.0], [0.0, math.nan], [0.5, 2.0]]),
    "trails": TrailChart("Plane", STEP, Axis("y"), Axis("t"), [Trail(1.0, ["1", "2"], [0.0, 1.0], [1.0, math.nan])]),
    "several": SmallMultiples("All", [LineChart(name, STEP, LOSS, [LINE]) for name in ("one", "two")]),
    "slider": SliderChart("Spectra", "layer", [ComplexPlane(name, [("a", [1j, 0.5 + 0j])]) for name in ("one", "two")]),
    "slider of lines": SliderChart("Losses", "run", [LineChart(name, STEP, LOSS, [LINE]) for name in ("one", "two")]),
    "particles": ParticleChart(
        HOSTILE,
        Axis(HOSTILE),
        Axis("y"),
        [(HOSTILE, 0.0), ("layer 1", 1.0)],
        [Particles(HOSTILE, [HOSTILE, "b"], [[0, 1], [2, math.nan]], [[0, 1]] * 2, [[0, 0]] * 2, [[1, math.inf]] * 2)],
    ),
    "explained": Explained(LineChart("Loss", STEP, LOSS, [LINE]), f"x_i^{{2}} < {HOSTILE}", HOSTILE, "loss.csv"),
    "hostile": LineChart(HOSTILE, Axis(HOSTILE), Axis(HOSTILE), [LINE._replace(name=HOSTILE)], HOSTILE, name=HOSTILE),
}


def tips(drawn: str) -> list[list[object]]:
    return json.loads(html.unescape(re.findall(r'data-tips="([^"]*)"', drawn)[0]))


def heights_of(drawn: str) -> list[float]:
    """How far below the top the points of the only line are."""
    [path] = re.findall(r'class="line" style="[^"]*" d="([^"]*)"', drawn)
    return [float(y) for y in re.findall(r" ([-\d.]+)", path)]


@pytest.mark.parametrize("name", CHARTS)
def test_every_chart_is_well_formed_and_loads_nothing(name: str) -> None:
    drawn = chart_to_html(CHARTS[name])
    root = ElementTree.fromstring(f"<div>{drawn}</div>")
    assert {element.tag for element in root.iter()} <= {
        "div", "h2", "h3", "p", "b", "i", "span", "svg", "path", "rect", "ellipse", "button", "input", "label",
        "select", "option", "small", "sub", "sup", "var"
    }  # fmt: skip
    assert not re.search(r"nan|inf|(?:src|href)=", re.sub(r'data-\w+="[^"]*"', "", drawn).lower().replace("finite", ""))


@pytest.mark.parametrize("name", CHARTS)
def test_every_chart_is_a_figure_of_matplotlib(name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    figure = figure_of(CHARTS[name])
    figure.savefig(tmp_path / "chart.png")
    assert any(one.has_data() for one in figure.axes) == (name != "empty")


def test_hovering_tells_the_figures_of_all_lines_at_a_step() -> None:
    other = Line("macaron", (2, 8), (0.5, 0.25))
    found = tips(chart_to_html(LineChart("", STEP, LOSS, [LINE, other], "mean [95% interval]")))
    assert [tip[2] for tip in found] == [f"step {n} · mean [95% interval]" for n in (1, 2, 4, 8)]
    assert found[1][3] == [[0, "lie: 0.1 [0.09, 0.2]"], [1, "macaron: 0.5"]]
    assert found[3][3] == [[1, "macaron: 0.25"]]


def test_losses_stand_on_a_logarithmic_axis() -> None:
    """Equal factors are equal distances."""
    heights = heights_of(chart_to_html(CHARTS["lines"]))
    assert heights[1] - heights[0] == pytest.approx(heights[2] - heights[1], abs=0.2)


def test_zero_has_no_place_on_a_logarithmic_axis_and_the_chart_says_so() -> None:
    exact = LINE._replace(y=(1.0, 0.1, 0.0), low=(0.9, 0.09, -0.1))
    drawn = chart_to_html(LineChart("Loss", STEP, LOSS, [exact]))
    assert "loss, logarithmic" in drawn
    assert "A logarithmic axis has no place for figures that are not positive; hovering shows them." in drawn
    assert tips(drawn)[2][3] == [[0, "lie: 0 [-0.1, 0.02]"]]
    heights = heights_of(drawn)
    assert heights[2] > 1000 > heights[1] > heights[0]  # the line leaves the chart
    assert "not positive" not in chart_to_html(CHARTS["lines"])
    linear = chart_to_html(LineChart("Loss", STEP, LOSS, [Line("a", (1, 2), (0.0, -1.0))]))  # nothing is positive
    assert "logarithmic" not in linear
    points = [Point("a", 1, 2.0, -1.0, 3.0), Point("b", 2, 0.0), Point("c", 3, 20.0)]
    drawn = chart_to_html(PointChart("", STEP, LOSS, points))
    assert [tip[2] for tip in tips(drawn)] == ["a", "c"]
    assert "Points with figures that are not positive have no place on a logarithmic axis and are left out." in drawn
    assert all(0 <= float(top) <= 100 for top in re.findall(r"<i [^>]*top:([-\d.]+)%", drawn))
    bars = chart_to_html(BarChart("", LOSS, [Bar("a", 2.0)]))
    assert "logarithmic" not in bars


@given(st.lists(st.floats(-1e9, 1e9, allow_subnormal=False), min_size=1, max_size=6), st.booleans())
def test_all_values_have_a_place_and_marks_are_in_sight(values: list[float], log: bool) -> None:
    marks_of_a_scale(scale(Axis(linear=0.1), values), values)
    found = scale(Axis(log=log), values)
    assert found.log == (log and max(values) > 0)
    placed = [value for value in values if value > 0 or not found.log]
    assert found.outside == (len(placed) < len(values))
    marks_of_a_scale(found, placed)


def marks_of_a_scale(found: Scale, placed: list[float]) -> None:
    """All values have a place on the scale, and its marks are in sight and differ."""
    assert all(-1e-6 <= found.at(value) <= 1 + 1e-6 for value in placed)
    marks = found.marks()
    assert all(-1e-6 <= found.at(value) <= 1 + 1e-6 for value, _ in marks)
    assert len(marks) <= 25
    assert len({text for _, text in marks}) == len(marks)


@pytest.mark.parametrize(
    ("axis", "values", "texts"),
    [
        (Axis(), [0.0, 1.0], ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (Axis(form="{:.2%}"), [0.98, 0.99], ["98.0%", "98.2%", "98.4%", "98.6%", "98.8%", "99.0%"]),
        (Axis(log=True), [1e-6, 1.0], ["1e-6", "1e-5", "1e-4", "0.001", "0.01", "0.1", "1"]),
        (Axis(log=True), [2.0, 40.0], ["2", "5", "10", "20"]),
        (Axis(), [2e7, 6e7], ["20M", "30M", "40M", "50M", "60M"]),
        (Axis(linear=0.1), [-0.3, 6.8], ["-0.2", "-0.1", "0", "0.1", "0.2", "0.5", "1", "2", "5"]),
        (Axis(linear=0.1), [-0.01, 0.03], ["-0.01", "0.00", "0.01", "0.02", "0.03"]),
    ],
)
def test_marks_are_round_numbers(axis: Axis, values: list[float], texts: list[str]) -> None:
    assert [text for _, text in scale(axis, values).marks()] == texts


def test_the_circle_of_a_plane_is_round() -> None:
    drawn = chart_to_html(CHARTS["plane"])
    aspect = float(re.findall(r"aspect-ratio:([\d.]+)", drawn)[0])
    rx, ry = (float(re.findall(rf'{side}="([\d.]+)"', drawn)[0]) for side in ("rx", "ry"))
    assert rx * aspect == pytest.approx(ry, rel=1e-2)


def test_a_heat_map_has_a_cell_for_each_finite_value_in_two_colours() -> None:
    drawn = chart_to_html(CHARTS["heat"])
    assert len(re.findall(r"M[\d.]+ [\d.]+h", drawn)) == 5
    assert re.findall(r'class="cell (\w+)" fill-opacity="([\d.]+)"', drawn) == [
        ("plus", "0"), ("plus", "0.25"), ("plus", "0.5"), ("plus", "1"), ("minus", "1")
    ]  # fmt: skip
    assert len(tips(drawn)) == 6


def test_more_lines_than_colours_differ_in_their_strokes() -> None:
    lines = [LINE._replace(name=str(i)) for i in range(COLOURS + 1)]
    looks = re.findall(
        r'class="line" style="([^"]*)"( stroke-dasharray="[^"]*")?', chart_to_html(LineChart("", STEP, LOSS, lines))
    )
    assert len(set(looks)) == COLOURS + 1


def test_a_null_model_is_grey_and_takes_no_colour_from_the_others() -> None:
    lines = [LINE._replace(name=name) for name in ("a", "null", "b")]
    drawn = chart_to_html(LineChart("", STEP, LOSS, lines, muted=["null"]))
    assert tips(drawn)[0][3] == [[0, "a: 1 [0.9, 1.1]"], [-1, "null: 1 [0.9, 1.1]"], [1, "b: 1 [0.9, 1.1]"]]
    assert re.findall(r'class="band" style="--c:var\((.*?)\)"', drawn) == ["--c0", "--c-1", "--c1"]
    style = (Path(charts.__file__).parent / "style.css").read_text()
    assert style.count("--c-1:") == 2  # in light and in dark


def test_a_legend_that_charts_share_is_shown_once() -> None:
    assert chart_to_html(CHARTS["several"]).count('class="legend"') == 1
    own = [LineChart("", STEP, LOSS, [LINE._replace(name=name)]) for name in "ab"]
    assert chart_to_html(SmallMultiples("", own)).count('class="legend"') == 2


def test_the_documented_chart_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parents[2] / "docs" / "guide" / "extending.md").read_text()
    [code] = [one for one in re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S) if "LineChart" in one]
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    assert "lie: 1.1 [1, 1.2]" in (tmp_path / "losses.html").read_text()
    names = re.findall(r"^\| `([A-Z]\w+)` \|", text, re.M)
    assert set(names) == {type(chart).__name__ for chart in CHARTS.values()}


def test_a_slider_shows_the_chart_at_its_start() -> None:
    planes = [ComplexPlane(name, [("a", [z])], radius=None) for name, z in (("one", 0j), ("two", 1 + 1j))]
    for many in (planes, [LineChart(name, STEP, LOSS, [LINE]) for name in ("one", "two")]):
        drawn = chart_to_html(SliderChart("Some", "layer", many, start=1))
        assert re.findall(r'<span class="at"[^>]*>(.*?)</span>', drawn) == ["two"]
        assert re.findall(r'type="range"[^>]* value="(\d)"', drawn) == ["1"]
        assert ["hidden" in one for one in re.findall(r'<div class="stop"([^>]*)>', drawn)] in ([], [True, False])


def heat(*values: float, **more: Any) -> HeatMap:
    return HeatMap("Heat", "x", "y", [str(i) for i in range(len(values))], ["1"], [values], "{:.2f}", **more)


def key(chart: HeatMap) -> tuple[str, str, str]:
    """What the bar of colours says: its kind, and its ends."""
    [found] = re.findall(r'<div class="key (\w+)">(.*?)<i></i>(.*?)</div>', chart_to_html(chart))
    return found


def test_a_bar_of_colours_says_what_they_mean() -> None:
    assert key(heat(-2.0, 1.0, what="nats")) == ("both", "nats -2.00", "2.00")
    assert key(heat(0.5, 1.0, what="nats")) == ("plus", "nats 0.00", "1.00")
    assert key(heat(1.0, -1e-3)) == ("plus", " 0.00", "1.00")  # too small for a colour
    assert key(heat(0.5, strongest=4.0, signed=True)) == ("both", " -4.00", "4.00")


def test_heat_maps_on_one_scale_have_equal_ends_and_equal_colours() -> None:
    one, other, none = on_one_scale([heat(0.0, 0.5), heat(-2.0, 1.0), heat(0.0, math.nan)])
    assert key(one) == key(other) == key(none) == ("both", " -2.00", "2.00")
    shades = [re.findall(r'class="cell plus" fill-opacity="([\d.]+)"', chart_to_html(each)) for each in (one, other)]
    assert shades == [["0", "0.25"], ["0.5"]]
    assert on_one_scale([]) == []
    slider = chart_to_html(SliderChart("Some", "layer", [heat(0.5), heat(-2.0)]))
    assert re.findall(r'<div class="key (\w+)">(.*?)<i></i>(.*?)</div>', slider) == [("both", " -2.00", "2.00")] * 2


def test_a_heat_map_of_matplotlib_has_names_and_a_title_on_its_bar() -> None:
    pytest.importorskip("matplotlib")
    axes, beside = figure_of(heat(-2.0, 1.0, what="nats")).axes
    assert [one.get_text() for one in axes.get_xticklabels()] == ["0", "1"]
    assert axes.get_xticks().tolist() == [0.0, 1.0]
    assert axes.images[0].get_clim() == (-2.0, 2.0)
    assert beside.get_ylabel() == "nats"


def test_points_of_equal_x_stand_beside_each_other() -> None:
    """Three share a place; the fourth has its own."""
    points = [Point(name, x, 1.0) for name, x in (("a", 1.0), ("b", 1.0), ("c", 1.0), ("d", 9.0))]
    drawn = chart_to_html(PointChart("", Axis("x"), Axis("y"), points))
    places = re.findall(r'class="dot" style="left:(?:calc\()?([\d.]+)%(?: \+ (-?\d+)px)?', drawn)
    assert [aside or "0" for _, aside in places] == [str(-APART), "0", str(APART), "0"]
    assert places[0][0] == places[1][0] == places[2][0] != places[3][0]


def test_matplotlib_has_guide_lines_with_their_names_and_one_legend_for_each_group() -> None:
    pytest.importorskip("matplotlib")
    lines, guide = [LINE, LINE._replace(name="macaron")], Line("order 2", (1, 4), (2.0, 0.125))
    chart = LineChart("", STEP, LOSS, lines, guides=[guide], groups={"lie": "order 1", "macaron": "order 1"})
    [axes] = figure_of(chart).axes
    first, second, drawn = axes.lines
    assert first.get_color() == second.get_color() != drawn.get_color()
    assert (drawn.get_label(), drawn.get_linestyle(), drawn.get_color()) == ("order 2", "--", "grey")
    assert [one.get_text() for one in axes.texts] == ["order 2"]
    assert axes.get_legend() is None  # one group needs none


def test_names_along_x_stand_for_a_legend_and_keep_their_colours() -> None:
    """A row without a figure takes no colour from the others."""
    rows = [("full", None), ("none", 1.0), ("some", Estimate(2.0, 1.0, 3.0, 5))]
    chart = dots("", Axis("y"), rows, "", "chart")
    drawn = chart_to_html(chart)
    [shown] = re.findall(r'<div class="marks-x tilted"[^>]*>(.*?)</div>', drawn)
    assert re.findall(r">([a-z]+)<", shown) == ["full", "none", "some"]
    assert "legend" not in drawn
    assert re.findall(r'class="dot" style="[^"]*(--c\d)', drawn) == ["--c1", "--c2"]
    pytest.importorskip("matplotlib")
    [axes] = figure_of(chart).axes
    assert [one.get_text() for one in axes.get_xticklabels()] == ["full", "none", "some"]
    assert [one.lines[0].get_color() for one in axes.containers] == ["C1", "C2"]
