"""Training with next-sentence prediction: exact resume, learning, compilation, and what other models take over."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from children import check_killed
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM

from splitstep.cli import main
from splitstep.tasks import Task
from splitstep.training import read_recipe, train
from splitstep.training.networks import build_model

SYLLABLES = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
SECOND = {f"next_sentence.{part}.{name}" for part in ("pooler", "head") for name in ("weight", "bias")}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of 600 documents of some sentences each. Those of one subject in six have the same syllables."""
    folder, chosen = tmp_path_factory.mktemp("text"), random.Random(0)
    for number in range(600):
        subject = SYLLABLES[number % 6 * 10 :][:10]
        words = [a + b for a in subject for b in subject]
        sentences = (" ".join(chosen.choices(words, k=chosen.randint(4, 9))) for _ in range(chosen.randint(2, 12)))
        (folder / f"{number:03}.txt").write_text(". ".join(sentences) + ".")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPLITSTEP_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield folder


def document(text: Path, next_sentence: bool = True, **options: Any) -> dict[str, Any]:
    return {
        "task": "mlm",
        "data": {"train": str(text), "vocab_size": 400, "length": 48, "next_sentence": next_sentence},
        "model": {"layers": 2, "width": 16, "heads": 2, "ffn": 32, "dropout": 0.1, "token_types": 2},
        "train": {
            "steps": 9, "batch": 64, "accumulate": 2, "warmup": 2, "log_every": 3, "evaluate_every": 4,
            "checkpoint_seconds": 0.0, **options,
        },
    }  # fmt: skip


@pytest.mark.slow
def test_a_killed_run_with_pairs_continues_exactly(text: Path, tmp_path: Path) -> None:
    cached = {"SPLITSTEP_CACHE": os.environ["SPLITSTEP_CACHE"]}
    read_recipe(document(text), "recipe").load_task()  # prepares the text
    check_killed(document(text), tmp_path, environment=cached)


@pytest.fixture(scope="module")
def trained(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trained") / "run"
    result = train(read_recipe(document(text, steps=3), "recipe"), out, quiet=True)
    assert result.test is not None
    assert {"accuracy", "next_accuracy", "next_loss"} <= result.test.keys()
    assert result.metric.name == "accuracy"
    return out


def start_of(given: dict[str, Any], trained: Path, out: Path) -> Any:
    result = train(read_recipe({**given, "start": str(trained)}, "recipe"), out, quiet=True)
    assert result.start is not None
    return result.start


def test_the_second_head_is_taken_over_or_left_or_new(text: Path, trained: Path, tmp_path: Path) -> None:
    plain = train(read_recipe(document(text, False, steps=1), "recipe"), tmp_path / "plain", quiet=True)
    assert plain.status == "finished"
    same = start_of(document(text, steps=1), trained, tmp_path / "same")
    assert (same.new, same.left) == ([], [])
    fewer = start_of(document(text, False, steps=1), trained, tmp_path / "fewer")
    assert (fewer.new, set(fewer.left)) == ([], SECOND)
    more = start_of(document(text, steps=1), tmp_path / "plain", tmp_path / "more")
    assert (set(more.new), more.left) == (SECOND, [])


def test_a_classifier_takes_the_body_and_leaves_both_heads(text: Path, trained: Path, tmp_path: Path) -> None:
    rows = [f"{'yes' if n % 2 else 'no'},{' '.join(random.Random(n).choices(SYLLABLES, k=5))}" for n in range(200)]
    (tmp_path / "rows.csv").write_text("\n".join(["label,text", *rows]))
    given = {
        "task": "classify",
        "data": {"train": str(tmp_path / "rows.csv"), "length": 48},
        "model": {name: x for name, x in document(text)["model"].items() if name != "token_types"},  # the task says it
        "train": {"steps": 1, "batch": 8},
    }
    found = start_of(given, trained, tmp_path / "run")
    assert found.new == ["head.weight", "head.bias"]
    assert set(found.left) >= SECOND | {"head.bias", "transform.weight"}
    assert not any(name.startswith("encoder.") for name in found.left)


def test_the_saved_model_opens_with_both_heads(text: Path, trained: Path) -> None:
    model = AutoModelForMaskedLM.from_pretrained(trained / "model").eval()
    stored = load_file(trained / "model" / "model.safetensors")
    assert torch.equal(model.next_sentence.pooler.weight, stored["next_sentence.pooler.weight"])
    out = model(torch.tensor([[2, 9, 3, 8, 3]]), token_type_ids=torch.tensor([[0, 0, 0, 1, 1]]))
    assert (out.logits.shape, out.next_sentence_logits.shape) == ((1, 5, 400), (1, 2))


def test_training_with_pairs_compiles_whole(text: Path) -> None:
    recipe = read_recipe(document(text), "recipe")
    made: Task = recipe.load_task()
    model, batch = build_model(recipe, made), made.batch(0, 0, 8)
    compiled: Any = torch.compile(model, fullgraph=True, backend="eager")
    seed = torch.tensor(3)
    torch.testing.assert_close(compiled(**batch, dropout_seed=seed).loss, model(**batch, dropout_seed=seed).loss)


@pytest.mark.slow
def test_a_model_learns_which_texts_follow_each_other(text: Path, tmp_path: Path) -> None:
    """One in six documents is about the same subject, so 92% is about the most."""
    shape = {"layers": 2, "width": 64, "heads": 4, "ffn": 128, "token_types": 2}
    options = {"steps": 300, "batch": 32, "lr": 2e-3, "evaluate_every": 100, "best": "loss"}
    given = {**document(text), "model": shape, "train": options}
    result = train(read_recipe(given, "recipe"), tmp_path / "run", quiet=True)
    assert result.test is not None
    assert result.test["next_accuracy"] > 0.7


def test_one_document_is_one_line_and_exit_code_2(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "one.txt").write_text(" ".join(file.read_text() for file in sorted(text.iterdir())))
    options = [f"data.train={tmp_path / 'one.txt'}", "data.vocab_size=400", "data.next_sentence=true"]
    assert main(["train", "mlm", *options, "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err.strip()
    assert "has one document only: give more documents" in said
    assert "\n" not in said
