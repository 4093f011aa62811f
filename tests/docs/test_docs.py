"""What the documentation shows is what the commands print."""

import importlib
import json
import re
from pathlib import Path

import pytest

import splitstep as ss
from splitstep import cli, scheme
from splitstep.experiments.experiment import sample
from splitstep.experiments.study import STUDIES
from splitstep.experiments.trials import figure_on, observed
from splitstep.studies.compare.tables import difference_on_test_set
from splitstep.tasks.measures import ACCURACY

read_comparison = STUDIES["compare"].read

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NOTATION, THEORY = (DOCS / "guide" / "notation.md").read_text(), (DOCS / "theory" / "splitting.md").read_text()
ERRORS = re.findall(r'^\$ splitstep schemes "(.*)"\n(Error: .*)$', NOTATION, re.M)
ROWS = re.findall(r"^\| `([^`]+)` \|", NOTATION, re.M)
PAIRS = re.findall(r"^\| `(.+?)` \| `(.+?)` \|", NOTATION, re.M)


def test_every_public_name_is_on_the_page_of_python_with_its_first_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """`python docs/making/names.py` writes it anew."""
    monkeypatch.syspath_prepend(DOCS / "making")
    page = (DOCS / "api.md").read_text()
    assert sorted(re.findall(r"^\| `(\w+)` \| [^|]{9,} \|$", page, re.M)) == sorted({*ss.__all__} - {"__version__"})
    assert page == importlib.import_module("names").page()


@pytest.mark.parametrize(("text", "message"), ERRORS)
def test_error_examples_are_real(text: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["schemes", text]) == 2
    assert capsys.readouterr().err == f"{message}\n"


def test_notations_in_the_tables_are_schemes() -> None:
    assert len(ERRORS) >= 5
    assert len(PAIRS) >= 5
    for text in ROWS:
        scheme(text)
    for typed, canonical in PAIRS:
        assert str(scheme(typed)) == canonical


def test_tables_of_orders_are_real(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["lie", "strang", "strang-midpoint"],
        ["b:F/2 a:A b:F/2", "b:F/2 a:A b:F/2 @midpoint"],
        ["macaron", "F0/2 A F1/2 @midpoint"],
        ["D/2@exact A F D/2@exact", "D/2@exact A+F@rk4 D/2@exact"],
    ):
        assert cli.main(["schemes", *words, "--measure"]) == 0
        table = capsys.readouterr().out.split("\n\n")[1]
        shown = [line.split() for line in THEORY.splitlines()]
        for line in table.splitlines()[2:]:
            assert line.split() in shown


def test_figures_of_diffusion_are_those_of_the_results() -> None:
    found = json.loads((ROOT / "results" / "pde" / "pinned.json").read_text())
    for name, limits in found["limits"].items():
        [row] = [line for line in NOTATION.splitlines() if f"@{name}" in line and line.count("|") == 5]
        assert row.split("|")[2:5] == [f" {limits[kind]:.3f} " for kind in ("one axis", "two axes", "upwind")]
    rows = {(row["name"], row["ends"], row["points"]): row for row in found["order_reduction"]}
    for points in (16, 64, 256):
        slopes = [rows[name, "reflecting", points]["slope"] for name in ("Lie-Trotter", "Strang")]
        assert f"| {points} | {slopes[0]:.2f} | {slopes[1]:.2f} |" in THEORY
    lie, strang, _ = found["orders"]
    assert f"slope {lie['slope']:.2f} and Strang\n{strang['slope']:.2f}" in THEORY
    assert f"slope {rows['Strang', 'fixed', 256]['slope']:.2f} on 256 points" in THEORY
    assert f"small: {rows['Strang', 'reflecting', 256]['errors'][-1]:.1e} with 128 steps" in THEORY
    assert f"Lie-Trotter has {rows['Lie-Trotter', 'reflecting', 256]['errors'][-1]:.1e}" in THEORY


REPORT = re.compile(r"`splitstep report (results/[^`]+) --markdown`")
PAGES = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in DOCS.glob("**/*.md"))]


@pytest.mark.parametrize("file", PAGES)
def test_verdicts_and_tables_of_comparisons_are_what_the_command_prints(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:

    monkeypatch.chdir(ROOT)
    text = (ROOT / file).read_text()
    for found in REPORT.finditer(text):
        assert cli.main(["report", *found[1].split(), "--markdown"]) == 0
        shown = text[text.index("\n\n", found.end()) + 2 :]
        assert shown.startswith(capsys.readouterr().out), found[0]


def test_every_comparison_is_shown() -> None:
    words = " ".join(words for page in PAGES for words in REPORT.findall((ROOT / page).read_text())).split()
    shown = {word for word in words if word.startswith("results/")}
    found = (
        path.parent
        for study in ("compare", "translation", "pde")
        for path in ROOT.glob(f"results/{study}/*/result.json")
    )
    kept = {str(folder.relative_to(ROOT)) for folder in found} - {"results/translation/speed"}
    assert len(kept) >= 3
    assert kept <= shown


def test_figures_of_the_laboratory_are_those_of_the_results() -> None:
    text = " ".join((DOCS / "results" / "pde.md").read_text().split())
    tasks = ("mnist", "newsgroups", "listops", "stdlib")
    found = {name: json.loads((ROOT / "results" / "pde" / name / "result.json").read_text()) for name in tasks}
    last = {
        (task, arm["name"], name): arm["own"]["profiles"][name][-1]["mean"]
        for task, result in found.items()
        for arm in result["arms"]
        for name in ("neighbours", "exponent")
    }
    for arm, tail in (("full", "in the full networks"), ("no-residual", "without residuals")):
        *others, final = (f"{last[task, arm, 'neighbours']:.3f}" for task in tasks)
        assert f"{', '.join(others)} and {final} {tail}" in text
    assert f"(exponent {last['stdlib', 'no-residual', 'exponent']:.3f})" in text
    rows = (DOCS / "results" / "pde.md").read_text().split("## The three claims")[0]
    known = {f"{value:.3f}".lstrip("-") for value in last.values()} | {f"{root_rule():.1%}"}
    for figure in re.findall(r"\d+\.\d+%|\b\d\.\d{3}\b", text.split("## The three claims")[1].split("##")[0]):
        assert figure in rows or figure in known, figure
    [diverged] = [t for t in found["newsgroups"]["trials"] if t["arm"] == "no-norm" and t["status"] == "diverged"]
    assert diverged["setting"] == ["train.lr=0.003"]
    lost = [t for t in found["stdlib"]["trials"] if t["arm"] == "neither" and t["setting"] == ["train.lr=0.003"]]
    assert [t["status"] for t in lost] == ["diverged"] * 3


def root_rule() -> float:
    """The accuracy on ListOps of a table from the operator at the root to the likeliest value."""
    rows = json.loads((ROOT / "results" / "listops_levels_long.json").read_text())["rows"]
    [row] = [row for row in rows if row["seen"] == "the operator at the root"]
    return row["test_accuracy"]


def test_figures_of_the_first_and_third_check_are_in_the_tables() -> None:
    text = " ".join((DOCS / "results" / "pde.md").read_text().split())
    tables = " ".join((DOCS / "results" / "discretisation.md").read_text().split())
    first = text.split("first check: discretisation")[1].split("##")[0]
    third = text.split("third check: the continuous limit")[1].split("##")[0]
    figures = re.findall(r"\d+\.\d+%|\b\d\.\d{3}\b|h\^\d\.\d\d \[[^]]+\]", first + third)
    assert len(figures) >= 18
    for figure in figures:
        assert figure in tables, figure
    pairs = re.findall(r"`A F` \| 1 \|[^%]*%[ |]+([\d.]+)%.*?\| 2 \|[^%]*%[ |]+([\d.]+)%", tables)
    costs = [float(own) - float(two) for own, two in pairs]
    assert ", ".join(f"{cost:.1f}" for cost in costs[:2]) + f" and {costs[2]:.1f} points" in first


def test_what_the_scale_did_on_newsgroups_is_what_the_files_say() -> None:
    text = " ".join((DOCS / "results" / "lessons.md").read_text().split())
    files = {
        name: ROOT / "results" / "compare" / name / "result.json" for name in ("newsgroups", "newsgroups-unscaled")
    }
    results = [read_comparison(json.loads(file.read_text()), name) for name, file in files.items()]
    for name, notation in (("Macaron changes", "F0/2 A F1/2"), ("Lie-Trotter", "A F")):
        scaled, unscaled = (
            sample(observed(one for one in each.trials if one.scheme == notation), figure_on("test", ACCURACY))
            for each in results
        )
        found = scaled.minus(unscaled)
        assert found is not None
        points = f"{100 * found.mean:+.2f} points [{100 * found.low:+.2f}, {100 * found.high:+.2f}]"
        assert f"{name} by {points}" in text


def test_what_settings_do_to_translators_is_what_the_files_say() -> None:
    text = " ".join((DOCS / "guide" / "translation.md").read_text().split())
    for name, folder in (("rate", "lr"), ("step", "step"), ("dropout", "dropout"), ("norms", "norm")):
        file = ROOT / "results" / "translation" / "multi30k-ablations" / folder / "result.json"
        result = read_comparison(json.loads(file.read_text()), name)
        _, macaron = (one for one in result.tests if one.split == "test2016")
        assert f"{name} {' '.join(difference_on_test_set(result, macaron))}" in text
    halves, whole = (
        read_comparison(json.loads((ROOT / "results" / "translation" / name / "result.json").read_text()), name)
        for name in ("multi30k-ablations/split", "multi30k-en-de")
    )
    seeds = {trial.seed for trial in halves.trials}
    theirs = [trial for trial in whole.trials if trial.scheme == "A F" and trial.seed in seeds]
    figure = figure_on("test", whole.metric)
    mine, other = (sample(observed(found), figure).mean() for found in (halves.trials, theirs))
    assert mine is not None
    assert other is not None
    assert f"{mine.mean:.2f} on test2016, where Lie-Trotter's same three seeds have {other.mean:.2f}" in text
