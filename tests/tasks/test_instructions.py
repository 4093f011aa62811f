"""Rows of instruction files: every form that is taken, packed or not, and errors that name the line."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from splitstep.text.instructions import Row, read_rows

TEMPLATE = "Q: {prompt}\nA: "
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"instruction": "a", "response": " "}', "line 1 has an empty response: fill it in, or remove the line"),
        ('{"instruction": "a"}', "line 1 has no response: its entries are instruction"),
        ('{"instruction": "a", "instances": []}', "line 1 has no response"),
        ('{"instruction": "a", "instances": [{"output": ""}]}', "line 1 has an empty output"),
        ('{"instruction": 3, "response": "b"}', "line 1 has an entry instruction that is not text: write it in quotes"),
        ('{"instruction": "a", "response": 7}', "line 1 has an entry response that is not text"),
        (
            '{"messages": []}',
            "line 1 has no instruction: its entries are messages; write an instruction and a response",
        ),
        ('[{"instruction": "a", "response": "b"}, 3]', "rows.jsonl, row 2 is not an object"),
        ('[{"instruction": "a", "response": "b"}', "rows.jsonl is not JSON"),
        ("[1]", "line 1 is not a JSON object"),
        ("{", "line 1 is not JSON"),
        ("[" * 100_000, r"line 1 is not JSON \(it is nested too deeply\)"),
        ('{"instruction": "a", "response": "\\ud800"}', "line 1 is not JSON .* is half of a character"),
        ("", "rows.jsonl is empty"),
    ],
)
def test_wrong_rows_are_refused_by_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "rows.jsonl").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_rows(tmp_path / "rows.jsonl", TEMPLATE)
