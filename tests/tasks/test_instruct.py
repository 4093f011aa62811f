"""Instructions: only answers have labels, batches are pure functions of the step, and plain text is all answer."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from distil_pairs import bpe, characters_of, instructions, pieces

from splitstep.tasks import Task, instruct, task
from splitstep.tasks.instruct import encode_rows
from splitstep.tasks.instructions import Row

TEMPLATE = "Q: {prompt}\nA: "


@pytest.fixture(params=["bpe", "pieces"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Task:
    tokenizer = {"bpe": bpe, "pieces": pieces}[request.param]()
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    path = instructions(tmp_path / "text.jsonl", 40)
    return task("instruct", {"path": [path], "tokenizer": str(tmp_path / "tokenizer"), "template": TEMPLATE})


def test_labels_are_the_answer_and_the_end(made: Task) -> None:
    """The oracle: what the labelled tokens decode to is the answer, as the tokenizer spells it."""
    tokenizer = made.tokenizer  # pyright: ignore[reportAttributeAccessIssue]
    rows = made.rows["train"]  # pyright: ignore[reportAttributeAccessIssue]
    for number in range(len(rows)):
        batch = made.training_rows(np.array([number]), 256)  # pyright: ignore[reportAttributeAccessIssue]
        labels, ids = batch["labels"][0], batch["input_ids"][0]
        kept = labels[labels != -100]
        assert torch.equal(kept, ids[labels != -100])
        answer = tokenizer.decode(tokenizer(rows[number].answer, add_special_tokens=False)["input_ids"])
        assert tokenizer.decode(kept, skip_special_tokens=True).strip() == answer.strip()
        if tokenizer.eos_token_id is not None:
            assert int(kept[-1]) == tokenizer.eos_token_id
        assert not (labels != -100)[batch["attention_mask"][0] == 0].any()


@pytest.mark.parametrize("prompt", ["ab|", ""])
def test_a_token_that_ends_where_the_prompt_does_is_not_of_the_answer(prompt: str) -> None:
    """With a token for each character, the border is between two tokens; the last one is the end of the text."""
    row = Row(prompt, "cd")
    (found,) = encode_rows(characters_of("abcd|"), [row], 100)
    assert len(found.ids) == len(prompt) + 3
    assert found.answers.tolist() == [False] * len(row.prompt) + [True] * (len(row.answer) + 1)


def test_a_batch_is_a_pure_function_and_each_row_is_seen_once(made: Task) -> None:
    one, again = (made.batch(3, 5, 4) for _ in range(2))
    assert all(torch.equal(one[name], again[name]) for name in one)
    counts = {split: sum(len(b["labels"]) for b in made.batches(split, 3)) for split in ("train", "valid", "test")}
    assert counts == {"train": 36, "valid": 2, "test": 2}


def test_plain_text_is_all_answer(tmp_path: Path) -> None:
    bpe().save_pretrained(tmp_path / "tokenizer")
    (tmp_path / "notes.txt").write_text("A line of text that is learnt.\n" * 2000)
    found = task("instruct", {"path": [str(tmp_path / "notes.txt")], "tokenizer": str(tmp_path / "tokenizer")})
    batch = found.batch(0, 0, 2)
    assert bool((batch["labels"][:, 1:] != -100)[batch["attention_mask"][:, 1:] == 1].all())
    assert found.remarks()["read as plain text"] == {split: len(rows) for split, rows in found.rows.items()}


def test_a_prompt_that_fills_the_length_is_left_out_and_told(tmp_path: Path) -> None:
    bpe().save_pretrained(tmp_path / "tokenizer")
    path = instructions(tmp_path / "text.jsonl", 40)
    options = {"path": [path], "tokenizer": str(tmp_path / "tokenizer"), "template": TEMPLATE}
    long = "word " * 400
    with (tmp_path / "text.jsonl").open() as file:
        rest = file.read()
    (tmp_path / "text.jsonl").write_text(f'{{"instruction": "{long}", "response": "x"}}\n{rest}')
    remark = task("instruct", {**options, "length": 200}).remarks()
    assert remark == {"left out, for the answer begins after 200 tokens": {"train": 1}}


def test_rows_that_are_cut_off_are_told(tmp_path: Path) -> None:
    bpe().save_pretrained(tmp_path / "tokenizer")
    lines = [f"line {n} of a text\n" * (40 if n % 10 == 0 else 3) for n in range(40)]
    rows = [json.dumps({"instruction": "go on", "response": line}) for line in lines]
    (tmp_path / "text.jsonl").write_text("\n".join(rows))
    options = {"path": [str(tmp_path / "text.jsonl")], "tokenizer": str(tmp_path / "tokenizer"), "length": 200}
    found = task("instruct", {**options, "template": "{prompt}: "})
    assert found.remarks() == {"cut off after 200 tokens": {"train": 4}}
    whole = {len(bpe()(f"go on: {line}").input_ids) + 1 for line in lines}  # with the end of the text
    assert min(whole) < 200 < max(whole)
    exact = task("instruct", {**options, "template": "{prompt}: ", "length": max(whole)})
    assert exact.remarks() == {}


def test_rows_are_encoded_as_each_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = bpe()
    rows = [Row("a" * (k % 3), f"word {k} " * (k % 5 + 1)) for k in range(23)]
    whole = list(encode_rows(tokenizer, rows, 9))
    monkeypatch.setattr(instruct, "AT_ONCE", 4)
    for row, found, several in zip(rows, whole, encode_rows(tokenizer, rows, 9), strict=True):
        alone = tokenizer(row.prompt + row.answer, return_offsets_mapping=True)
        ids = [*alone["input_ids"], tokenizer.eos_token_id][:9]
        answers = [*(end > len(row.prompt) for _, end in alone["offset_mapping"]), True][:9]
        for ours in (found, several):
            assert ours.ids.tolist() == ids
            assert ours.answers.tolist() == answers
            assert ours.cut == (len(alone["input_ids"]) + 1 > 9)
