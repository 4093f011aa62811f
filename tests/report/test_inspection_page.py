"""The page of an inspection in a real browser: it tells its tokens and figures, fits a phone, and needs no network."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from page_checks import faults, unfolded
from pretrained_folders import llama, saved

from splitstep.studies.inspect import Inspection, inspection
from splitstep.studies.inspect.plan import Plan
from splitstep.studies.inspect.sources import TextChoice
from splitstep.studies.inspect.study import Wish

pytestmark = pytest.mark.slow
HOSTILE = "The <script>document.title='owned'</script> cat & \"dog\" </main><img src=x onerror=alert(1)> sat."
PROBES = ("trajectory", "drift", "clustering", "rank", "cka_layers", "attention", "rollout", "jacobian", "products")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Inspection:
    folder = tmp_path_factory.mktemp("models")
    (folder / "texts.txt").write_text(f"{HOSTILE}\nThe bridge over the river was closed for repairs.\n")
    model = saved(folder / "llama", llama())
    return inspection(str(model), Wish(TextChoice(folder / "texts.txt", 2, 48), Plan(PROBES)))


@pytest.fixture(scope="module")
def file(found: Inspection, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return found.save_page(tmp_path_factory.mktemp("page"))


def test_every_chart_is_explained_and_its_figures_can_be_saved(look: Any, file: Path, found: Inspection) -> None:
    """How charts move is a matter of test_moving_charts.py."""
    page = unfolded(look(file, 1280))
    shown = "".join(one.text_content() for one in page.query_selector_all("#particles .token"))
    assert shown == "".join(found.model.paths[0].tokens)
    assert HOSTILE.startswith(shown)
    assert page.title() == "Inside llama"
    assert page.query_selector("main img, main script") is None
    charts = page.query_selector_all(".explained")
    assert len(charts) > 20
    assert all(chart.query_selector(".equation") and chart.query_selector(".reading") for chart in charts)
    with page.expect_download() as started:
        page.query_selector("[data-file='trajectory-norm.csv']").click()
    rows = list(csv.DictReader(io.StringIO(started.value.path().read_text(), newline="")))
    norm: Any = found.model.find("trajectory", "norm")
    assert [float(row["|x_l|"]) for row in rows if row["name"] == "llama"] == pytest.approx(norm.mean, rel=1e-3)
    assert {row["name"] for row in rows} == {"llama", "random weights"}


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_it_fits_a_phone_and_loads_nothing(look: Any, file: Path, colours: str) -> None:
    assert faults(look(file, 390, colours)) == []
    assert file.stat().st_size < 1_000_000
