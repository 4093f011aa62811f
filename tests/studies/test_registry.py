"""A study of another package: what it wrote is read, printed and drawn by `splitstep report`."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from splitstep import cli
from splitstep.experiments.study import STUDIES, Study, study_of

EXTENDING = (Path(__file__).parents[2] / "docs" / "guide" / "extending.md").read_text()
[CODE] = [code for code in re.findall(r"```python\n(.*?)```", EXTENDING, re.S) if "import Study" in code]
[ENTRY] = re.findall(r'^\[project.entry-points."(splitstep.studies)"\]\n(\w+) = "(.*)"$', EXTENDING, re.M)
DOCUMENT = {"study": "depths", "format": 1, "depths": {"digits": 2, "<b>": 6}}


@pytest.fixture(autouse=True)
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package of docs/guide/extending.md as pip would install it, and entries that are broken."""
    site = tmp_path / "site"
    (site / "depths-1.0.dist-info").mkdir(parents=True)
    (site / "depths.py").write_text(f"{CODE}\nBROKEN = 'no study'\n")
    (site / "depths-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: depths\nVersion: 1.0\n")
    (site / "depths-1.0.dist-info" / "entry_points.txt").write_text(
        "[{}]\n{} = {}\nbroken = depths:BROKEN\ncompare = depths:BROKEN\n".format(*ENTRY)
    )
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "depths", raising=False)
    monkeypatch.setattr(STUDIES, "_found", None)
    monkeypatch.setattr(STUDIES, "_loaded", dict(STUDIES._loaded))


def report(folder: Path, document: Any, *words: str) -> int:
    folder.mkdir(exist_ok=True)
    (folder / "result.json").write_text(json.dumps(document))
    return cli.main(["report", str(folder), *words])


def test_a_study_of_another_package_is_printed_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(tmp_path / "out", DOCUMENT) == 0
    said = capsys.readouterr()
    assert said.err == f"Report: {tmp_path / 'out' / 'report.html'}\n"
    assert [line.split() for line in said.out.splitlines()[-2:]] == [["digits", "2"], ["<b>", "6"]]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<h1>Depths of networks</h1>" in page
    assert '<th scope="row">&lt;b&gt;</th><td data-head="layers"><span>6</span></td>' in page
    assert report(tmp_path / "out", DOCUMENT, "--json") == 0
    assert json.loads(capsys.readouterr().out) == DOCUMENT
    assert report(tmp_path / "out", DOCUMENT, str(tmp_path / "out"), "--markdown") == 0
    assert capsys.readouterr().out.count("| task | layers |\n| --- | --- |\n| digits | 2 |\n") == 2


@pytest.mark.parametrize(("document", "words", "message"), [
    ({**DOCUMENT, "format": 2}, [], "has format 2; this splitstep reads format 1."),
    ({**DOCUMENT, "depths": {"digits": "two"}}, [], "depths.digits is 'two', and needs a whole number"),
    ({"study": "depth"}, [], "is of the study 'depth', which is not installed. Did you mean depths?"),
    ({"study": "broken"}, [], "'broken' of the package depths does not load (ValueError: it is 'no study'"),
    (DOCUMENT, ["--against", "lie", "--markdown"], "has no differences between schemes: leave out --against."),
    (DOCUMENT, ["--losses", "--markdown"], "There is no table of losses in these results: leave out --losses."),
    ({"status": "finished"}, [], "is not the result of a study"),
])  # fmt: skip
def test_what_is_wrong_is_one_line(
    tmp_path: Path, document: Any, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(tmp_path / "out", document, *words) == 2
    said = capsys.readouterr()
    assert (said.out, len(said.err.splitlines())) == ("", 1)
    assert message in said.err


def test_own_studies_are_imported_when_they_are_asked_for() -> None:
    code = (
        "import sys, splitstep.experiments.study as s; assert 'compare' in s.STUDIES; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert isinstance(STUDIES["orders"], Study)
    assert study_of({"study": "orders"}, "there") is STUDIES["orders"]
