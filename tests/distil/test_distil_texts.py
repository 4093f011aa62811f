"""Texts tell what a limit on spans leaves out, and pad all kinds of spans alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from distil_pairs import bpe, instructions, pieces

from splitstep.distil.method import parse_method
from splitstep.distil.records import Shape, Shapes
from splitstep.distil.texts import Texts, equal_tokenizers
from splitstep.tasks.instruct import Instruct, InstructOptions

SHAPES = Shapes(Shape(4, 16), Shape(2, 8))


@pytest.fixture
def texts(tmp_path: Path) -> Texts:
    bpe().save_pretrained(tmp_path)
    path = instructions(tmp_path / "text.jsonl")
    found = Texts(Instruct(InstructOptions(path=(path,), tokenizer=str(tmp_path))), bpe())
    found.find_spans(("words", "phrases"))
    return found


@pytest.mark.parametrize(
    ("method", "limits"),
    [
        ("skl", set()),
        ("skl + mta", {("words", 1024), ("phrases", 1024)}),
        ("mta.dsa(words=1, spans=3) + mta.hid", {("words", 3)}),
        ("sra(spans=5)", {("aligned", 5)}),
    ],
)
def test_a_method_says_how_many_spans_it_compares(method: str, limits: set[tuple[str, int]]) -> None:
    assert parse_method(method).needs(SHAPES).limits == limits


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


def test_a_text_is_read_once_if_the_tokenizers_are_equal(texts: Texts) -> None:
    assert texts.teacher is texts.student
    assert texts.same_tokens


def test_tokenizers_with_other_tokens_or_another_end_are_not_equal() -> None:
    assert equal_tokenizers(bpe(), bpe())
    assert not equal_tokenizers(bpe(), pieces())
    changed = bpe()
    changed.add_tokens(["<new>"])
    assert not equal_tokenizers(bpe(), changed)
    ended = bpe()
    ended.eos_token = "a"
    assert not equal_tokenizers(bpe(), ended)
