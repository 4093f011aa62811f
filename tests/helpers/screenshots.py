"""The pictures of README and of the gallery: the first screen of real pages, as a browser shows them.

python tests/helpers/screenshots.py          # writes docs/pictures/*.png and pages.json from results/; needs Chromium
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

from splitstep.doors.lists import report

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
WIDTHS = (390, 768, 1280)
SCREEN = (900, 760)  # of a picture
COLOURS = 256  # enough for pages, which have few


def report_page(name: str, out: Path) -> Path:
    """The page of a result."""
    [made] = report(ROOT / "results" / PAGES[name], out=out / name)
    assert not isinstance(made, str)
    assert made.page is not None
    return made.page


def shown(work: Path) -> dict[str, Path]:
    """What each picture shows."""
    return {name: report_page(name, work) for name in PAGES} | {"particles": ROOT / "docs" / "particles.svg"}


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
    small = io.BytesIO()
    Image.open(io.BytesIO(taken)).convert("RGB").quantize(COLOURS).save(small, "PNG", optimize=True)
    return small.getvalue()


def take(out: Path, work: Path) -> None:
    """Write all pictures."""
    out.mkdir(parents=True, exist_ok=True)
    files = shown(work)
    with chromium() as browser:
        for name, file in files.items():
            (out / f"{name}.png").write_bytes(picture(browser, file))
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
    given = parser.parse_args()
    if given.look:
        look(given.look)
    else:
        take(PICTURES, ROOT / "build" / "reports")


if __name__ == "__main__":
    main()
