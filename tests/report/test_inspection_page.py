"""The page of an inspection in a real browser: it plays, tells its tokens, fits a phone, and needs no network."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import chromium, visit
from pretrained_folders import llama, saved

from splitstep.studies.inspect import Inspection, inspection
from splitstep.studies.inspect.sources import TextChoice
from splitstep.studies.inspect.study import Plan

pytestmark = pytest.mark.slow
HOSTILE = "The <script>document.title='owned'</script> cat & \"dog\" </main><img src=x onerror=alert(1)> sat."
PROBES = ("trajectory", "drift", "clustering", "rank", "cka_layers", "attention", "rollout", "jacobian", "products")
DOTS = "[...document.querySelectorAll('#spectra .dots')].map(e => e.getAttribute('d')).join()"
PLACES = "[...document.querySelectorAll('#particles .particle')].map(e => e.style.left + e.style.top).join()"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Inspection:
    folder = tmp_path_factory.mktemp("models")
    (folder / "texts.txt").write_text(f"{HOSTILE}\nThe bridge over the river was closed for repairs.\n")
    model = saved(folder / "llama", llama())
    return inspection(str(model), TextChoice(folder / "texts.txt", 2, 48), Plan(PROBES))


@pytest.fixture(scope="module")
def file(found: Inspection, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return found.save_page(tmp_path_factory.mktemp("page"))


def test_tokens_of_a_hostile_text_move_when_played_and_a_slider_shows_every_spectrum(
    browser: Any, file: Path, found: Inspection
) -> None:
    page, wrong = visit(browser, file, 1280)
    end = page.evaluate(PLACES)
    page.focus("#particles [type=range]")
    page.keyboard.press("Home")
    assert page.inner_text("#particles .at") == "embedding, t = 0"
    assert page.evaluate(PLACES) != end
    page.click("#particles .play")
    page.wait_for_function("document.querySelector('#particles .play').textContent === 'Play'")
    assert page.inner_text("#particles .at") == "layer 3, t = 1"
    assert page.evaluate(PLACES) == end
    page.hover("#particles .token >> nth=0")
    assert page.inner_text("#particles .tip").startswith("T\ntoken 1 of 48")
    shown = "".join(one.text_content() for one in page.query_selector_all("#particles .token"))
    assert shown == "".join(found.model.paths[0].tokens)
    assert HOSTILE.startswith(shown)
    assert page.title() == "Inside llama"
    assert page.query_selector("main img, main script") is None
    page.focus("#spectra [type=range]")
    seen = set[str]()
    for layer in range(4):
        assert page.inner_text("#spectra .at") == f"layer {layer}"
        seen.add(page.evaluate(DOTS))
        page.keyboard.press("ArrowRight")
    assert len(seen) == 4
    page.close()
    assert wrong == []


def test_every_chart_is_explained_and_its_figures_can_be_saved(browser: Any, file: Path, found: Inspection) -> None:
    page, wrong = visit(browser, file, 1280)
    charts = page.query_selector_all(".explained")
    assert len(charts) > 20
    for chart in charts:
        assert chart.query_selector(".equation") is not None
        assert chart.query_selector(".reading") is not None
    button = page.query_selector("[data-file='trajectory-norm.csv']")
    with page.expect_download() as started:
        button.click()
    rows = list(csv.DictReader(io.StringIO(started.value.path().read_text(), newline="")))
    norm = found.model.find("trajectory", "norm")
    assert norm is not None
    own = [float(row["|x_l|"]) for row in rows if row["name"] == "llama"]
    assert own == pytest.approx(norm.mean, rel=1e-3)
    assert {row["name"] for row in rows} == {"llama", "random weights"}
    page.close()
    assert wrong == []


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_it_fits_a_phone_and_loads_nothing(browser: Any, file: Path, colours: str) -> None:
    page, wrong = visit(browser, file, 390, colours)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.close()
    assert wrong == []
    assert file.stat().st_size < 1_000_000
