"""Masked pre-training, with next-sentence prediction too: the paper's shapes, exact resume, learning, other heads."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from children import check_killed
from safetensors.torch import load_file
from transformers import AutoModelForMaskedLM, AutoTokenizer

from splitstep.fields import FeedForward
from splitstep.models.base import all_stacks
from splitstep.models.cost import cost, sketch
from splitstep.training import load_recipe, read_recipe, train
from splitstep.training.result import RunResult, Start

SYLLABLES = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
SECOND = {f"next_sentence.{part}.{name}" for part in ("pooler", "head") for name in ("weight", "bias")}
LARGER = {"layers": 2, "width": 64, "heads": 4, "ffn": 128}
LONGER = {"steps": 300, "batch": 32, "lr": 3e-3, "evaluate_every": 100, "best": "loss"}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of 300 short documents in which each word follows from the one before."""
    folder, chosen = tmp_path_factory.mktemp("text"), random.Random(0)
    words = ["".join(random.Random(n).choices(SYLLABLES, k=2 + n % 2)) for n in range(400)]
    for number in range(300):
        start, size = chosen.randrange(400), chosen.randint(4, 60)
        (folder / f"{number:03}.txt").write_text(" ".join(words[(start + k) % 400] for k in range(size)))
    return folder


@pytest.fixture(scope="module")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of 600 documents of some sentences each. Those of one subject in six have the same syllables."""
    folder, chosen = tmp_path_factory.mktemp("subjects"), random.Random(0)
    for number in range(600):
        subject = SYLLABLES[number % 6 * 10 :][:10]
        words = [a + b for a in subject for b in subject]
        sentences = (" ".join(chosen.choices(words, k=chosen.randint(4, 9))) for _ in range(chosen.randint(2, 12)))
        (folder / f"{number:03}.txt").write_text(". ".join(sentences) + ".")
    return folder


def document(text: Path, **options: Any) -> dict[str, Any]:
    return {
        "task": "mlm",
        "data": {"train": str(text), "vocab_size": 400, "length": 32},
        "model": {"layers": 2, "width": 16, "heads": 2, "ffn": 32, "dropout": 0.1},
        "train": {
            "steps": 9, "batch": 256, "accumulate": 2, "warmup": 2, "log_every": 3, "evaluate_every": 4,
            "checkpoint_seconds": 0.0, **options,
        },
    }  # fmt: skip


def paired(text: Path, next_sentence: bool = True, **options: Any) -> dict[str, Any]:
    """Of pairs of texts."""
    found = document(text, **{"batch": 64, **options})
    data = {**found["data"], "length": 48, "next_sentence": next_sentence}
    return {**found, "data": data, "model": {**found["model"], "token_types": 2}}


def trained(given: dict[str, Any], out: Path) -> RunResult:
    return train(read_recipe(given, "recipe"), out, quiet=True)


def start_of(given: dict[str, Any], start: Path, out: Path) -> Start:
    result = trained({**given, "start": str(start)}, out)
    assert result.start is not None
    return result.start


def test_bert_base_has_the_paper_s_parameters() -> None:
    recipe = load_recipe("bert-base")
    assert recipe.options.next_sentence
    shape = {"vocab_size": 30_000, "max_length": 384, "pad_token_id": 0, "next_sentence_labels": 2}
    task = cast(Any, SimpleNamespace(model="masked", shape=shape, length=384, labels=()))
    lie, macaron = recipe.config(task), load_recipe("bert-base", ["scheme=macaron"]).config(task)
    plain = load_recipe("bert-base", ["scheme=macaron", "match=none", "model.ffn=1536"]).config(task)
    assert [cost(config).body for config in (lie, plain, macaron)] == [85_017_600, 85_026_816, 85_026_816]
    assert (lie.layers, lie.width, lie.heads, lie.ffn, lie.max_positions) == (12, 768, 12, 3072, 384)
    for config, names in ((lie, {"F": "gelu"}), (macaron, {"F0": "relu", "F1": "gelu"})):
        model = sketch(config)
        [stack] = all_stacks(model)
        norms = [m for m in stack.modules() if isinstance(m, torch.nn.LayerNorm)]
        assert norms
        assert not any(p is not None for m in norms for p in (m.weight, m.bias))
        for name, kind in names.items():
            field: Any = stack.layers[0][name]  # pyright: ignore[reportIndexIssue]
            assert isinstance(field, FeedForward)
            assert field.act is getattr(torch.nn.functional, kind)


@pytest.mark.parametrize("make", [document, pytest.param(paired, marks=pytest.mark.nightly)])
def test_a_killed_run_continues_exactly_masks_included(
    make: Callable[[Path], dict[str, Any]], text: Path, subjects: Path, cache: Path, tmp_path: Path
) -> None:
    """Killed in the middle of the run, which ends in the middle of an epoch."""
    given = make(text if make is document else subjects)
    read_recipe(given, "recipe").load_task()  # prepares the text
    check_killed(given, tmp_path, environment={"SPLITSTEP_CACHE": str(cache)})
    if make is document:
        about = json.loads((tmp_path / "whole" / "environment.json").read_text())
        rows = about["data"]["splits"]["train"]["rows"]
        assert rows < 9 * 256
        assert 9 * 256 % rows


@pytest.mark.nightly
def test_a_trained_model_fills_in_words_by_itself(text: Path, tmp_path: Path) -> None:
    """Words follow from their neighbours here. The folder is all that transformers needs."""
    given = {**document(text), "model": {**LARGER, "positions": "rotary"}, "train": LONGER}
    result = trained(given, tmp_path / "run")
    task = read_recipe(given, "recipe").load_task()
    labels = torch.cat([batch["labels"].flatten() for batch in task.batches("test", 64)])
    commonest = float(labels.bincount().max() / len(labels))  # what frequencies alone can reach
    assert result.test["accuracy"] > 3 * commonest
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "run" / "model")
    model = AutoModelForMaskedLM.from_pretrained(tmp_path / "run" / "model").eval()
    inputs = tokenizer((text / "003.txt").read_text(), return_tensors="pt")
    found = model(**inputs).logits.argmax(-1)
    assert (found == inputs.input_ids)[:, 1:-1].float().mean() > 3 * commonest


@pytest.mark.nightly
def test_a_model_learns_which_texts_follow_each_other(subjects: Path, tmp_path: Path) -> None:
    """One in six documents is about the same subject, so 92% is about the most."""
    given = {**paired(subjects), "model": {**LARGER, "token_types": 2}, "train": {**LONGER, "lr": 2e-3}}
    result = trained(given, tmp_path / "run")
    assert result.test["next_accuracy"] > 0.7


@pytest.mark.slow
def test_a_model_goes_on_with_other_text_in_its_own_tokens(text: Path, tmp_path: Path) -> None:
    """Continued pre-training: refused with what to type, then done with the subwords and the weights of the start."""
    trained(document(text), tmp_path / "first")
    other, strange = tmp_path / "other", tmp_path / "strange"
    other.mkdir()
    strange.mkdir()
    for number in range(250):
        words = [f"{SYLLABLES[(number * k) % 60]}r{SYLLABLES[k % 50]}" for k in range(30)]
        (other / f"{number}.txt").write_text(" ".join(words))
        (strange / f"{number}.txt").write_text(" ".join(words).replace("r", "ж"))
    asked = {**document(other), "start": str(tmp_path / "first")}
    asked["data"] = {**asked["data"], "vocab_size": 300}
    with pytest.raises(ValueError, match=r"start: .* add data.tokenizer=.*first, or use the data") as refused:
        trained(asked, tmp_path / "second")
    [typed] = [word for word in str(refused.value).replace(",", "").split() if word.startswith("data.tokenizer=")]
    asked["data"] = {**asked["data"], "tokenizer": typed.removeprefix("data.tokenizer=")}
    with pytest.raises(ValueError, match="the given tokenizer does not know 100% of the words of the text; leave"):
        read_recipe({**asked, "data": {**asked["data"], "train": str(strange)}}, "it").load_task()
    assert not start_of(asked, tmp_path / "first", tmp_path / "second").new
    first, second = (AutoTokenizer.from_pretrained(tmp_path / name / "model") for name in ("first", "second"))
    assert first.get_vocab() == second.get_vocab()


@pytest.fixture(scope="module")
def both(subjects: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a model with both heads."""
    out = tmp_path_factory.mktemp("trained") / "run"
    result = trained(paired(subjects, steps=3), out)
    assert {"accuracy", "next_accuracy", "next_loss"} <= result.test.keys()
    assert result.metric.name == "accuracy"
    return out


def test_the_second_head_is_taken_over_or_left_or_new(subjects: Path, both: Path, tmp_path: Path) -> None:
    trained(paired(subjects, False, steps=1), tmp_path / "plain")
    same = start_of(paired(subjects, steps=1), both, tmp_path / "same")
    assert (same.new, same.left) == ([], [])
    fewer = start_of(paired(subjects, False, steps=1), both, tmp_path / "fewer")
    assert (fewer.new, set(fewer.left)) == ([], SECOND)
    more = start_of(paired(subjects, steps=1), tmp_path / "plain", tmp_path / "more")
    assert (set(more.new), more.left) == (SECOND, [])


def test_the_saved_model_opens_with_both_heads(both: Path) -> None:
    model = AutoModelForMaskedLM.from_pretrained(both / "model").eval()
    stored = load_file(both / "model" / "model.safetensors")
    assert torch.equal(model.next_sentence.pooler.weight, stored["next_sentence.pooler.weight"])
    out = model(torch.tensor([[2, 9, 3, 8, 3]]), token_type_ids=torch.tensor([[0, 0, 0, 1, 1]]))
    assert (out.logits.shape, out.next_sentence_logits.shape) == ((1, 5, 400), (1, 2))
