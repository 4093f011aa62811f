"""From a file of one's own to predictions: the verb, what it prints, and what it refuses."""

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import call, refusal
from made_up_glue import made_up
from PIL import Image
from transformers import AutoTokenizer

from splitstep import cli
from splitstep.inference.predict import predict_run
from splitstep.inference.runs import find_run, open_run
from splitstep.tasks.glue import PARTS
from splitstep.training import read_recipe, train

MODEL = {"layers": 1, "width": 16, "heads": 2, "ffn": 32, "positions": "learned"}
TRAIN = {"steps": 30, "batch": 16, "lr": 1e-2, "warmup": 2, "evaluate_every": 15, "evaluate_batch": 32}
ENDS = ("\nand a second line", ', "quoted"', " — déjà vu", "")


def write(path: Path, header: list[str], rows: list[list[Any]]) -> str:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return str(path)


def reviews(n: int) -> list[list[Any]]:
    words = {"gut": ("gut", "wonderful"), "schlecht": ("schlecht", "terrible")}
    labels = [("gut", "schlecht")[i % 2] for i in range(n)]
    return [[f"film {i // 2} is {words[one][i // 2 % 2]}{ENDS[i // 4 % 4]}", one] for i, one in enumerate(labels)]


def trained(folder: Path, task: str, data: dict[str, Any], model: dict[str, Any] | None = None) -> Path:
    recipe = read_recipe({"task": task, "data": data, "model": {**MODEL, **(model or {})}, "train": TRAIN}, "recipe")
    train(recipe, folder / "run", quiet=True)
    return folder / "run"


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a CSV with quotes, newlines in fields and two languages. Its data are gone."""
    folder = tmp_path_factory.mktemp("classifier")
    file = write(folder / "a.csv", ["review", "class"], reviews(200))
    run = trained(folder, "classify", {"train": file, "vocab": 400})
    (folder / "a.csv").rename(folder / "gone.csv")
    return run


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on pairs of texts with numbers."""
    folder = tmp_path_factory.mktemp("pairs")
    rows = [[f"word {i % 5}", f"word {i % 3} {i}", (i % 5 == i % 3) * 2.5] for i in range(300)]
    file = write(folder / "a.csv", ["text", "text2", "score"], rows)
    return trained(folder, "classify", {"train": file, "vocab": 400}, {"pool": "first", "head_start": "zero"})


def feed(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let standard input be this text."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode())))


def said(words: list[str], given: str, monkeypatch: pytest.MonkeyPatch) -> int:
    feed(given, monkeypatch)
    return cli.main(words)


def test_each_line_gets_its_label_and_probability(
    classifier: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = "film 7 is wonderful\nfilm 8 is schlecht\n"
    assert said(["predict", str(classifier)], given, monkeypatch) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [label for label, _ in rows] == ["gut", "schlecht"]
    feed(given, monkeypatch)
    document = call(capsys, "predict", classifier)
    assert document["labels"] == ["gut", "schlecht"]
    for (label, printed), one in zip(rows, document["predictions"], strict=True):
        assert (one["label"], f"{one['probability']:.4f}") == (label, printed)
        assert sum(one["probabilities"]) == pytest.approx(1)


def test_predictions_are_those_of_transformers_with_the_saved_tokenizer(classifier: Path, pairs: Path) -> None:
    """Each line alone, so padding to the longest of a batch changes nothing."""
    for run, lines in (
        (classifier, ["film", "film 3 is terrible " * 3, "gut " * 300, "日本語"]),
        (pairs, ["word 1\tword 2", "word\tword 2 " + "and more " * 40, "a " * 100 + "\t" + "b " * 90]),
    ):
        found = predict_run(run, lines)
        opened = find_run(run).load_model()[0]
        tokenizer = AutoTokenizer.from_pretrained(run / "model")
        for line, output in zip(lines, found.outputs, strict=True):
            inputs = tokenizer(*line.split("\t"), truncation=True, return_tensors="pt")
            if not opened.config.token_types:
                inputs.pop("token_type_ids", None)
            with torch.no_grad():
                logits = opened(**inputs).logits[0]
            want = logits.softmax(-1) if found.labels else logits
            assert torch.allclose(torch.tensor(output), want, atol=1e-6)
    assert predict_run(classifier, ["gut " * 300, "gut"]).cut == [1]


def test_numbers_are_printed_and_follow_the_texts(
    pairs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = "word 1\tword 1\nword 4\tword 1\n"
    assert said(["predict", str(pairs)], given, monkeypatch) == 0
    equal, different = map(float, capsys.readouterr().out.splitlines())
    assert equal > different
    feed(given, monkeypatch)
    [one, _] = call(capsys, "predict", pairs)["predictions"]
    assert f"{one['number']:.4f}" == f"{equal:.4f}"


def test_evaluate_gives_the_figures_of_predictions(pairs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from scipy import stats

    task: Any = open_run(pairs).task
    held = task.examples["test"]
    found = [one[0] for one in predict_run(pairs, ["\t".join(texts) for texts in held.texts]).outputs]
    figures = call(capsys, "evaluate", pairs)["figures"]
    assert figures["pearson"] == pytest.approx(stats.pearsonr(found, held.labels)[0], abs=1e-6)
    assert figures["spearman"] == pytest.approx(stats.spearmanr(found, held.labels)[0], abs=1e-6)
    result = json.loads((pairs / "result.json").read_text())
    assert result["test"]["spearman"] == pytest.approx(figures["spearman"], abs=1e-6)


def test_images_are_labelled_by_their_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    random = np.random.default_rng(0)
    for name, base in (("dark", 0), ("light", 200)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(20):
            pixels = base + random.integers(0, 50, (12, 10, 3), dtype=np.uint8)
            Image.fromarray(pixels.astype(np.uint8)).save(tmp_path / "photos" / name / f"{i}.jpg")
    data = {"train": str(tmp_path / "photos"), "size": 8}
    trained(tmp_path, "images", data)
    files = [str(tmp_path / "photos" / name) for name in ("light/3.jpg", "dark/4.jpg")]
    assert said(["predict", str(tmp_path / "run")], "\n".join(files), monkeypatch) == 0
    assert [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()] == ["light", "dark"]
    (tmp_path / "x.png").write_text("no image")
    for line, message in (
        (str(tmp_path / "x.png"), "x.png is not an image"),
        ("nowhere.png", "line 1: there is no file"),
    ):
        feed(line, monkeypatch)
        assert message in refusal(capsys, "predict", tmp_path / "run")


@pytest.mark.parametrize(("run", "given", "message"), [
    ("classifier", "one\ttwo\n", "line 1 has 2 texts, and the model reads one: remove the tabs"),
    ("pairs", "a\tb\nalone\n", "line 2 has 1 text, and the model reads two, with a tab between them"),
    ("classifier", "", "there is nothing to predict"),
    ("nowhere", "x\n", "nowhere"),
])  # fmt: skip
def test_wrong_lines_are_refused_in_one_line(
    run: str, given: str, message: str, request: pytest.FixtureRequest, monkeypatch: Any, capsys: Any
) -> None:
    feed(given, monkeypatch)
    assert message in refusal(capsys, "predict", run if run == "nowhere" else request.getfixturevalue(run))


@pytest.mark.parametrize("name", ["mnli", "stsb"])
def test_a_run_of_glue_writes_the_files_of_the_official_submission(name: str, tmp_path: Path, capsys: Any) -> None:
    made_up(tmp_path, name)
    recipe = {"task": "glue", "data": {"name": name}, "model": MODEL, "train": {**TRAIN, "steps": 2}}
    train(read_recipe(recipe, "recipe"), tmp_path / "run", tmp_path, quiet=True)
    words = ["predict", str(tmp_path / "run"), "--submission", str(tmp_path / "sent"), "--data", str(tmp_path)]
    assert cli.main(words) == 0
    files = {"mnli": ["MNLI-m.tsv", "MNLI-mm.tsv"], "stsb": ["STS-B.tsv"]}[name]
    assert [Path(line).name for line in capsys.readouterr().out.splitlines()] == files
    for file in files:
        rows = list(csv.DictReader((tmp_path / "sent" / file).read_text().splitlines(), delimiter="\t"))
        assert [row["index"] for row in rows] == [str(i) for i in range(60)]
        written, said = PARTS[name].written, [row["prediction"] for row in rows]
        assert set(said) <= set(written) if written else all(0 <= float(one) <= 5 for one in said)
    if name == "mnli":
        assert cli.main(["evaluate", str(tmp_path / "run"), "--split", "mismatched", "--data", str(tmp_path)]) == 0


def test_a_models_folder_is_evaluated_with_its_own_tokens(classifier: Path, capsys: Any) -> None:
    """The file was renamed, and the task's default vocabulary is another than the model's. Nor is it a run of GLUE."""
    assert '--submission is for runs of task "glue"' in refusal(capsys, "predict", classifier, "--submission", "sent")
    words = ("--task", "classify", f"data.train={classifier.parent / 'gone.csv'}")
    figures = call(capsys, "evaluate", classifier / "model", *words)["figures"]
    assert figures["loss"] == pytest.approx(
        json.loads((classifier / "result.json").read_text())["test"]["loss"], rel=1e-5
    )
