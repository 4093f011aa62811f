"""Charts that move: particles and sliders do so in a browser, tell what they show, and hand out their figures."""

import csv
import dataclasses
import io
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from page_checks import faults, outside
from pages import WORDS, particle_chart, spectra

from splitstep.report import charts
from splitstep.report.charts import Axis, Chart, ComplexPlane, Explained, HeatMap, Line, LineChart
from splitstep.report.drawing import chart_to_html, equation_to_html, figures, page
from splitstep.report.moving import ALONE, PLACES, lasting, places

HOSTILE = (
    "<script>document.title='owned'</script>", "</p><img src=http://192.0.2.1/x onerror=alert(1)>", "\"'&amp;`${1}",
    "\U0001f9ea\U0001f469\u200d\U0001f52c", "\u05e9\u05dc\u05d5\u05dd", "\u202eabc", "\n", "", "=1+1,2", "plain",
)  # fmt: skip
LINES = LineChart(
    "Effective rank", Axis("layer", "{:.0f}"), Axis("rank"),
    [
        Line("trained", (0, 1, 2), (9.0, 4.0, math.nan), (8.0, 3.0, 1.0), (9.5, 5.0, 3.0)),
        Line('random "weights", untrained', (0, 1, 2), (9.0, 8.5, 8.25)),
    ],
    muted=['random "weights", untrained'],
)  # fmt: skip
HEAT = HeatMap("CKA", "layer of the model", "layer of the other", ["0", "1"], ["0", "1"], [[1.0, 0.5], [0.5, 1.0]])
BODY: tuple[Chart, ...] = (
    Explained(particle_chart(), "x_{l+1} = x_l + h f(t_l, x_l)", "Each particle is a token.", "particles.csv"),
    Explained(spectra(), "J_l = dx_{l+1} / dx_l", "A number off the real line turns.", "spectra.json"),
    Explained(LINES, "r = exp(-S_i p_i log p_i)", "Fewer directions survive to this layer.", "rank.csv"),
    Explained(HEAT, reading="Layers that do the same have a strong colour.", file="cka.csv"),
    Explained(charts.SliderChart("Runs", "run", [LINES, LINES]), file="runs.json"),
)
POSITIONS = "[...document.querySelectorAll('.particle')].map(e => [parseFloat(e.style.left), parseFloat(e.style.top)])"
AT = "#particles .at"


def written(folder: Path, *charts: Chart) -> Path:
    file = folder / "report.html"
    file.write_text(page("Moving", ["<h1>Moving</h1>", *map(chart_to_html, charts)]), encoding="utf-8")
    return file


def expected(state: int, text: int = 0) -> list[list[float]]:
    """Where particles stand in percent of the area, from the chart itself."""
    chart = particle_chart()
    along, up = places(chart)
    xs, ys = chart.texts[text].x[state], chart.texts[text].y[state]
    return [[100 * along.at(x), 100 - 100 * up.at(y)] for x, y in zip(xs, ys, strict=True)]


def near(found: Sequence[Sequence[float]], wanted: Sequence[Sequence[float]]) -> bool:
    pairs = zip(found, wanted, strict=True)
    return all(abs(a - b) < 60 / PLACES for one, two in pairs for a, b in zip(one, two, strict=True))


def downloaded(page: Any) -> list[dict[str, str]]:
    """The rows of the first chart's file."""
    with page.expect_download() as started:
        page.click(".download")
    return list(csv.DictReader(io.StringIO(started.value.path().read_text(encoding="utf-8"), newline="")))


@pytest.mark.slow
def test_playing_moves_particles_and_scrubbing_brings_them_back(look: Any, tmp_path: Path) -> None:
    page = look(written(tmp_path, *BODY), 1280)
    assert near(page.evaluate(POSITIONS), expected(12))  # nothing plays by itself
    assert page.inner_text(AT) == "layer 12, t = 12"
    page.click("#particles .play")
    shown = page.wait_for_function(f"document.querySelector('#particles .at').textContent[6] === '3' && {POSITIONS}")
    moved = shown.json_value()
    assert not near(moved, expected(0))
    assert not near(moved, expected(12))
    page.select_option("#particles .speed", "4")
    page.wait_for_function("document.querySelector('#particles .play').textContent === 'Play'")  # and no further
    assert page.inner_text(AT) == "layer 12, t = 12"
    page.focus("#particles [type=range]")
    page.keyboard.press("Home")
    assert page.inner_text(AT) == "embedding, t = 0"
    assert near(page.evaluate(POSITIONS), expected(0))
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.inner_text(AT) == "layer 2, t = 2"
    assert page.get_attribute("#particles [type=range]", "aria-valuetext") == "layer 2, t = 2"
    assert near(page.evaluate(POSITIONS), expected(2))
    page.select_option("#particles .text", "1")
    assert near(page.evaluate(POSITIONS), expected(2, text=1))


@pytest.mark.slow
def test_pausing_rests_at_a_layer(look: Any, tmp_path: Path) -> None:
    page = look(written(tmp_path, *BODY), 1280)
    page.focus("#particles .play")
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelector('#particles .at').textContent.startsWith('layer 2')")
    page.keyboard.press("Enter")
    at = int(page.input_value("#particles [type=range]"))
    assert 2 <= at < 12
    for _ in range(2):
        assert near(page.evaluate(POSITIONS), expected(at))
        page.wait_for_timeout(200)


@pytest.mark.slow
def test_without_motion_particles_stand_at_layers_alone(look: Any, tmp_path: Path) -> None:
    page = look(written(tmp_path, *BODY), 1280, reduced_motion="reduce")
    page.click("#particles .play")
    stood = set[int]()
    while page.inner_text("#particles .play") == "Pause":
        at, found = page.evaluate(f"[parseInt(document.querySelector('#particles [type=range]').value), {POSITIONS}]")
        stood.add(at)
        assert near(found, expected(at))
    assert len(stood) > 3


@pytest.mark.slow
@pytest.mark.parametrize("scripts", [True, False])
def test_hostile_tokens_stay_text(look: Any, tmp_path: Path, scripts: bool) -> None:
    file = written(tmp_path, Explained(particle_chart(HOSTILE, 3, 1), file="tokens.csv"))
    page = look(file, 1280, java_script_enabled=scripts)
    shown = [one.text_content() for one in page.query_selector_all(".token")]
    marks = {"\n": "\u23ce", "": "\u2205"}
    assert shown == [marks.get(token, token) for token in HOSTILE]
    assert page.query_selector("img, .particles script") is None
    assert page.title() == "Moving"
    if scripts:
        page.focus(".particles .area")
        for token in shown:
            page.keyboard.press("ArrowRight")
            assert page.query_selector(".tip .head").text_content() == token
            assert page.query_selector(".token.on").text_content() == token
        rows = downloaded(page)
        assert [row["token"] for row in rows] == list(HOSTILE) * 3


@pytest.mark.slow
def test_hovering_a_particle_shows_its_token_and_marks_it_in_the_text(look: Any, tmp_path: Path) -> None:
    page = look(written(tmp_path, *BODY), 1280)
    page.focus("#particles [type=range]")
    page.keyboard.press("Home")
    i = 5
    area, tip = page.query_selector("#particles .area").bounding_box(), page.query_selector("#particles .tip")
    left, top = page.evaluate(POSITIONS)[i]
    assert not tip.is_visible()
    page.mouse.move(area["x"] + area["width"] * left / 100, area["y"] + area["height"] * top / 100)
    norm = particle_chart().texts[0].norm[0][i]
    assert tip.inner_text() == f"{WORDS[i].strip()}\ntoken {i + 1} of 36, alone\nnorm {norm:.3g}"
    assert page.evaluate("[...document.querySelectorAll('.token')].findIndex(e => e.matches('.on'))") == i
    page.mouse.move(0, 0)
    assert not tip.is_visible()
    page.hover(f"#particles .token >> nth={i}")
    assert tip.inner_text().startswith(WORDS[i].strip())


@pytest.mark.slow
def test_colours_follow_clusters_or_norms(look: Any, tmp_path: Path) -> None:
    page = look(written(tmp_path, *BODY), 1280)
    tints = "[...document.querySelectorAll('.particle')].map(e => getComputedStyle(e).backgroundColor)"
    homes = particle_chart().texts[0].cluster[12]
    found = page.evaluate(tints)
    assert len(set(zip(homes, found, strict=True))) == len(set(homes)) == len(set(found)) == 3
    page.select_option("#particles .by", "norm")
    lightness = [float(one.split("(")[1].split()[0]) for one in page.evaluate(tints)]
    by_norm = [light for _, light in sorted(zip(particle_chart().texts[0].norm[12], lightness, strict=True))]
    assert by_norm == sorted(lightness)  # from a dark colour to a light one
    assert by_norm[0] < by_norm[-1]
    assert page.is_visible(".by-norm")
    assert not page.is_visible(".by-cluster")


@pytest.mark.slow
def test_without_scripts_the_last_layer_is_a_picture(look: Any, tmp_path: Path) -> None:
    page = look(written(tmp_path, *BODY), 390, java_script_enabled=False)
    styles = [one.get_attribute("style") for one in page.query_selector_all(".particle")]
    found = [[float(part.split(":")[1].rstrip("%")) for part in style.split(";")[:2]] for style in styles]
    assert near(found, expected(12))
    assert page.inner_text(AT) == "layer 12, t = 12"
    assert not any(one.is_visible() for one in page.query_selector_all("button, input, select"))


@pytest.mark.slow
def test_a_slider_shows_each_spectrum_and_hovering_its_numbers(look: Any, tmp_path: Path) -> None:
    page = look(written(tmp_path, *BODY), 1280)
    paths = "[...document.querySelectorAll('#spectra .dots')].map(e => e.getAttribute('d'))"
    page.focus("#spectra [type=range]")
    seen, first = list[list[str]](), spectra().charts[0]
    assert isinstance(first, ComplexPlane)
    for chart in spectra().charts:
        assert page.inner_text("#spectra .at") == chart.title
        seen.append(page.evaluate(paths))
        page.keyboard.press("ArrowRight")
    assert len({path for pair in seen for path in pair}) == 12
    assert all(path.count("M") == 60 for pair in seen for path in pair)
    page.click("#spectra .play")
    reached = page.wait_for_function(f"document.querySelector('#spectra .at').textContent === 'layer 3' && {paths}")
    assert reached.json_value() == seen[2]
    page.wait_for_function("document.querySelector('#spectra .play').textContent === 'Play'")
    assert page.evaluate(paths) == seen[5]
    page.focus("#spectra [type=range]")
    page.keyboard.press("Home")
    assert page.evaluate(paths) == seen[0]
    page.focus("#spectra .area")
    page.keyboard.press("ArrowRight")
    z = first.groups[1][1][0]  # the null model lies below, so it comes first
    said = page.inner_text("#spectra .tip")
    assert said.startswith(f"random weights\n{z.real:.4g} ")
    assert f"size {abs(z):.3g}"[:8] in said


@pytest.mark.slow
def test_a_slider_over_other_charts_shows_one_of_them(look: Any, tmp_path: Path) -> None:
    bars = [charts.BarChart(f"run {k}", Axis("y"), [charts.Bar("a", float(k))]) for k in range(1, 4)]
    page = look(written(tmp_path, charts.SliderChart("Bars", "run", bars)), 390)
    shown = "[...document.querySelectorAll('.stop')].map(e => e.checkVisibility())"
    assert page.evaluate(shown) == [True, False, False]
    page.focus("[type=range]")
    page.keyboard.press("End")
    assert page.evaluate(shown) == [False, False, True]
    assert page.inner_text(".at") == "run 3"
    widths = page.evaluate("[...document.querySelectorAll('rect')].map(e => +e.getAttribute('width'))")
    assert widths[1] == pytest.approx(2 * widths[0], rel=1e-2)  # on the same axis


@pytest.mark.slow
def test_particles_beyond_the_axes_are_hollow_and_keep_their_figures(look: Any, tmp_path: Path) -> None:
    chart = dataclasses.replace(particle_chart(), x=Axis("first direction", shown=(-1.0, 1.0)))
    file = written(tmp_path, Explained(chart, file="tokens.csv"))
    for scripts in (False, True):
        page = look(file, 1280, java_script_enabled=scripts)
        dots = page.query_selector_all(".particle")
        assert [" beyond" in dot.get_attribute("class") for dot in dots] == [abs(x) > 1 for x in chart.texts[0].x[12]]
        assert "Hollow particles at the edge are beyond it." in page.inner_text("#particles")
        area = page.query_selector(".area").bounding_box()
        assert all(area["x"] - 6 <= dot.bounding_box()["x"] <= area["x"] + area["width"] for dot in dots)
        if scripts:
            rows = downloaded(page)
            xs = [float(row["first direction"]) for row in rows[36 * 12 : 36 * 13]]
            assert xs == pytest.approx(chart.texts[0].x[12], abs=2e-3)


@pytest.mark.slow
def test_the_figures_can_be_saved(look: Any, tmp_path: Path) -> None:
    page = look(written(tmp_path, *BODY), 1280)
    saved = dict[str, str]()
    for button in page.query_selector_all(".download"):
        with page.expect_download() as started:
            button.click()
        name = started.value.suggested_filename
        assert name in button.inner_text()
        saved[name] = started.value.path().read_bytes().decode()
    chart = particle_chart()
    rows = list(csv.DictReader(io.StringIO(saved["particles.csv"], newline="")))
    assert len(rows) == 2 * 13 * 36
    row, text = rows[36 * 5 + 7], chart.texts[0]
    assert list(row.values())[:5] == ["text 1", "layer 5", "5", "7", " depth"]
    assert float(row["first direction"]) == pytest.approx(text.x[5][7], abs=0.02)
    assert float(row["second direction"]) == pytest.approx(text.y[5][7], abs=0.02)
    assert float(row["norm"]) == pytest.approx(text.norm[5][7], rel=5e-3)
    found, wanted = json.loads(saved["spectra.json"]), figures(spectra())
    assert found["columns"] == wanted.columns
    ordered = (sorted(rows, key=lambda row: [str(name) for name in row[:2]]) for rows in (found["rows"], wanted.rows))
    for one, two in zip(*ordered, strict=True):
        assert one[:2] == list(two[:2])
        assert one[2:] == pytest.approx(two[2:], rel=1e-3)
    assert list(csv.reader(io.StringIO(saved["rank.csv"], newline=""))) == [
        ["name", "layer", "rank", "low", "high"],
        ["trained", "0", "9", "8", "9.5"], ["trained", "1", "4", "3", "5"], ["trained", "2", "", "1", "3"],
        *(['random "weights", untrained', str(k), y, "", ""] for k, y in enumerate(("9", "8.5", "8.25"))),
    ]  # fmt: skip
    assert saved["cka.csv"].splitlines()[:2] == ["layer of the other,layer of the model,value", "0,0,1"]
    assert len(json.loads(saved["runs.json"])["rows"]) == 12


@pytest.mark.slow
@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_and_can_be_read(look: Any, tmp_path: Path, width: int, colours: str) -> None:
    page = look(written(tmp_path, *BODY), width, colours)
    assert faults(page) + outside(page, "h2, p, button, input, select, .plot, .about, .token") == []
    page.hover("#particles .area")
    inside = page.query_selector("#particles .tip").bounding_box()
    assert 0 <= inside["x"] <= inside["x"] + inside["width"] <= width


def test_the_largest_charts_stay_small() -> None:
    """Particles below 400 kB; 30 layers of 576 eigenvalues, and the null model's, in 20 characters each."""
    assert len(chart_to_html(particle_chart((WORDS * 6)[:64], 31, 8)).encode()) < 400_000
    assert len(chart_to_html(Explained(spectra(30, 576), file="spectra.csv"))) < 20 * 2 * 30 * 576


def test_a_cluster_keeps_its_number_while_it_keeps_its_tokens() -> None:
    states = [[0, 1, 2, 3, 4], [7, 7, 2, 3, 3], [9, 9, 9, 8, 8], [1, 1, 0, 0, 0], [5, 5, 5, 5, 5]]
    assert lasting(states) == [
        [ALONE] * 5, [0, 0, ALONE, 1, 1], [0, 0, 0, 1, 1], [0, 0, 1, 1, 1], [1] * 5
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("x_i^2", "<var>x</var><sub><var>i</var></sub><sup>2</sup>"),
        ("e^{-x_i}", "<var>e</var><sup>\u2212<var>x</var><sub><var>i</var></sub></sup>"),
        ("cos(x) < 1", "cos(<var>x</var>) &lt; 1"),
        ("x_{<b>", "<var>x</var><sub>&lt;<var>b</var>&gt;</sub>"),
        ("{x} }", "{<var>x</var>} }"),
    ],
)
def test_equations_have_variables_and_levels(text: str, html: str) -> None:
    assert equation_to_html(text) == html
