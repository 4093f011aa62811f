"""The pictures of README, of the gallery and of the lecture: the first screen of real pages, as a browser shows them,
and what the lecture's notebook plots.

python tests/helpers/screenshots.py          # writes docs/pictures/*.png and pages.json from results/; needs Chromium
python tests/helpers/screenshots.py --model SmolLM2-135M-Instruct.Q4_1.gguf    # computes the lecture's particles anew
python tests/helpers/screenshots.py --look build/looked    # whole pages at 390, 768 and 1280, to be looked at
"""

import argparse
import io
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from pages import chromium, visit
from PIL import Image

import splitstep as ss
from splitstep.doors.lists import report
from splitstep.report.charts import Particles
from splitstep.report.drawing import document_to_page
from splitstep.report.result import Report
from splitstep.studies.trajectory import Trajectory

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
SHOWN = PICTURES / "pages.json"  # by the name of the picture: the SHA-256 of the page that it shows
PAGES = {  # by the name of the picture: the folder under results/
    "compare": "compare/modifications/stdlib/stage2",
    "inspect": "inspect/smollm2",
    "orders": "schemes",
    "approximate": "approximate/product",
    "distil": "distil/pair_e",
    "ablate": "pde/mnist",
}
NAMED = "HuggingFaceTB/SmolLM2-135M-Instruct"  # the model of the lecture
NOTEBOOK = ROOT / "docs" / "notebooks" / "lecture.ipynb"
LECTURE = ("lecture-orders", "lecture-splittings", "lecture-particles")  # what its cells plot, in their order
TRAJECTORY = PICTURES / "lecture-particles.json"  # of the last of them, whose model is not here
WIDTHS = (390, 768, 1280)
SCREEN = (900, 760)  # of a picture
COLOURS, DOTS = 256, 130  # enough for pages, which have few; and dots per inch of a plot


def report_page(name: str, out: Path) -> Path:
    """The page of a result."""
    [made] = report(ROOT / "results" / PAGES[name], out=out / name)
    assert not isinstance(made, str)
    assert made.page is not None
    return made.page


def plotted() -> list[str]:
    """What the lecture plots: the calls whose results have the pictures."""
    cells = ("".join(cell["source"]) for cell in json.loads(NOTEBOOK.read_text())["cells"])
    return [cell.removesuffix(".plot()") for cell in cells if cell.endswith(".plot()")]


def lecture() -> dict[str, Report]:
    """The results that the lecture plots."""
    *calls, _ = plotted()
    stored = json.loads(TRAJECTORY.read_text())
    moving = Trajectory(stored["model"], tuple(Particles(**text) for text in stored["particles"]), ())
    return dict(zip(LECTURE, [*(eval(call, {"ss": ss}) for call in calls), moving], strict=True))


def trace(model: Path) -> None:
    """Store the trajectory that the lecture plots, of this file of its model."""
    name = f'"{NAMED}"'
    *_, call = plotted()
    assert name in call
    found = eval(call.replace(name, "model"), {"ss": ss, "model": model}).json()
    TRAJECTORY.write_text(json.dumps({**found, "model": model.name}) + "\n")


def shown(work: Path) -> dict[str, Path]:
    """What each picture shows; a plot is of the figures on the result's page."""
    for name, result in lecture().items():
        (work / f"{name}.html").write_text(document_to_page(result.document()))
    pages = {name: report_page(name, work) for name in PAGES} | {name: work / f"{name}.html" for name in LECTURE}
    return pages | {"particles": ROOT / "docs" / "particles.svg"}


def hashes(files: dict[str, Path]) -> dict[str, str]:
    return {name: sha256(file.read_bytes()).hexdigest() for name, file in files.items()}


def picture(browser: Any, file: Path) -> bytes:
    """The first screen of a page, or a drawing, without motion, as a PNG of few colours."""
    page, wrong = visit(browser, file, SCREEN[0], reduced_motion="reduce")
    assert wrong == []
    if file.suffix == ".svg":
        taken = page.locator("svg").first.screenshot()
    else:
        page.set_viewport_size({"width": SCREEN[0], "height": SCREEN[1]})
        taken = page.screenshot()
    page.close()
    return small(taken)


def small(taken: bytes) -> bytes:
    """The picture with few colours."""
    written = io.BytesIO()
    Image.open(io.BytesIO(taken)).convert("RGB").quantize(COLOURS).save(written, "PNG", optimize=True)
    return written.getvalue()


def plot(result: Report) -> bytes:
    """A result's first plot as a PNG of few colours."""
    drawn = io.BytesIO()
    result.plot().savefig(drawn, dpi=DOTS)
    return small(drawn.getvalue())


def take(out: Path, work: Path) -> None:
    """Write all pictures."""
    out.mkdir(parents=True, exist_ok=True)
    work.mkdir(parents=True, exist_ok=True)
    files, plots = shown(work), lecture()
    with chromium() as browser:
        for name, file in files.items():
            (out / f"{name}.png").write_bytes(plot(plots[name]) if name in plots else picture(browser, file))
    (out / SHOWN.name).write_text(json.dumps(hashes(files), indent=2) + "\n")


def look(out: Path) -> None:
    """Write whole pages at all widths."""
    with chromium() as browser:
        for name in PAGES:
            file = report_page(name, out)
            for width in WIDTHS:
                page, _ = visit(browser, file, width)
                page.screenshot(path=out / f"{name}-{width}.png", full_page=True)
                page.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--look", type=Path)
    parser.add_argument("--model", type=Path)
    given = parser.parse_args()
    if given.look:
        look(given.look)
    elif given.model:
        trace(given.model)
    else:
        take(PICTURES, ROOT / "build" / "reports")


if __name__ == "__main__":
    main()
