"""Heads for one label, several labels and numbers: losses are those of transformers."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import inputs, tiny
from transformers import AutoModelForImageClassification, AutoModelForSequenceClassification
from transformers.loss.loss_utils import ForSequenceClassificationLoss

AUTO: dict[str, Any] = {"sequence": AutoModelForSequenceClassification, "image": AutoModelForImageClassification}
LABELS = {
    "regression": torch.tensor([0.5, -1.0, 2.0]),
    "single_label_classification": torch.tensor([0, 2, 1]),
    "multi_label_classification": torch.tensor([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]),
}


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("problem", list(LABELS))
@pytest.mark.parametrize("kind", list(AUTO))
def test_the_loss_is_that_of_transformers(kind: str, problem: str, told: bool, tmp_path: Path) -> None:
    """Also if the config does not say what the problem is: labels and their number do."""
    number = 1 if problem == "regression" else 3
    model = tiny(kind, num_labels=number, **({"problem_type": problem} if told else {}))
    out = model(**inputs(kind), labels=LABELS[problem])
    config = type(model.config)(num_labels=number)
    torch.testing.assert_close(out.loss, ForSequenceClassificationLoss(LABELS[problem], out.logits, config))
    assert config.problem_type == problem
    out.loss.backward()
    model.save_pretrained(tmp_path)
    again = AUTO[kind].from_pretrained(tmp_path).eval()
    torch.testing.assert_close(again(**inputs(kind), labels=LABELS[problem]).loss, out.loss)
    if problem != "single_label_classification":
        assert again.config.problem_type == problem


@pytest.mark.parametrize("problem", list(LABELS))
def test_a_loss_in_two_halves_is_the_loss_of_the_whole(problem: str) -> None:
    """As Trainer accumulates gradients: it passes the number of labels in all batches."""
    model = tiny("sequence", num_labels=1 if problem == "regression" else 3, problem_type=problem)
    given, labels = inputs("sequence"), LABELS[problem]
    whole = model(**given, labels=labels).loss

    def part(i: slice) -> Any:
        some = {name: x[i] for name, x in given.items()}
        return model(**some, labels=labels[i], num_items_in_batch=labels.numel()).loss

    torch.testing.assert_close(part(slice(0, 2)) + part(slice(2, 3)), whole)


def test_several_numbers_are_one_regression() -> None:
    model, labels = tiny("sequence", problem_type="regression"), torch.randn(3, 3)
    out = model(**inputs("sequence"), labels=labels)
    torch.testing.assert_close(out.loss, (out.logits - labels).square().mean())


def test_labels_of_the_wrong_shape_are_one_clear_line() -> None:
    with pytest.raises(ValueError, match=r"^labels have shape \[3\]: a head of num_labels=3 for multi_label_classif"):
        tiny("sequence", problem_type="multi_label_classification")(**inputs("sequence"), labels=torch.ones(3))
