"""The jobs of the README as calls of Python: each returns a typed result that is printed, framed and drawn."""

import sys
from pathlib import Path
from typing import Any

import pytest
from distil_pairs import bpe, instructions, llama, saved
from inline import here

import splitstep as ss
from splitstep.cli import VERBS
from splitstep.doors.door import door, parameters_of, read_help
from splitstep.experiments import running
from splitstep.report.drawing import document_to_terminal
from splitstep.report.result import Report
from splitstep.studies.orders import orders
from splitstep.studies.slopes import with_slopes

SMALL = ("model.layers=1", "model.width=16", "model.heads=2", "model.ffn=512", "train.batch=4", "train.warmup=1")
QUICK = (*SMALL, "train.steps=2", "train.evaluate_every=1", "train.log_every=1")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a model and a text; runs of studies are made in this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "open_engine", here)
    saved(llama(bpe(), 3, 8), bpe(), tmp_path / "teacher")
    instructions(tmp_path / "text.jsonl")
    return tmp_path


def check(result: Any, rows: int, columns: set[str]) -> None:
    """It has a verdict, and is printed, framed and drawn."""
    assert isinstance(result, Report)
    assert result.verdict is not None
    assert result.verdict.sentence.split() == document_to_terminal(result.document()).split()[: len(words(result))]
    assert "srcdoc" in result._repr_html_()
    pytest.importorskip("pandas")
    frame = result.frame()
    assert len(frame) == rows
    assert columns <= set(frame.columns)
    pytest.importorskip("matplotlib")
    [*axes] = result.plot().axes
    assert any(one.has_data() for one in axes)


def words(result: Report) -> list[str]:
    assert result.verdict is not None
    return result.verdict.sentence.split()


def test_the_jobs_of_the_readme_are_calls_with_results(folder: Path) -> None:
    run = ss.train("digits", *QUICK)
    assert run.folder == Path("runs/train-digits")
    check(run, 4, {"step", "split", "loss"})
    check(
        ss.compare(None, *QUICK, task="digits", schemes="lie,macaron", seeds=2), 4, {"scheme", "seed", "test.accuracy"}
    )
    check(ss.ablate("digits", *QUICK, seeds=1, rates=(1e-3,)), 4, {"arm", "seed"})
    check(ss.converge("runs/train-digits", examples=8, substeps="1,2", steps=(1, 2)), 12, {"scheme", "substeps"})
    check(
        ss.inspect("teacher", texts=2, tokens=6, spectra=1, probes=("drift", "rank")),
        116,
        {"probe", "number", "figure"},
    )
    built = ss.approximate("max", train_steps=0)
    check(built, 1, {"eps", "units"})
    assert abs(float(built([[0.2], [0.7]])[0, 0]) - 0.7) < built.certificate.error
    small = [one for one in QUICK if not one.startswith("model.")]
    check(ss.distil("teacher", *small, text=["text.jsonl"], student_layers=2), 4, {"step", "split", "loss"})
    made = {one.name for one in Path("runs").iterdir()}
    assert made == {"train-digits", "compare-digits", "ablate-digits", "converge-train-digits", "inspect-teacher",
                    "approximate-max", "distil-teacher", "distil-teacher-teacher"}  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_a_door_is_typed_and_a_verb_has_its_parameters(verb: str) -> None:
    function = VERBS[verb].function
    parameters = parameters_of(function)
    assert parameters
    assert "return" in function.__annotations__
    assert set(read_help(function.__doc__).parameters) >= {one.name for one in parameters if one.form != "lines"}
    public = getattr(ss, verb.replace(" ", "_"), None)
    assert public is function or verb in ("schemes", "recipes", "tasks", "report")  # packages have these names


def test_words_and_values_are_the_same(tmp_path: Path) -> None:
    @door
    def called(*names: Path, steps: tuple[float, ...] = (), text: list[Path] | None = None, f: Any = None) -> Any:
        """It has all forms."""
        return names, steps, text

    given = (
        called("a", Path("b"), steps="1,2", text="c"),
        called(Path("a"), Path("b"), steps=[1, 2.0], text=[Path("c")]),
    )
    assert given[0] == given[1] == ((Path("a"), Path("b")), (1.0, 2.0), [Path("c")])
    with pytest.raises(ValueError, match="--steps: 'x' is not a number"):
        called(steps="1,x")


@pytest.mark.parametrize("package", ["pandas", "matplotlib"])
def test_a_package_that_is_missing_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in sys.modules if one.partition(".")[0] == package] + [package]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "splitstep.report.figure", raising=False)
    result = with_slopes(orders(["lie"]))
    with pytest.raises(ModuleNotFoundError, match=rf"^(frame|plot)\(\) needs \w+: pip install {package}$"):
        result.frame() if package == "pandas" else result.plot()


def test_a_chart_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^Orders of schemes has no chart 'x'\. Known: Errors against"):
        with_slopes(orders(["lie"])).plot("x")
