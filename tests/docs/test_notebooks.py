"""The notebooks run from the first cell to the last, with a small model and a short text in the place of large ones."""

import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pretrained_folders
import pytest
import screenshots
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
TINY = '\\"model.width=16\\", \\"model.layers=1\\", \\"train.batch=2\\", \\"train.steps=4\\", \\"train.warmup=1\\"'
SMALLER = {  # in the JSON of a notebook
    "HuggingFaceTB/SmolLM2-135M-Instruct": "model",
    "ss.compare(text=": f"ss.compare({TINY}, text=",
    "minutes=5)": "seeds=3)",
    "minutes=5, plan": "seeds=3, plan",
}
PICTURES = {"lecture": 3, "compare": 1, "inspect": 2}  # at least


def cells(file: Path, kind: str) -> list[str]:
    return ["".join(one["source"]) for one in json.loads(file.read_text())["cells"] if one["cell_type"] == kind]


def test_there_are_three() -> None:
    assert {file.stem for file in NOTEBOOKS} == set(PICTURES)


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_is_small_says_its_time_and_keeps_no_outputs(file: Path) -> None:
    document = json.loads(file.read_text())
    assert file.stat().st_size < 10_000
    assert not any(one.get("outputs") or one.get("execution_count") for one in document["cells"])
    first = re.sub(r"<!--.*?-->", "", cells(file, "markdown")[0], flags=re.DOTALL)
    assert re.search(r"\d+ (seconds|minutes) on two cores", first)
    nbformat.validate(nbformat.from_dict(document))


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_picture_takes_at_most_three_lines(file: Path) -> None:
    drawn = [one for one in cells(file, "code") if ".plot(" in one]
    assert len(drawn) >= PICTURES[file.stem] - 1
    assert all(len(one.splitlines()) <= 3 for one in drawn)


def test_the_lecture_shows_its_pictures_before_it_runs() -> None:
    [file] = [one for one in NOTEBOOKS if one.stem == "lecture"]
    shown = [re.findall(r"!\[[^]]+\]\((.+)\)", text) for text in cells(file, "markdown")]
    pictures = [(file.parent / one).resolve() for cell in shown for one in cell]
    assert [one.stem for one in pictures] == list(screenshots.LECTURE)
    assert sum(one.stat().st_size for one in pictures) < 300_000


@pytest.mark.nightly
@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs_and_shows_its_pictures(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pretrained_folders.saved(tmp_path / "model", pretrained_folders.llama())
    lines = [f"Dear {word} {n}, this is note {n % 7}.\n" for n in range(3_000) for word in ("reader", "friend")]
    (tmp_path / "my.txt").write_text("".join(lines))
    source = file.read_text()
    for large, small in SMALLER.items():
        source = source.replace(large, small)
    notebook = nbformat.reads(source, as_version=4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert (
        len([one for one in shown(notebook) if "image/png" in one or "<svg" in one.get("text/html", "")])
        >= (PICTURES[file.stem])
    )


def shown(notebook: Any) -> list[Any]:
    """What the cells show, by media type."""
    return [output["data"] for cell in notebook.cells for output in cell.get("outputs", ()) if "data" in output]
