"""`splitstep compare distil`: the whole command with tiny models, its exam, and what it refuses."""

from __future__ import annotations

import json
from math import inf
from pathlib import Path
from typing import Any

import pytest
import torch
from inline import forked
from tiny_causal import LINES, ROWS, gpt2, llama

from splitstep import cli
from splitstep.distillation.judging.answers import Writing
from splitstep.doors.distil import document_of, sets_of
from splitstep.experiments.study import STUDIES
from splitstep.opening.network import PRETRAINED
from splitstep.recipe import override
from splitstep.studies.distil.exams import PLAIN, ExamFiles, has_room, held_out, make_exam
from splitstep.studies.distil.recipe_runs import RecipeRuns
from splitstep.text.instructions import Row

read_distil = STUDIES["distil"].read

QUICK = ["train.steps=2", "train.batch=2", "train.warmup=1", "train.evaluate_every=1", "train.log_every=1"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    for name, one in (("teacher", llama()), ("student", gpt2("byte BPE")), ("other", gpt2())):
        one.model.save_pretrained(folder / name)
        one.tokenizer.save_pretrained(folder / name)
    rows = [{"instruction": f"ask {n}", "response": LINES[n % 3]} for n in range(24)]
    (folder / "text.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "plain.txt").write_text("\n".join(LINES))
    (folder / "more.jsonl").write_text(json.dumps({"instruction": "why", "output": LINES[0]}))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("student", "methods"),
    [("student", "ce,skl,skl+mta"), pytest.param("other", "ce,uld,sra", marks=pytest.mark.nightly)],
)
def test_the_whole_command(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], student: str, methods: str
) -> None:
    words = ["compare", "distil", str(place / "teacher"), str(place / student), *QUICK, "data.test=4", "data.valid=4"]
    files = ["--text", str(place / "text.jsonl"), "--questions", str(place / "more.jsonl"), "--answer-tokens", "4"]
    files += ["--plain", str(place / "plain.txt")]
    options = ["--methods", methods, "--seeds", "2", "--engine", "local=2", "--out", str(tmp_path / "terms")]
    with forked():
        assert cli.main([*words, *files, *options]) == 0
    result = read_distil(json.loads((tmp_path / "terms" / "result.json").read_text()), "it")
    assert [run.method for run in result.runs] == 2 * methods.split(",")
    assert {name: one["rows"] for name, one in result.data["sets"].items()} == {"held out": 4, "more": 1}
    assert all(run.figures is not None and run.figures.distances for run in result.runs)
    assert all(len(run.valid_loss.steps) == 2 for run in result.runs)
    assert all(row.text_bits_per_byte is not None for row in result.rows)
    assert (result.made.engine, set(result.others)) == ("local=2", {"teacher", "student before"})
    asked_of_teacher = json.loads((tmp_path / "terms" / "teacher" / "manifest.json").read_text())["fields"]
    assert ("states.2" in asked_of_teacher, "final" in asked_of_teacher) == ("mta" in methods, "sra" in methods)
    assert (tmp_path / "terms" / "report.html").is_file()
    capsys.readouterr()
    assert cli.main(["report", str(tmp_path / "terms")]) == 0
    assert "undecided" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train.steps=2"], "There is no teacher: write `splitstep compare distil TEACHER STUDENT"),
        (["T"], "There is no student: name one after the teacher, or add --student-layers N."),
        (["T", "S", "U"], "U is one model too many"),
        (["T", "S", "--student-layers", "2"], "S is one model too many"),
        (["T", "S", "--methods", "ce,cee"], 'there is no term "cee"'),
        (["T", "S", "--seeds", "0"], "--seeds 0: give at least 1"),
        (["T", "S", "--engine", "locl=2"], "--engine locl=2 is unknown: use local, local=N"),
    ],
)
def test_what_is_wrong_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:

    methods = [] if "--methods" in words else ["--methods", "ce,kl"]
    assert cli.main(["compare", "distil", *words, "--text", "a", *methods, "--out", str(tmp_path / "out")]) == 2
    found = capsys.readouterr().err
    assert message in found
    assert not (tmp_path / "out").exists()


def test_the_last_rows_are_held_out() -> None:
    rows = [Row(f"ask {n}", "answer") for n in range(5)]
    assert held_out(rows, 2) == (rows[:3], rows[3:])
    for count, message in ((5, "5 of 5 rows cannot be held out"), (0, "0 of 5 rows")):
        with pytest.raises(ValueError, match=message):
            held_out(rows, count)


def written(path: Path, prompts: list[str]) -> Path:
    path.write_text("".join(json.dumps({"instruction": one, "response": LINES[0]}) + "\n" for one in prompts))
    return path


def test_no_prompt_of_the_exam_is_trained_on(tmp_path: Path) -> None:
    """Neither one of the last rows, nor one of a file of questions."""
    text = written(tmp_path / "text.jsonl", ["a", "b", "c", "a", "d", "e"])
    more = written(tmp_path / "more.jsonl", ["b", "e", "f", "f"])
    files = ExamFiles([text], {"more": more})
    exam, notes = make_exam(files, [llama()], Writing(max_tokens=4), {"test": 3, "template": "{prompt}"})
    assert {name: [row.prompt for row in rows] for name, rows in exam.sets.items()} == {
        "held out": ["d", "e"], "more": ["e", "f", "f"],
    }  # fmt: skip
    assert notes == [
        "held out: 1 of 3 rows have prompts that are trained on, and are left out",
        "more: 1 of 4 rows have prompts that are trained on, and are left out",
    ]
    with pytest.raises(ValueError, match=r"more: all of the 6 rows have prompts that are trained on: give rows with"):
        make_exam(files._replace(questions={"more": written(more, ["a"] * 6)}), [llama()], Writing(), {"test": 3})


def test_an_exam_that_no_model_has_room_for_is_refused(place: Path) -> None:
    with pytest.raises(
        ValueError, match=r"held out: all of the 4 rows are too long for a model: lower --answer-tokens"
    ):
        make_exam(ExamFiles([place / "text.jsonl"], {}), [llama()], Writing(max_tokens=250), {"test": 4})


def test_files_of_questions_have_names_of_their_own() -> None:
    given = [Path("a/self-instruct.jsonl"), Path("b.jsonl")]
    assert sets_of(given) == {"self-instruct": given[0], "b": given[1]}
    for twice in (["a/x.jsonl", "b/x.jsonl"], ["held out.jsonl"]):
        with pytest.raises(ValueError, match=r"there is a set called .* already: rename the file"):
            sets_of([Path(name) for name in twice])


def test_rows_without_room_in_one_of_the_models_are_left_out_of_all(place: Path, tmp_path: Path) -> None:
    one, long = llama(), {"instruction": "long", "response": LINES[0] * 40}
    (tmp_path / "long.jsonl").write_text(f"{json.dumps(long)}\n{(place / 'more.jsonl').read_text()}")
    given: Any = {"test": 4}
    files = ExamFiles([place / "text.jsonl"], {"long": tmp_path / "long.jsonl"})
    exam, left_out = make_exam(files, [one, gpt2()], Writing(max_tokens=4), given)
    assert left_out == ["long: 1 of 2 rows are too long for a model, and are left out"]
    assert {name: len(rows) for name, rows in exam.sets.items()} == {"held out": 4, "long": 1}
    assert not has_room(one, ROWS[0], Writing(max_tokens=250))


def cut_runs(place: Path, out: Path) -> RecipeRuns:
    """Runs of a student of two of the teacher's layers."""
    teacher = str(place / "teacher")
    document = document_of(teacher, teacher, [place / "text.jsonl"], 2, out)
    return RecipeRuns(override(document, [*QUICK, "data.test=4"]))


def test_the_student_before_training_is_the_one_that_runs_begin_with(place: Path, tmp_path: Path) -> None:
    runs = cut_runs(place, tmp_path)
    recipe = runs.recipe()
    built, judged = PRETRAINED.build(recipe, recipe.load_task(), inf), runs.start()
    assert judged.model.config.num_hidden_layers == 2
    weights = judged.model.state_dict()
    assert weights.keys() == built.state_dict().keys()
    assert all(torch.equal(x, weights[name].cpu()) for name, x in built.state_dict().items())


def test_a_student_that_is_trained_has_no_checkpoints_and_is_not_trained_again(place: Path, tmp_path: Path) -> None:
    first, again = (cut_runs(place, tmp_path).train("ce", 0, tmp_path / "run") for _ in range(2))
    assert not (tmp_path / "run" / "checkpoints").exists()
    assert first.student is not None
    assert again.student is not None
    assert first._replace(student=None) == again._replace(student=None)
    assert all(
        torch.equal(*pair)
        for pair in zip(first.student.model.parameters(), again.student.model.parameters(), strict=True)
    )


def test_files_are_found_in_the_data_folder_and_plain_text_is_cut(place: Path, tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("ab\n" * PLAIN)
    (tmp_path / "text.jsonl").write_bytes((place / "text.jsonl").read_bytes())
    files = ExamFiles([Path("text.jsonl")], {}, Path("plain.txt"), tmp_path)
    exam, _ = make_exam(files, [llama()], Writing(max_tokens=4), {"test": 4})
    assert exam.text == ("ab\n" * PLAIN)[:PLAIN]
    assert exam.window == 256  # the model reads no more
    text = exam.describe()["text"]
    assert (text["bytes"], text["window"]) == (PLAIN, 256)
    with pytest.raises(ValueError, match=r"plain.txt is plain text, and students answer instructions: give JSON lines"):
        make_exam(files._replace(questions={"it": Path("plain.txt")}), [llama()], Writing(max_tokens=4), {"test": 4})
    (tmp_path / "blank.txt").write_text("\n")
    with pytest.raises(ValueError, match=r"blank.txt is empty: give a file with text"):
        make_exam(files._replace(plain=Path("blank.txt")), [llama()], Writing(max_tokens=4), {"test": 4})
    with pytest.raises(ValueError, match=r'there is no file "none.jsonl"'):
        make_exam(files._replace(questions={"it": Path("none.jsonl")}), [llama()], Writing(max_tokens=4), {"test": 4})


def test_the_description_of_an_exam_does_not_depend_on_where_its_files_are(place: Path, tmp_path: Path) -> None:
    (tmp_path / "text.jsonl").write_bytes((place / "text.jsonl").read_bytes())
    exams = [
        make_exam(ExamFiles([folder / "text.jsonl"], {}), [llama()], Writing(max_tokens=4), {"test": 4})[0]
        for folder in (place, tmp_path)
    ]
    assert exams[0].describe() == exams[1].describe()
