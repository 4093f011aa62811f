"""GLUE: the counts of every published file, splits, metrics, and the form of the official submission."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_up_glue import made_up
from scipy import stats
from sklearn import metrics

from splitstep.tasks import task
from splitstep.tasks.glue import PARTS, labels_of, read_lines, submission_text, submissions, texts_of
from splitstep.tasks.measures import class_figures, class_sums, number_figures, number_sums, spearman
from splitstep.text.files import find

HERE = ("cola", "sst2", "mrpc", "rte", "stsb", "wnli")
SHORT = {("mrpc", "train"): 1}  # the copy at hand lacks a row


@pytest.mark.parametrize("name", PARTS)
def test_every_file_has_as_many_rows_as_were_published(name: str, data: Path) -> None:
    part, seen = PARTS[name], 0
    for file, count in part.counts.items():
        if find(data, f"glue/{part.folder}/{file}.tsv") is None:
            assert name in ("mnli", "qqp", "qnli")
            continue
        lines = read_lines(data, part, file)
        assert len(lines.rows) == count - SHORT.get((name, file), 0)
        assert all(text.strip() for texts in texts_of(lines, part) for text in texts)
        if not file.startswith("test"):
            labels = labels_of(lines, part)
            assert len(np.unique(labels)) == (len(part.labels) or len(np.unique(labels)))
        seen += 1
    assert seen == len(part.counts) or name in ("mnli", "qqp", "qnli")


def test_known_examples_have_their_labels(data: Path) -> None:
    """The first lines of some dev files, as read by eye."""
    known = {
        "cola": (("The sailors rode the breeze clear of the rocks.",), "acceptable"),
        "rte": ((
            "Dana Reeve, the widow of the actor Christopher Reeve, has died of lung cancer at age 44, according to the "
            "Christopher Reeve Foundation.", "Christopher Reeve had an accident."), "not_entailment"),
        "sst2": (("it 's a charming and often affecting journey . ",), "positive"),
    }  # fmt: skip
    for name, (texts, label) in known.items():
        lines = read_lines(data, PARTS[name], "dev")
        assert texts_of(lines, PARTS[name])[0] == texts
        assert PARTS[name].labels[labels_of(lines, PARTS[name])[0]] == label
    lines = read_lines(data, PARTS["stsb"], "dev")
    assert labels_of(lines, PARTS["stsb"])[:2].tolist() == [5.0, 4.75]


def test_a_tenth_of_training_is_for_validation_and_dev_is_the_test(data: Path) -> None:
    found = task("glue", {"name": "rte"}, data)
    assert found.describe()["examples"] == {"train": 2241, "valid": 249, "test": 277}
    assert found.labels == ("entailment", "not_entailment")
    assert (found.splits, found.tests) == (("train", "valid", "test"), ("test",))
    assert found.shape["token_types"] == 2


@pytest.mark.parametrize("name", ["mnli", "qqp", "qnli"])
def test_tasks_whose_data_are_not_at_hand_are_read_by_their_published_columns(name: str, tmp_path: Path) -> None:
    made_up(tmp_path, name)
    found: Any = task("glue", {"name": name}, tmp_path)
    assert found.describe()["examples"] == {"train": 54, "valid": 6} | dict.fromkeys(PARTS[name].devs, 60)
    assert found.tests == (("test", "mismatched") if name == "mnli" else ("test",))
    first = PARTS[name].texts[0]
    assert found.examples["test"].texts[7][0] == f'he said "{first} 7'
    assert found.examples["test"].labels.tolist() == [i % len(PARTS[name].written) for i in range(60)]
    files = {"mnli": ["MNLI-m.tsv", "MNLI-mm.tsv"]}.get(name, [f"{PARTS[name].folder}.tsv"])
    assert [one.name for one in submissions(name, tmp_path)] == files


def test_torn_rows_of_qqp_are_left_out_and_those_of_others_refused(tmp_path: Path) -> None:
    for name in ("qqp", "qnli"):
        made_up(tmp_path, name)
        with (tmp_path / "glue" / PARTS[name].folder / "dev.tsv").open("a") as file:
            file.write("\n61\ttorn")
    assert task("glue", {"name": "qqp"}, tmp_path).describe()["examples"]["test"] == 60
    with pytest.raises(ValueError, match=r"QNLI/dev.tsv, line 62 has 2 fields, and needs 4"):
        task("glue", {"name": "qnli"}, tmp_path)


def test_a_wrong_label_is_refused_with_its_line(tmp_path: Path) -> None:
    made_up(tmp_path, "qnli")
    path = tmp_path / "glue" / "QNLI" / "dev.tsv"
    lines = path.read_text().split("\n")
    lines[3] = lines[3].replace("entailment", "entailed")
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=r'dev.tsv, line 4: the label is "entailed", and needs to be entailment or'):
        task("glue", {"name": "qnli"}, tmp_path)


@pytest.mark.parametrize("name", HERE)
def test_a_submission_has_a_line_for_each_row_of_the_published_test(name: str, data: Path) -> None:
    """The form that gluebenchmark.com asks for: TASK.tsv, index and prediction, labels as in the files."""
    part = PARTS[name]
    (one,) = submissions(name, data)
    assert one.name == f"{part.folder}.tsv"
    guesses = [i % len(part.written) for i in range(len(one.texts))] if part.written else [-1.0, 2.34567, 9.0] * 460
    text = submission_text(name, one.indices, guesses[: len(one.texts)])
    rows = list(csv.DictReader(text.splitlines(), delimiter="\t"))
    assert text.startswith("index\tprediction\n")
    assert [int(row["index"]) for row in rows] == list(range(part.counts["test"]))
    allowed = {"rte": {"entailment", "not_entailment"}, "stsb": {"0.000", "2.346", "5.000"}}.get(name, {"0", "1"})
    assert {row["prediction"] for row in rows} == allowed


def added(parts: list[dict[str, float]]) -> dict[str, float]:
    return {name: sum(part[name] for part in parts) for name in parts[0]}


@pytest.mark.parametrize("seed", range(5))
def test_two_classes_are_scored_as_scikit_learn_does(seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    labels = (torch.rand(101, generator=random) < 0.7).long()
    logits = torch.randn(101, 2, generator=random) + torch.stack([-labels, labels], 1)
    rows = zip(logits.split(16), labels.split(16), strict=True)
    found = class_figures(added([class_sums(*part) for part in rows]))
    guess = logits.argmax(-1)
    assert found["f1"] == pytest.approx(metrics.f1_score(labels, guess), abs=1e-12)
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(labels, guess), abs=1e-12)
    assert found["matthews"] == pytest.approx(metrics.matthews_corrcoef(labels, guess), abs=1e-12)
    assert found["f1_accuracy"] == pytest.approx((found["f1"] + found["accuracy"]) / 2)
    assert found["loss"] == pytest.approx(metrics.log_loss(labels, logits.double().softmax(-1)), rel=1e-6)


@pytest.mark.parametrize("guess", [0, 1])
def test_one_guess_for_all_is_scored_as_scikit_learn_does(guess: int) -> None:
    labels = torch.tensor([0, 1, 1, 0, 1])
    logits = torch.zeros(5, 2)
    logits[:, guess] = 1
    found = class_figures(class_sums(logits, labels))
    assert found["matthews"] == metrics.matthews_corrcoef(labels, [guess] * 5) == 0
    assert found["f1"] == pytest.approx(metrics.f1_score(labels, [guess] * 5, zero_division=0))  # pyright: ignore


def test_several_classes_have_no_f1() -> None:
    assert set(class_figures(class_sums(torch.randn(6, 3), torch.tensor([0, 1, 2, 0, 1, 2])))) == {"loss", "accuracy"}


@pytest.mark.parametrize("shift", [0.0, 100.0])
@pytest.mark.parametrize("seed", range(3))
def test_numbers_are_scored_as_scipy_does(seed: int, shift: float) -> None:
    random = np.random.default_rng(seed)
    labels = np.round(random.uniform(0, 5, 203), 1) + shift  # with ties
    guess = labels + random.normal(0, 1, 203)
    x, y = torch.from_numpy(guess)[:, None], torch.from_numpy(labels)
    rows = zip(x.split(20), y.split(20), strict=True)
    found = number_figures(added([number_sums(*part) for part in rows]))
    assert found["pearson"] == pytest.approx(stats.pearsonr(guess, labels)[0], abs=1e-9)
    assert found["loss"] == pytest.approx(metrics.mean_squared_error(labels, guess))
    assert spearman(guess, labels) == pytest.approx(stats.spearmanr(guess, labels)[0])


def test_constant_predictions_correlate_with_nothing() -> None:
    labels = torch.tensor([1.0, 2.0, 3.0])
    assert number_figures(number_sums(torch.full((3, 1), 0.1), labels))["pearson"] == 0
    assert spearman(np.full(3, 0.1), labels.numpy()) == 0
