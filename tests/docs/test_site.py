"""The site is built strictly, has every page and name, and its pages and the pictures stand up in a real browser."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import screenshots
from page_checks import faults
from pages import chromium, visit

import splitstep as ss

ROOT = Path(__file__).parents[2]
SCREENS = [(390, "light"), (768, "light"), (1280, "dark")]
DRAWN = ROOT / "docs" / "particles.svg"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it."""
    out = tmp_path_factory.mktemp("build") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return out


def own_pages(site: Path) -> list[Path]:
    """Pages of the site: not the reports, and not the one for addresses that do not exist, which needs a server."""
    return sorted(file for file in site.rglob("*.html") if "gallery" not in file.parts and file.name != "404.html")


@pytest.mark.nightly
def test_the_site_has_every_page_and_its_links_lead_to_pages(site: Path) -> None:
    pages = {file.relative_to(ROOT / "docs").with_suffix(".html") for file in ROOT.glob("docs/**/*.md")}
    pages = (pages - {Path("README.html")}) | {Path("index.html"), Path("log.html"), Path("notebooks/lecture.html")}
    assert [page for page in pages if not (site / page).exists()] == []
    for file in own_pages(site):
        for target in re.findall(r'(?:href|src)="([^"#?]+)', file.read_text()):
            assert ":" in target or (file.parent / target).exists(), f"{file.relative_to(site)}: {target}"


@pytest.mark.nightly
def test_the_reference_has_every_public_name(site: Path) -> None:
    anchors = set(re.findall(r'id="splitstep\.([\w.]+)"', (site / "api.html").read_text()))
    public = set(ss.__all__) - {"__version__"}
    assert {name for name in public if not any(one.split(".")[-1] == name for one in anchors)} == set()


@pytest.mark.nightly
@pytest.mark.parametrize(("width", "colours"), SCREENS)
def test_pages_of_the_site_have_no_faults(browser: Any, site: Path, width: int, colours: str) -> None:
    for file in own_pages(site):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=colours)
        wrong: list[str] = []
        page.on("console", lambda message, wrong=wrong: wrong.append(message.text))
        page.on("request", lambda one, wrong=wrong: wrong.extend([one.url] * one.url.startswith("http")))
        page.goto(file.as_uri())
        assert (file.name, wrong + faults(page)) == (file.name, [])
        page.close()


@pytest.mark.nightly
def test_pages_of_the_gallery_have_no_faults(browser: Any, site: Path) -> None:
    found = sorted(site.glob("gallery/**/*.html"))
    assert len(found) >= 12
    for file in found:
        page, wrong = visit(browser, file, 768, "dark")
        assert (file.relative_to(site), wrong + faults(page)) == (file.relative_to(site), [])
        page.close()


@pytest.mark.nightly
def test_the_search_finds_a_word_without_a_server(browser: Any, site: Path) -> None:
    page = browser.new_page()
    page.goto((site / "index.html").as_uri())
    page.locator("[data-md-component=search-query]").fill("CKA")
    found = page.locator(".md-search-result__link").first
    found.wait_for()
    assert "glossary.html" in "".join(
        one.get_attribute("href") for one in page.locator(".md-search-result__link").all()
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", screenshots.PAGES)
@pytest.mark.parametrize(("width", "colours"), SCREENS)
def test_pages_of_real_results_have_no_faults(
    browser: Any, name: str, width: int, colours: str, tmp_path: Path
) -> None:
    page, wrong = visit(browser, screenshots.report_page(name, tmp_path), width, colours)
    assert wrong + faults(page) == []
    page.close()


def test_the_checks_find_faults(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(
        '<body style="background:#fff;margin:0"><p style="color:#999">pale</p><p style="color:#767676">dark enough</p>'
        '<button></button><button>Play</button><svg width="9" height="9"></svg><img src="data:," alt="gone">'
        '<details><summary>more</summary><p style="color:#999">folded and pale</p></details>'
        '<svg aria-label="words" width="90" height="40"><rect width="90" height="40" fill="#123"></rect>'
        '<text y="20" fill="#222">dim</text></svg><div style="width:500px">wide</div></body>'
    )
    page, _ = visit(browser, file, 390)
    found = faults(page)
    assert [one.split(" of ")[0].split(":")[0] for one in found] == [
        "contrast 2.85", "contrast 2.85", "contrast 1.01", "no name", "no name", "no picture",
        "500 px wide on a screen",
    ]  # fmt: skip
    page.close()


def test_the_picture_of_particles_is_drawn_from_its_file_and_moves(browser: Any) -> None:
    assert DRAWN.stat().st_size < 300_000
    page, wrong = visit(browser, DRAWN, 930)
    where = "[...document.querySelectorAll('circle.a')].map((one) => getComputedStyle(one).transform).join()"
    before = page.evaluate(where)
    page.wait_for_function(f"({where}) !== {before!r}")
    page.close()
    still, _ = visit(browser, DRAWN, 930, reduced_motion="reduce")
    assert still.evaluate(f"({where}) === ({where}) && !document.getAnimations().length")
    still.close()
    assert wrong == []


def test_the_picture_is_what_its_command_draws(tmp_path: Path) -> None:
    command = [sys.executable, "docs/making/particles.py", "results/inspect/smollm2", "--out", str(tmp_path / "p.svg")]
    subprocess.run(command, cwd=ROOT, check=True, timeout=300)
    assert (tmp_path / "p.svg").read_text() == DRAWN.read_text()


def test_every_report_of_the_gallery_is_made() -> None:
    hooks, gallery = (ROOT / "docs" / name for name in ("making/hooks.py", "gallery.md"))
    linked = set(re.findall(r"\.\./results/([\w/-]+)/result\.json", gallery.read_text()))
    assert len(linked) >= 12
    assert [name for name in linked if f'"{name}"' not in hooks.read_text()] == []


def test_no_picture_is_older_than_its_page(tmp_path: Path) -> None:
    """`make pictures` draws them again."""
    assert json.loads(screenshots.SHOWN.read_text()) == screenshots.hashes(screenshots.shown(tmp_path))
    drawn = {file.stem for file in screenshots.PICTURES.glob("*.png")}
    assert drawn == {*screenshots.PAGES, *screenshots.LECTURE, "particles"}


def test_every_picture_that_a_page_shows_is_there() -> None:
    shown = {
        (page.parent / target).resolve()
        for page in (ROOT / "README.md", *ROOT.glob("docs/**/*.md"))
        for target in re.findall(r'(?:!\[[^\]]+\]\(|<img[^>]*? src=")([^")]+)', page.read_text())
    }
    assert {file.stem for file in shown} >= {"particles", "compare", "inspect", "orders", "picture"}
    assert [file for file in shown if not file.exists()] == []
