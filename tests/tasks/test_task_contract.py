"""What every task promises to the training loop, whatever its data are."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from distil_pairs import bpe, instructions
from made_up_words import sentences

from splitstep.tasks import Batch, Task, task

PARTS = {"train": 500, "valid": 60, "test": 60}
TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "digits": ("digits", {"shift": 1}),
    "stdlib": ("stdlib", {"length": 64, "limit": 100_000}),
    "bytes": ("text", {"path": "book.txt", "length": 32}),
    "subwords": ("text", {"path": "lines.txt", "length": 32, "tokens": "bpe", "vocab_size": 400}),
    "listops": ("listops", PARTS),
    "classify": ("classify", {}),
    "numbers": ("numbers", {**PARTS, "highest": 9999}),
    "mlm": ("mlm", {"train": "lines.txt", "documents": "line", "vocab_size": 400, "length": 32}),
    "instruct": ("instruct", {"path": "rows.jsonl", "tokenizer": "tokenizer", "length": 256}),
}
SIZES = {"numbers": 400}  # this one counts tokens


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the tasks read."""
    found = tmp_path_factory.mktemp("data")
    (found / "book.txt").write_bytes(np.random.default_rng(0).integers(0, 256, 5003, dtype=np.uint8).tobytes())
    (found / "lines.txt").write_text("\n".join(sentences(600)))
    instructions(found / "rows.jsonl", 60)
    bpe().save_pretrained(found / "tokenizer")
    return found


def load(name: str, folder: Path) -> Task:
    kind, options = TASKS[name]
    placed = {"tokenizer": str(folder / "tokenizer")} if "tokenizer" in options else {}
    return task(kind, {**options, **placed}, folder)


def same(one: Batch, two: Batch) -> bool:
    """Whether two batches hold the same tensors."""
    return one.keys() == two.keys() and all(torch.equal(one[key], two[key]) for key in one)


@pytest.mark.parametrize("name", TASKS)
def test_every_task_keeps_the_contract(name: str, folder: Path) -> None:
    made, again, size = load(name, folder), load(name, folder), SIZES.get(name, 8)
    steps = (0, 1, 2, 50)
    wanted = [made.batch(3, step, size) for step in steps]
    for step in steps[::-1]:  # another order, another instance
        assert same(again.batch(3, step, size), wanted[steps.index(step)])
    assert not same(wanted[0], wanted[1])
    assert not same(wanted[0], made.batch(4, 0, size))
    assert made.splits == ("train", "valid", "test")
    assert made.length >= 1
    assert json.loads(json.dumps(made.describe()))["task"] == made.name == TASKS[name][0]
    assert made.metric.format.format(0.5)
    with pytest.raises(ValueError, match='no split "dev"; choose one of train, valid, test'):
        next(made.batches("dev", size))
    with pytest.raises(ValueError, match="nothing was scored"):
        made.summary({})
    for batch in (*wanted, *made.batches("valid", size)):
        check_counts(made, batch)


def check_counts(made: Task, batch: Batch) -> None:
    """A uniform guess costs the logarithm of the classes, over as many as are scored; tokens are counted one by one."""
    classes = made.shape["labels"] if "labels" in made.shape else made.shape["vocab_size"]
    scores = made.score(torch.zeros(*batch["labels"].shape, classes), batch)
    assert made.summary(scores)["loss"] == pytest.approx(math.log(classes), rel=1e-5)
    assert made.items(batch) == scores[made.measure.counted]
    read = batch.get("attention_mask", batch.get("input_ids"))
    rows = [[1] * made.length] * len(batch["labels"]) if read is None else read.tolist()
    counted = batch["labels"] if made.model == "translation" else None
    padding = 0 if "attention_mask" in batch else None
    tokens = sum(token != padding for row in rows for token in row)
    assert made.tokens(batch) == (tokens if counted is None else int((counted >= 0).sum()))
