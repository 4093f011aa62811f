"""The directory of `splitstep compare distil`: what continues there, and what is refused."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from inline import here
from tiny_causal import LINES, gpt2, llama

from splitstep import cli
from splitstep.distillation.cached_teacher import NO_DISK
from splitstep.experiments import running
from splitstep.studies.distil.directory import Weights, check_directory, check_weights, claim_weights, left_out

QUICK = ["train.steps=1", "train.batch=2", "train.warmup=1", "data.test=2", "data.valid=2", "--answer-tokens", "2"]


@pytest.fixture(scope="module", autouse=True)
def inline() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "open_engine", here)
        yield


def words(place: Path, methods: str, seeds: int, out: str = "out") -> list[str]:
    models = ["compare", "distil", str(place / "teacher"), str(place / "student"), *QUICK]
    named = ["--text", str(place / "text.jsonl"), "--out", str(place / out)]
    return [*models, *named, "--methods", methods, "--seeds", str(seeds)]


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two models, a text and a comparison by `ce` alone, which has no cache."""
    place = tmp_path_factory.mktemp("begun")
    for name, one in (("teacher", llama()), ("student", gpt2("byte BPE"))):
        one.model.save_pretrained(place / name)
        one.tokenizer.save_pretrained(place / name)
    rows = [{"instruction": f"ask {n}", "response": LINES[n % 3]} for n in range(8)]
    (place / "text.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert cli.main(words(place, "ce", 1)) == 0
    return place


@pytest.fixture
def place(begun: Path) -> Iterator[Path]:
    """The same folder, as it was before, after the test."""
    kept = begun.with_name(f"{begun.name}-kept")
    shutil.copytree(begun, kept)
    yield begun
    shutil.rmtree(begun)
    kept.rename(begun)


def refused(capsys: pytest.CaptureFixture[str], given: list[str]) -> str:
    """The one line of a command that is refused."""
    capsys.readouterr()
    assert cli.main(given) == 2
    [line] = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.parametrize("which", ["teacher", "student"])
def test_weights_that_changed_under_their_name_are_refused(
    place: Path, capsys: pytest.CaptureFixture[str], which: str
) -> None:
    """Else seeds of two starts are taken for those of one, and two teachers judge."""
    other = llama(seed=5) if which == "teacher" else gpt2("byte BPE", seed=5)
    other.model.save_pretrained(place / which)
    line = refused(capsys, words(place, "ce", 2))
    assert f"{place / 'out'} began with other weights of the {which} (sha256 " in line
    assert line.endswith("restore those, or name a new directory with --out")
    assert [folder.name for folder in (place / "out" / "runs").iterdir()] == ["ce-seed0"]


def test_the_start_of_each_run_is_compared_too(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Directories that an older version began have no hashes of their own."""
    kept = json.loads((place / "out" / "weights.json").read_text())
    run = json.loads((place / "out" / "runs" / "ce-seed0" / "result.json").read_text())
    assert kept["student"] == run["start"]["sha256"]
    (place / "out" / "weights.json").unlink()
    gpt2("byte BPE", seed=5).model.save_pretrained(place / "student")
    assert "began with other weights of the student" in refused(capsys, words(place, "ce", 2))


def test_the_same_weights_continue(place: Path) -> None:
    assert cli.main(words(place, "ce", 2)) == 0
    assert len(json.loads((place / "out" / "result.json").read_text())["runs"]) == 2


def test_a_result_that_is_now_of_fewer_runs_says_so(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words(place, "ce", 2)) == 0
    assert "fewer runs" not in capsys.readouterr().err
    assert cli.main(words(place, "ce", 1)) == 0
    [line] = [line for line in capsys.readouterr().err.splitlines() if "fewer runs" in line]
    assert "out/result.json is now of fewer runs, without seed 1. What is in the folder stays, and the larger" in line
    assert line.endswith(f"command gives it back: {shlex.join(['splitstep', *words(place, 'ce', 2)])}")
    assert left_out(place / "out", ["kl"], [0]).startswith(f"{place / 'out' / 'result.json'} is now of fewer runs, ")
    assert "without ce. " in left_out(place / "out", ["kl"], range(3))
    assert left_out(place / "out", ["kl", "ce"], range(3)) == left_out(place / "new", ["kl"], [0]) == ""


def test_a_folder_with_other_files_is_refused_as_by_distil(begun: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (begun / "notes").mkdir()
    (begun / "notes" / "notes.txt").write_text("mine")
    alone = ["distil", str(begun / "teacher"), str(begun / "student"), "--text", str(begun / "text.jsonl")]
    lines = [refused(capsys, words(begun, "ce", 1, "notes")), refused(capsys, [*alone, "--out", str(begun / "notes")])]
    assert lines[0] == lines[1]
    assert lines[0].endswith("notes holds other files, not a run of splitstep: name a new directory with --out")
    assert [file.name for file in (begun / "notes").iterdir()] == ["notes.txt"]


@pytest.mark.slow
def test_advice_about_the_cache_is_right_for_this_verb(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A text that changed under its name is refused by the cache; this verb has neither --cache nor --online."""
    assert cli.main(words(place, "kl", 1, "cached")) == 0
    text = (place / "text.jsonl").read_text()
    (place / "text.jsonl").write_text(text.replace("ask 0", "ask for more"))
    line = refused(capsys, words(place, "kl", 2, "cached"))
    assert "cached/teacher is a cache of another text" in line
    assert ": name another --out and, " in line
    assert "--cache" not in NO_DISK + line
    assert "--online" not in NO_DISK + line
    capsys.readouterr()
    assert cli.main(words(place, "kl", 1, "other")) == 0
    assert cli.main([*words(place, "kl", 1, "elsewhere"), f"objective.cache={place / 'here'}"]) == 0
    assert cli.main([*words(place, "kl", 1, "online"), "objective.cache=null"]) == 0
    assert [(place / name).exists() for name in ("here", "elsewhere/teacher", "online/teacher")] == [True, False, False]


@pytest.mark.parametrize(
    ("left", "continues"),
    [
        ("teacher/manifest.json", True),
        ("teacher/.lock", True),
        (".part-study.json-0", True),
        ("runs/ce-seed0/judged.json", True),
        ("teacher/model.safetensors", False),
        ("runs/other/recipe.yaml", False),
    ],
)
def test_what_a_killed_command_left_is_no_other_file(tmp_path: Path, left: str, continues: bool) -> None:
    """The teacher reads before the recipe is noted, and older versions noted none."""
    (tmp_path / left).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / left).touch()
    if continues:
        return check_directory(tmp_path, {})
    with pytest.raises(ValueError, match="holds other files, not a run of splitstep: name a new directory"):
        check_directory(tmp_path, {})


def test_hashes_are_noted_once(tmp_path: Path) -> None:
    first = Weights("a", "b")
    check_weights(tmp_path / "none", first)
    claim_weights(tmp_path / "new", first)
    claim_weights(tmp_path / "new", first)
    with pytest.raises(ValueError, match=r"new began with other weights of the student \(sha256 b, here c\)"):
        claim_weights(tmp_path / "new", Weights("a", "c"))
