"""`splitstep compare distil`: the whole command with tiny models, its exam, its directory, and what it refuses."""

import json
import shlex
import shutil
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import read_back, refusal
from inline import forked
from tiny_causal import LINES, ROWS, gpt2, llama

from splitstep import cli
from splitstep.distillation.judging.answers import Writing
from splitstep.distillation.teacher import NO_DISK
from splitstep.doors.distil import document_of, sets_of
from splitstep.experiments import running
from splitstep.jobs import open_engine
from splitstep.opening.network import PRETRAINED
from splitstep.recipe import override, read_recipe
from splitstep.studies.distil.directory import check_recipe, left_out
from splitstep.studies.distil.inputs import PLAIN, ExamFiles, RecipeRuns, is_long, make_exam

QUICK = ["train.steps=1", "train.batch=2", "train.warmup=1", "data.test=2", "data.valid=2"]
FEW = Writing(max_tokens=4)
pytestmark = pytest.mark.usefixtures("inline")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three models and texts."""
    folder = tmp_path_factory.mktemp("pairs")
    for name, one in (("teacher", llama()), ("student", gpt2("byte BPE")), ("other", gpt2())):
        one.model.save_pretrained(folder / name)
        one.tokenizer.save_pretrained(folder / name)
    rows = [{"instruction": f"ask {n}", "response": LINES[n % 3]} for n in range(8)]
    (folder / "text.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "plain.txt").write_text("\n".join(LINES))
    (folder / "more.jsonl").write_text(json.dumps({"instruction": "why", "output": LINES[0]}))
    return folder


@pytest.fixture(scope="module")
def begun(models: Path) -> Path:
    """The folder with a comparison by `ce` alone, which has no cache."""
    assert cli.main(words(models, "ce", 1)) == 0
    return models


@pytest.fixture
def place(begun: Path) -> Iterator[Path]:
    """The same folder, as it was before, after the test."""
    kept = begun.with_name(f"{begun.name}-kept")
    shutil.copytree(begun, kept)
    yield begun
    shutil.rmtree(begun)
    kept.rename(begun)


def words(place: Path, methods: str, seeds: int, out: str = "out", student: str = "student") -> list[str]:
    given = ["compare", "distil", str(place / "teacher"), str(place / student), *QUICK, "--answer-tokens", "2"]
    named = ["--text", str(place / "text.jsonl"), "--out", str(place / out)]
    return [*given, *named, "--methods", methods, "--seeds", str(seeds)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("student", "methods"), [("student", "skl,skl+mta"), pytest.param("other", "ce,uld,sra", marks=pytest.mark.nightly)]
)
def test_the_whole_command(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, student: str, methods: str
) -> None:
    monkeypatch.setattr(running, "open_engine", open_engine)
    out, more = place / "terms", ["--questions", str(place / "more.jsonl"), "--plain", str(place / "plain.txt")]
    with forked():
        given = words(place, methods, 1, "terms", student)
        assert cli.main([*given, *more, "--engine", "local=2", "train.evaluate_every=1"]) == 0
    result = read_back(out)
    assert [run.method for run in result.runs] == methods.split(",")
    assert {name: one["rows"] for name, one in result.data["sets"].items()} == {"held out": 2, "more": 1}
    assert all(run.figures is not None and run.figures.distances for run in result.runs)
    assert all(len(run.valid_loss.steps) == 1 for run in result.runs)
    assert all(row.text_bits_per_byte is not None for row in result.rows)
    assert (result.made.engine, set(result.others)) == ("local=2", {"teacher", "student before"})
    asked_of_teacher = json.loads((out / "teacher" / "manifest.json").read_text())["fields"]
    assert ("states.2" in asked_of_teacher, "final" in asked_of_teacher) == ("mta" in methods, "sra" in methods)
    assert "undecided" in capsys.readouterr().out


def written(path: Path, prompts: list[str]) -> Path:
    path.write_text("".join(json.dumps({"instruction": one, "response": LINES[0]}) + "\n" for one in prompts))
    return path


def test_no_prompt_of_the_exam_is_trained_on(tmp_path: Path) -> None:
    """Neither one of the last rows, nor one of a file of questions."""
    text = written(tmp_path / "text.jsonl", ["a", "b", "c", "a", "d", "e"])
    more = written(tmp_path / "more.jsonl", ["b", "e", "f", "f"])
    files = ExamFiles([text], {"more": more})
    exam, notes = make_exam(files, [llama()], FEW, {"test": 3, "template": "{prompt}"})
    assert {name: [row.prompt for row in rows] for name, rows in exam.sets.items()} == {
        "held out": ["d", "e"], "more": ["e", "f", "f"],
    }  # fmt: skip
    assert notes == [
        "held out: 1 of 3 rows have prompts that are trained on, and are left out",
        "more: 1 of 4 rows have prompts that are trained on, and are left out",
    ]
    written(more, ["a"] * 6)
    with pytest.raises(ValueError, match=r"more: all of the 6 rows have prompts that are trained on: give rows with"):
        make_exam(files, [llama()], FEW, {"test": 3})


def test_rows_without_room_in_one_of_the_models_are_left_out_of_all(models: Path, tmp_path: Path) -> None:
    one, long = llama(), {"instruction": "long", "response": LINES[0] * 40}
    (tmp_path / "long.jsonl").write_text(f"{json.dumps(long)}\n{(models / 'more.jsonl').read_text()}")
    files = ExamFiles([models / "text.jsonl"], {"long": tmp_path / "long.jsonl"})
    exam, left = make_exam(files, [one, gpt2()], FEW, {"test": 4})
    assert left == ["long: 1 of 2 rows are too long for a model, and are left out"]
    assert {name: len(rows) for name, rows in exam.sets.items()} == {"held out": 4, "long": 1}
    assert is_long(ROWS[0], one, Writing(max_tokens=250))


def test_files_are_found_in_the_data_folder_and_plain_text_is_cut(models: Path, tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("ab\n" * PLAIN)
    (tmp_path / "text.jsonl").write_bytes((models / "text.jsonl").read_bytes())
    files = ExamFiles([Path("text.jsonl")], {}, Path("plain.txt"), tmp_path)
    exam, _ = make_exam(files, [llama()], FEW, {"test": 4})
    assert exam.text == ("ab\n" * PLAIN)[:PLAIN]
    assert exam.window == 256  # the model reads no more
    said = exam.describe()
    assert (said["text"]["bytes"], said["text"]["window"]) == (PLAIN, 256)
    elsewhere, _ = make_exam(ExamFiles([models / "text.jsonl"], {}), [llama()], FEW, {"test": 4})
    assert elsewhere.describe()["sets"] == said["sets"]  # wherever the files are


NAMED = {name: Path(f"{name}.txt") for name in ("plain", "blank")} | {"none": Path("none.jsonl")}


@pytest.mark.parametrize(("files", "test", "most", "message"), [
    ({"questions": {"it": NAMED["plain"]}}, 4, 4, "plain.txt is plain text, and students answer instructions"),
    ({"questions": {"it": NAMED["none"]}}, 4, 4, 'there is no file "none.jsonl"'),
    ({"plain": NAMED["blank"]}, 4, 4, "blank.txt is empty: give a file with text"),
    ({}, 8, 4, "8 of 8 rows cannot be held out"),
    ({}, 0, 4, "0 of 8 rows cannot be held out"),
    ({}, 4, 250, "held out: all of the 4 rows are too long for a model: lower --answer-tokens"),
])  # fmt: skip
def test_an_exam_that_cannot_be_held_is_refused(
    models: Path, files: dict[str, Any], test: int, most: int, message: str
) -> None:
    (models / "blank.txt").write_text("\n")
    given = ExamFiles([models / "text.jsonl"], {}, None, models)._replace(**files)
    with pytest.raises(ValueError, match=message):
        make_exam(given, [llama()], Writing(max_tokens=most), {"test": test})


def test_files_of_questions_have_names_of_their_own() -> None:
    given = [Path("a/self-instruct.jsonl"), Path("b.jsonl")]
    assert sets_of(given) == {"self-instruct": given[0], "b": given[1]}
    for twice in (["a/x.jsonl", "b/x.jsonl"], ["held out.jsonl"]):
        with pytest.raises(ValueError, match=r"there is a set called .* already: rename the file"):
            sets_of([Path(name) for name in twice])


def test_a_student_of_a_recipe(models: Path, tmp_path: Path) -> None:
    """The one before training is the one that runs begin with. One that is trained has no checkpoints, and is not
    trained again."""
    teacher = str(models / "teacher")
    document = document_of(teacher, teacher, [models / "text.jsonl"], 2, tmp_path / "cache")
    runs = RecipeRuns(read_recipe(override(document, QUICK), "it"))
    built, judged = PRETRAINED.build(runs.base, runs.base.load_task(), inf), runs.start()
    assert judged.model.config.num_hidden_layers == 2
    weights = judged.model.state_dict()
    assert weights.keys() == built.state_dict().keys()
    assert all(torch.equal(x, weights[name].cpu()) for name, x in built.state_dict().items())
    first, again = (runs.train("ce", 0, tmp_path / "run") for _ in range(2))
    assert not (tmp_path / "run" / "checkpoints").exists()
    assert first._replace(student=None) == again._replace(student=None)
    pairs = zip(first.student.model.parameters(), again.student.model.parameters(), strict=True)
    assert all(torch.equal(*pair) for pair in pairs)


@pytest.mark.parametrize("which", ["teacher", "student", "student of an older version"])
def test_weights_that_changed_under_their_name_are_refused(
    place: Path, capsys: pytest.CaptureFixture[str], which: str
) -> None:
    """Else seeds of two starts are taken for those of one, and two teachers judge. Older versions kept no hashes but
    those of each run's start."""
    kept = json.loads((place / "out" / "weights.json").read_text())
    run = json.loads((place / "out" / "runs" / "ce-seed0" / "result.json").read_text())
    assert kept["student"] == run["start"]["sha256"]
    if which.endswith("version"):
        (place / "out" / "weights.json").unlink()
    name = which.split()[0]
    other = llama(seed=5) if name == "teacher" else gpt2("byte BPE", seed=5)
    other.model.save_pretrained(place / name)
    line = refusal(capsys, *words(place, "ce", 2)).strip()
    assert f"{place / 'out'} began with other weights of the {name} (sha256 " in line
    assert line.endswith("restore those, or name a new directory with --out")
    assert [folder.name for folder in (place / "out" / "runs").iterdir()] == ["ce-seed0"]


def test_a_comparison_continues_and_a_result_that_is_now_of_fewer_runs_says_so(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words(place, "ce", 2)) == 0
    assert len(json.loads((place / "out" / "result.json").read_text())["runs"]) == 2
    assert "fewer runs" not in capsys.readouterr().err
    assert cli.main(words(place, "ce", 1)) == 0
    [line] = [line for line in capsys.readouterr().err.splitlines() if "fewer runs" in line]
    assert "out/result.json is now of fewer runs, without seed 1. What is in the folder stays, and the larger" in line
    assert line.endswith(f"command gives it back: {shlex.join(['splitstep', *words(place, 'ce', 2)])}")
    assert left_out(place / "out", ["kl"], [0]).startswith(f"{place / 'out' / 'result.json'} is now of fewer runs, ")
    assert "without ce. " in left_out(place / "out", ["kl"], range(3))
    assert left_out(place / "out", ["kl", "ce"], range(3)) == left_out(place / "new", ["kl"], [0]) == ""


@pytest.mark.slow
def test_advice_about_the_cache_is_right_for_this_verb(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A text that changed under its name is refused by the cache; this verb has neither --cache nor --online."""
    elsewhere = [*words(place, "kl", 1, "elsewhere"), f"objective.cache={place / 'here'}"]
    assert cli.main(elsewhere) == 0
    assert [(place / name).exists() for name in ("here", "elsewhere/teacher")] == [True, False]
    text = (place / "text.jsonl").read_text()
    (place / "text.jsonl").write_text(text.replace("ask 0", "ask for more"))
    line = refusal(capsys, *elsewhere)
    assert "here is a cache of another text" in line
    assert ": name another --out and, " in line
    assert not [name for name in ("--cache", "--online") if name in NO_DISK + line]
    assert cli.main([*words(place, "kl", 1, "online"), "objective.cache=null"]) == 0
    assert not (place / "online" / "teacher").exists()


@pytest.mark.parametrize(("left", "text", "message"), [
    ("teacher/manifest.json", "", ""),
    ("teacher/.lock", "", ""),
    (".part-study.json-0", "", ""),
    ("runs/ce-seed0/judged.json", "", ""),
    ("teacher/model.safetensors", "", "holds other files, not a run of splitstep: name a new directory"),
    ("runs/other/recipe.yaml", "", "holds other files, not a run of splitstep: name a new directory"),
    ("recipe.yaml", "task: text", "belongs to a single run: name a new directory"),
    ("result.json", '{"study": "compare"}', "holds the result of something else: name a new directory"),
    ("result.json", "{", "result.json is not JSON .*: name a new directory"),
    ("study.json", "[]", "study.json .*: name a new directory"),
])  # fmt: skip
def test_what_a_killed_command_left_is_no_other_file(tmp_path: Path, left: str, text: str, message: str) -> None:
    """The teacher reads before the recipe is noted, and older versions noted none."""
    (tmp_path / left).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / left).write_text(text)
    if not message:
        return check_recipe(tmp_path, {})
    with pytest.raises(ValueError, match=message):
        check_recipe(tmp_path, {})
