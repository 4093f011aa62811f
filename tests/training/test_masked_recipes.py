"""Masked pre-training: the paper's shapes, exact resume with masks, learning, and a body for other heads."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from children import Child, everything, killed, run
from transformers import AutoModelForMaskedLM, AutoTokenizer

from splitstep.fields import FeedForward
from splitstep.models.base import all_stacks
from splitstep.models.cost import cost, sketch
from splitstep.training import load_recipe, read_recipe, train

SYLLABLES = [a + b for a in "bdfgklmnprst" for b in "aeiou"]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of 300 short documents in which each word follows from the one before."""
    folder, chosen = tmp_path_factory.mktemp("text"), random.Random(0)
    words = ["".join(random.Random(n).choices(SYLLABLES, k=2 + n % 2)) for n in range(400)]
    for number in range(300):
        start, size = chosen.randrange(400), chosen.randint(4, 60)
        (folder / f"{number:03}.txt").write_text(" ".join(words[(start + k) % 400] for k in range(size)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPLITSTEP_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield folder


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


def test_bert_base_has_the_paper_s_parameters() -> None:
    recipe = load_recipe("bert-base")
    assert recipe.options.next_sentence
    shape = {"vocab_size": 30_000, "max_length": 384, "pad_token_id": 0, "next_sentence_labels": 2}
    task = cast(Any, SimpleNamespace(model="masked", shape=shape, length=384, labels=()))
    lie, macaron = recipe.config(task), load_recipe("bert-base", ["scheme=macaron"]).config(task)
    assert cost(lie).body == 85_017_600
    plain = load_recipe("bert-base", ["scheme=macaron", "match=none", "model.ffn=1536"]).config(task)
    assert cost(plain).body == 85_026_816
    assert cost(macaron).body == 85_026_816
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


def test_recipes_of_masked_models_are_recipes() -> None:
    for name in ("mlm", "mlm-small", "bert-base"):
        assert load_recipe(name).task == "mlm"
    small = load_recipe("mlm-small")
    assert (small.options.count, small.train.batch) == (19, 256)


@pytest.fixture(scope="module")
def whole(text: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], int]:
    """A run that was never killed, and its number of file operations; it ends in the middle of an epoch."""
    folder = tmp_path_factory.mktemp("whole")
    run(document(text), folder / "first", cached())  # prepares the text
    _, operations = Child(document(text), folder / "run", environment=cached()).result()
    rows = json.loads((folder / "run" / "environment.json").read_text())["data"]["splits"]["train"]["rows"]
    assert rows < 9 * 256
    assert 9 * 256 % rows
    return everything(folder / "run"), operations


def cached() -> dict[str, str]:
    """Where the text is prepared, for processes of their own."""
    return {"SPLITSTEP_CACHE": os.environ["SPLITSTEP_CACHE"]}


@pytest.mark.parametrize("share", [0.35, 0.7])
def test_a_killed_run_continues_exactly_masks_included(
    share: float, text: Path, whole: tuple[dict[str, Any], int], tmp_path: Path
) -> None:
    expected, operations = whole
    killed(document(text), tmp_path / "run", int(share * operations), environment=cached())
    assert not (tmp_path / "run" / "result.json").exists()
    run(document(text), tmp_path / "run", cached())
    assert everything(tmp_path / "run") == expected


@pytest.mark.slow
def test_a_trained_model_fills_in_words_by_itself(text: Path, tmp_path: Path) -> None:
    """Words follow from their neighbours here. The folder is all that transformers needs."""
    shape = {"layers": 2, "width": 64, "heads": 4, "ffn": 128, "positions": "rotary"}
    options = {"steps": 300, "batch": 32, "lr": 3e-3, "evaluate_every": 100, "best": "loss"}
    recipe = read_recipe({**document(text), "model": shape, "train": options}, "recipe")
    result = train(recipe, tmp_path / "run", quiet=True)
    assert result.test is not None
    labels = torch.cat([batch["labels"].flatten() for batch in recipe.load_task().batches("test", 64)])
    commonest = float(labels.bincount().max() / len(labels))  # what frequencies alone can reach
    assert result.test["accuracy"] > 3 * commonest
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "run" / "model")
    model = AutoModelForMaskedLM.from_pretrained(tmp_path / "run" / "model").eval()
    given = tokenizer((text / "003.txt").read_text(), return_tensors="pt")
    found = model(**given).logits.argmax(-1)
    assert (found == given.input_ids)[:, 1:-1].float().mean() > 3 * commonest


@pytest.mark.slow
def test_a_model_goes_on_with_other_text_in_its_own_tokens(text: Path, tmp_path: Path) -> None:
    """Continued pre-training: refused with what to type, then done with the subwords and the weights of the start."""
    train(read_recipe(document(text), "it"), tmp_path / "first", quiet=True)
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
        train(read_recipe(asked, "it"), tmp_path / "second", quiet=True)
    [typed] = [word for word in str(refused.value).replace(",", "").split() if word.startswith("data.tokenizer=")]
    asked["data"] = {**asked["data"], "tokenizer": typed.removeprefix("data.tokenizer=")}
    with pytest.raises(ValueError, match="the given tokenizer does not know 100% of the words of the text; leave"):
        read_recipe({**asked, "data": {**asked["data"], "train": str(strange)}}, "it").load_task()
    result = train(read_recipe(asked, "it"), tmp_path / "second", quiet=True)
    assert result.status == "finished"
    assert result.start is not None
    assert not result.start.new
    first, second = (AutoTokenizer.from_pretrained(tmp_path / name / "model") for name in ("first", "second"))
    assert first.get_vocab() == second.get_vocab()
