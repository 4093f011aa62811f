"""Instructions: rows of files in every form, only answers have labels, and plain text is all answer."""

import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from distil_pairs import bpe, characters_of, instructions, pieces
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, normalizers

from splitstep.tasks import Task, instruct, task
from splitstep.tasks.instruct import encode_rows, quotas
from splitstep.text.instructions import Row, read_rows

TEMPLATE = "Q: {prompt}\nA: "


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    """A tokenizer's folder and a template."""
    bpe().save_pretrained(tmp_path / "tokenizer")
    return {"tokenizer": str(tmp_path / "tokenizer"), "template": TEMPLATE}


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


def test_plain_text_is_all_answer(tmp_path: Path, options: dict[str, Any]) -> None:
    (tmp_path / "notes.txt").write_text("A line of text that is learnt.\n" * 2000)
    found = task("instruct", {**options, "path": [str(tmp_path / "notes.txt")]})
    batch = found.batch(0, 0, 2)
    assert bool((batch["labels"][:, 1:] != -100)[batch["attention_mask"][:, 1:] == 1].all())
    assert found.remarks()["read as plain text"] == {split: len(rows) for split, rows in found.rows.items()}


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.data())
def test_quotas_are_whole_proportions(sizes: list[int], data: st.DataObject) -> None:
    count = data.draw(st.integers(0, sum(sizes)))
    found = quotas(count, sizes)
    assert sum(found) == count
    for part, size in zip(found, sizes, strict=True):
        assert 0 <= part <= size
        assert abs(part - count * size / sum(sizes)) < 1


def test_the_last_rows_of_each_file_are_held_out(tmp_path: Path, options: dict[str, Any]) -> None:
    instructions(tmp_path / "text.jsonl", 60)
    (tmp_path / "notes.txt").write_text("".join(f"Line {number} of the notes.\n" for number in range(2000)))
    paths = [str(tmp_path / name) for name in ("text.jsonl", "notes.txt")]
    found = task("instruct", {**options, "path": paths, "length": 4000, "valid": 8, "test": 12})
    alone = [read_rows(Path(path), TEMPLATE) for path in paths]
    total = sum(map(len, alone))
    assert {split: len(rows) for split, rows in found.rows.items()} == {"train": total - 20, "valid": 8, "test": 12}
    for rows, place in zip(alone, paths, strict=True):
        own = {split: [row for row in found.rows[split] if row.where.startswith(place)] for split in found.rows}
        assert own["train"] + own["valid"] + own["test"] == rows
        assert min(map(len, own.values())) > 0


def test_a_table_and_a_length_without_an_answer_say_what_to_do(tmp_path: Path, options: dict[str, Any]) -> None:
    (tmp_path / "rows.csv").write_text("instruction,response\na,b\n" * 30)
    with pytest.raises(ValueError, match=r"rows\.csv ends in \.csv, which is not read here: write an object"):
        task("instruct", {**options, "path": [str(tmp_path / "rows.csv")]})
    path = instructions(tmp_path / "text.jsonl", 40)
    with pytest.raises(
        ValueError, match=r"no row of train has an answer within 4 tokens: set data\.length to"
    ) as caught:
        task("instruct", {**options, "path": [path], "length": 4})
    least = int(str(caught.value).split("set data.length to ")[1].split()[0])
    with pytest.raises(ValueError, match="no row of"):
        task("instruct", {**options, "path": [path], "length": least - 1})
    rows = read_rows(Path(path), TEMPLATE)
    assert least == min(len(bpe()(row.prompt)["input_ids"]) for row in rows[: len(rows) - 4]) + 1


def test_a_tokenizer_that_drops_all_text_is_named(tmp_path: Path) -> None:
    dropping = bpe()
    dropping.backend_tokenizer.normalizer = normalizers.Replace(Regex(r"[\s\S]"), "")
    dropping.save_pretrained(tmp_path / "dropping")
    with pytest.raises(ValueError, match=r"dropping makes no tokens of text \(train\): name another model"):
        task("instruct", {"path": [instructions(tmp_path / "a.jsonl", 40)], "tokenizer": str(tmp_path / "dropping")})


def test_unknown_tokens_are_told(tmp_path: Path) -> None:
    characters_of("abc ").save_pretrained(tmp_path / "tokenizer")
    (tmp_path / "notes.txt").write_text("abc xyz\n" * 2000)
    found = task("instruct", {"path": [str(tmp_path / "notes.txt")], "tokenizer": str(tmp_path / "tokenizer")})
    assert "tokens unknown to the tokenizer" not in found.remarks()  # its end is the unknown token, too
    found.tokenizer.eos_token = "a"
    known = {split: int((one.tokens == found.tokenizer.unk_token_id).sum()) for split, one in found.encoded.items()}
    assert found.remarks()["tokens unknown to the tokenizer"] == known
    assert min(known.values()) > 0


def test_a_prompt_that_fills_the_length_is_left_out_and_told(tmp_path: Path, options: dict[str, Any]) -> None:
    path = Path(instructions(tmp_path / "text.jsonl", 40))
    path.write_text(f'{{"instruction": "{"word " * 400}", "response": "x"}}\n{path.read_text()}')
    remark = task("instruct", {**options, "path": [str(path)], "length": 200}).remarks()
    assert remark == {"left out, for the answer begins after 200 tokens": {"train": 1}}


def test_rows_that_are_cut_off_are_told(tmp_path: Path, options: dict[str, Any]) -> None:
    lines = [f"line {n} of a text\n" * (40 if n % 10 == 0 else 3) for n in range(40)]
    rows = [json.dumps({"instruction": "go on", "response": line}) for line in lines]
    (tmp_path / "text.jsonl").write_text("\n".join(rows))
    options |= {"path": [str(tmp_path / "text.jsonl")], "length": 200, "template": "{prompt}: "}
    found = task("instruct", options)
    assert found.remarks() == {"cut off after 200 tokens": {"train": 4}}
    whole = {len(bpe()(f"go on: {line}").input_ids) + 1 for line in lines}  # with the end of the text
    assert min(whole) < 200 < max(whole)
    assert task("instruct", {**options, "length": max(whole)}).remarks() == {}


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


# Rows of files


FORMS: list[tuple[dict[str, Any], str, str]] = [
    ({"instruction": "ask", "response": "it", "category": "qa"}, "ask", "it"),  # Dolly
    ({"instruction": "ask", "context": "about", "response": "it"}, "ask\n\nabout", "it"),
    ({"instruction": "ask", "input": "", "output": "it"}, "ask", "it"),  # Alpaca
    ({"instruction": "ask", "input": "about", "output": "it"}, "ask\n\nabout", "it"),
    ({"instruction": "ask", "instances": [{"input": "about", "output": "it"}, {"output": "no"}]}, "ask\n\nabout", "it"),
    ({"instruction": "ask", "instances": [{"input": "", "output": "it"}]}, "ask", "it"),  # Self-Instruct
    ({"prompt": "ask", "answer": "it"}, "ask", "it"),
]
PACKED: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}


@pytest.mark.parametrize("suffix", PACKED)
def test_all_forms_are_read_packed_or_not(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"rows.jsonl{suffix}"
    text = "\n\n".join(json.dumps(form) for form, _, _ in FORMS)
    path.write_bytes(PACKED[suffix](text.encode()))
    assert read_rows(path, TEMPLATE) == [
        Row(f"Q: {asked}\nA: ", answer, asked, f"{path}, line {2 * number + 1}")
        for number, (_, asked, answer) in enumerate(FORMS)
    ]


def test_plain_text_is_read_in_pieces_of_whole_lines(tmp_path: Path) -> None:
    lines = [f"{number} {'word ' * 100}\n" for number in range(9)]
    (tmp_path / "notes.txt").write_text("".join(lines))
    rows = read_rows(tmp_path / "notes.txt", TEMPLATE)
    assert "".join(row.answer for row in rows) == "".join(lines)
    assert {row.prompt for row in rows} == {""}
    assert [row.where for row in rows] == [f"{tmp_path / 'notes.txt'}, line {first}" for first in (1, 4, 7)]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("name", ["rows.json", "rows.jsonl", "rows.txt"])
def test_an_array_has_the_rows_of_lines(name: str, indent: int | None, tmp_path: Path) -> None:
    rows = [{"instruction": f"{number}?", "input": "now", "output": f"[{number}]"} for number in range(3)]
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / name).write_text(json.dumps(rows, indent=indent))
    expected, found = (read_rows(file, TEMPLATE) for file in (tmp_path / "lines.jsonl", tmp_path / "other" / name))
    assert [row[:3] for row in found] == [row[:3] for row in expected]
    assert found[2].where.endswith(f"{name}, row 3")


def test_text_that_begins_with_a_bracket_is_text(tmp_path: Path) -> None:
    (tmp_path / "song.txt").write_text("[Chorus] la la\n")
    assert read_rows(tmp_path / "song.txt", TEMPLATE)[0].answer == "[Chorus] la la\n"


@pytest.mark.parametrize(("text", "message"), [
    ('{"instruction": "a", "response": " "}', "line 1 has an empty response: fill it in, or remove the line"),
    ('{"instruction": "a"}', "line 1 has no response: its entries are instruction"),
    ('{"instruction": "a", "instances": [{"output": ""}]}', "line 1 has an empty output"),
    ('{"instruction": 3, "response": "b"}', "line 1 has an entry instruction that is not text: write it in quotes"),
    ('{"messages": []}', "line 1 has no instruction: its entries are messages; write an instruction and a response"),
    ('[{"instruction": "a", "response": "b"}, 3]', "rows.jsonl, row 2 is not an object"),
    ('[{"instruction": "a", "response": "b"}', "rows.jsonl is not JSON"),
    ("[1]", "line 1 is not a JSON object"),
    ("{", "line 1 is not JSON"),
    ("[" * 100_000, r"line 1 is not JSON \(it is nested too deeply\)"),
    ('{"instruction": "a", "response": "\\ud800"}', "line 1 is not JSON .* is half of a character"),
    ("", "rows.jsonl is empty"),
])  # fmt: skip
def test_wrong_rows_are_refused_by_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "rows.jsonl").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_rows(tmp_path / "rows.jsonl", TEMPLATE)
