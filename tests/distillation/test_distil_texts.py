"""The texts of two models: what both read of a row, what is scored, which spans are left out, how they are padded."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from distil_pairs import bpe, instructions, pieces
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from splitstep.distillation.texts import Texts, aligned_of, equal_tokenizers
from splitstep.tasks.instruct import INSTRUCT, InstructOptions, encode_rows


def with_teacher(tmp_path: Path, tokenizer: Any, length: int = 512) -> Texts:
    """Texts of a student with a byte-level BPE, and of a teacher with this tokenizer."""
    bpe().save_pretrained(tmp_path)
    train = (instructions(tmp_path / "text.jsonl"),)
    options = InstructOptions(train=train, tokenizer=str(tmp_path), length=length, template="Q: {prompt} A: ")
    task: Any = INSTRUCT(options)
    return Texts(task, tokenizer)


@pytest.fixture
def texts(tmp_path: Path) -> Texts:
    found = with_teacher(tmp_path, bpe())
    found.find_spans(("words", "phrases"))
    return found


def test_the_spans_that_a_limit_leaves_out_are_counted(texts: Texts) -> None:
    counts = [len(spans["words"]) for spans in texts.spans]
    assert min(counts) > 6
    assert texts.left_out({("words", 6)}) == {("words", 6): sum(counts) - 6 * len(counts)}
    assert texts.left_out({("words", 1024), ("phrases", 1024)}) == {("words", 1024): 0, ("phrases", 1024): 0}


def test_all_kinds_of_spans_are_padded_to_the_same_number(texts: Texts) -> None:
    rows = np.arange(3)
    batch = texts.batch(rows, 256, ("words", "phrases"))
    most = max(len(texts.spans[row]["words"]) for row in range(3))
    for kind in ("words", "phrases"):
        mask = batch[f"spans.{kind}.mask"]
        assert mask.shape == (3, -(-most // 16) * 16)
        assert mask.sum(1).tolist() == [len(texts.spans[row][kind]) for row in range(3)]


def test_batches_of_one_width_have_one_shape(tmp_path: Path) -> None:
    """A CUDA graph belongs to a shape. Padding holds every row of the width, and no more than a multiple of 16."""
    texts = with_teacher(tmp_path, pieces())
    texts.find_spans(("aligned", "words"))
    shapes: dict[int, set[tuple[tuple[int, ...], ...]]] = {}
    for step in range(60):
        rows, width = texts.task.drawn(0, step, 4)
        batch = texts.batch(rows, width, ("aligned", "words"))
        shapes.setdefault(width, set()).add(tuple(tuple(x.shape) for x in batch.values()))
        assert batch["teacher.mask"].sum(1).tolist() == texts.teacher.lengths[rows].tolist()
        for kind in ("aligned", "words"):
            assert batch[f"spans.{kind}.mask"].sum(1).tolist() == [len(texts.spans[row][kind]) for row in rows]
    assert len(shapes) > 1
    assert all(len(found) == 1 for found in shapes.values())
    for width in shapes:
        fitting = texts.student.lengths <= width
        assert 0 <= texts.sizes(width).teacher - texts.teacher.lengths[fitting].max() < 16
        assert 0 <= texts.sizes(width).spans - texts.span_counts[fitting].max() < 16


def test_a_text_is_read_once_if_the_tokenizers_are_equal(texts: Texts) -> None:
    assert texts.teacher is texts.student
    assert texts.same_tokens
    changed, ended = bpe(), bpe()
    changed.add_tokens(["<new>"])
    ended.eos_token = "a"
    assert [equal_tokenizers(bpe(), one) for one in (bpe(), pieces(), changed, ended)] == [True, False, False, False]


def test_spans_lie_within_what_both_models_read(tmp_path: Path) -> None:
    texts, whole, fewer = with_teacher(tmp_path, pieces(), length=60), with_teacher(tmp_path, pieces()), 0
    for one in (texts, whole):
        one.find_spans(("aligned", "words"))
    for row, spans in enumerate(texts.spans):
        for kind, one in spans.items():
            assert one.teacher.max() <= texts.teacher.lengths[row]
            assert one.student.max() <= texts.student.lengths[row]
            fewer += len(whole.spans[row][kind]) - len(one)
    assert fewer > 0


def test_the_teacher_is_scored_on_its_own_answer_tokens(tmp_path: Path) -> None:
    texts = with_teacher(tmp_path, pieces())
    rows = np.array([3, 0])
    batch = texts.batch(rows, 256, ())
    for number, row in enumerate(rows):
        (found,) = encode_rows(pieces(), [texts.task.rows["train"][row]], 512)
        ids, answers = found.ids.tolist(), found.answers.tolist()
        size = len(ids)
        assert batch["teacher.ids"][number, :size].tolist() == ids
        assert batch["teacher.mask"][number].tolist() == [1] * size + [0] * (batch["teacher.ids"].shape[1] - size)
        expected = [token if own else -100 for token, own in zip(ids, answers, strict=True)]
        assert batch["teacher.labels"][number, :size].tolist() == expected
        assert (batch["teacher.labels"][number, size:] == -100).all()
        assert 0 < sum(answers) < size


def renumbered() -> Any:
    """The same pieces as those of `bpe`, two of them under each other's numbers."""
    known = json.loads(bpe().backend_tokenizer.to_str())
    vocabulary = known["model"]["vocab"]
    vocabulary["e"], vocabulary["t"] = vocabulary["t"], vocabulary["e"]
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(known)), eos_token="<|endoftext|>")


@pytest.mark.parametrize(("make", "same"), [(bpe, True), (renumbered, False), (pieces, False)])
def test_tokens_are_the_same_if_their_numbers_are(tmp_path: Path, make: Any, same: bool) -> None:
    texts = with_teacher(tmp_path, make())
    assert texts.same_tokens == same
    assert ("teacher.ids" in texts.batch(np.arange(2), 256, ())) != same


def test_a_part_of_a_batch_knows_how_many_texts_the_whole_has(texts: Texts) -> None:
    batch = texts.batch(np.arange(6), 256, ("words",))
    for first in (0, 4):
        part = {name: x[first : first + 2] for name, x in batch.items()}
        aligned = aligned_of(part, ["words"], None, torch.tensor(9))
        assert (int(aligned.rows), int(aligned.items), len(aligned.labels)) == (6, 9, 2)  # pyright: ignore
