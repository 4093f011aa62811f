"""Texts for pretrained models: what is read, how it is padded, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizer_kinds import word_level
from transformers import PreTrainedTokenizerFast

from splitstep.opening.texts import batches_of, default_texts, read_texts


def words(*known: str, **special: str) -> Any:
    """A tokenizer that knows these words."""
    return PreTrainedTokenizerFast(tokenizer_object=word_level(("?", *known)), unk_token="?", **special)


def test_texts_are_read_one_a_line_and_empty_lines_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one text\n\n  another\n", encoding="utf-8")
    (tmp_path / "b.jsonl").write_text('{"text": "one\\ntext"}\n\n{"id": 2, "text": "another"}\n', encoding="utf-8")
    assert read_texts(tmp_path / "a.txt") == ["one text", "another"]
    assert read_texts(tmp_path / "b.jsonl") == ["one\ntext", "another"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"\n  \n", "has no texts"),
        ("a.txt", b"\xff\xfe\x00", "line 1: byte 0xff is not UTF-8 text"),
        ("a.jsonl", b"", "has no texts"),
        ("a.jsonl", b'{"text": " "}', "has no texts"),
        ("a.jsonl", b'{"text": "a"}\nb', "line 2 is not JSON .*write {"),
        ("a.jsonl", b'{"texts": "a"}', "line 1 has no text: write {"),
        ("a.jsonl", b'["text"]', "line 1 is not a JSON object: write {"),
    ],
)
def test_a_file_without_texts_is_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_texts(tmp_path / name)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no file of texts"):
        read_texts(tmp_path / "nowhere.txt")


@pytest.mark.parametrize("special", [{"pad_token": "c"}, {"eos_token": "c"}, {}])
def test_padding_is_masked_and_has_no_labels(special: dict[str, str]) -> None:
    batches = list(batches_of(["a b c a", "b", "a a"], words("a", "b", "c", **special), tokens=3, size=2))
    fill = 3 if special else 0
    assert [one["input_ids"].tolist() for one in batches] == [[[1, 2, 3], [2, fill, fill]], [[1, 1]]]
    assert batches[0]["attention_mask"].tolist() == [[1, 1, 1], [1, 0, 0]]
    assert batches[0]["labels"].tolist() == [[1, 2, 3], [2, -100, -100]]
    assert all(x.dtype == torch.int64 for x in batches[0].values())


def test_texts_without_tokens_and_sizes_of_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="makes no tokens"):
        list(batches_of([" "], words("a"), 4, 2))
    with pytest.raises(ValueError, match="at least 1"):
        list(batches_of(["a"], words("a"), 0, 2))


def test_the_texts_that_come_with_the_package_are_long_enough() -> None:
    assert len(default_texts()) == 8
    assert all(len(text.split()) >= 55 for text in default_texts())
