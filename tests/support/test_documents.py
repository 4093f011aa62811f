"""Whatever is wrong with a file from anywhere is one line that names the file and the line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from splitstep.support.documents import decode, json_lines, parse_json, parse_yaml, read_json, read_lines, read_yaml
from splitstep.support.typed import json_text

READERS: dict[str, Callable[[Path], Any]] = {
    "json": read_json,
    "jsonl": lambda file: list(json_lines(read_lines(file), str(file), "write an object")),
    "yaml": read_yaml,
    "txt": read_lines,
}
DEEP = b"[" * 100_000
WRONG: list[tuple[str, bytes, str]] = [
    ("json", b'{"a":\n nope}', r" is not JSON \(Expecting value at line 2, column 2\)"),
    ("json", b'{"a": }', r" is not JSON \(Expecting value at column 7\)"),
    ("json", b"", r" is not JSON \(Expecting value at column 1\)"),
    ("json", DEEP, r" is not JSON \(it is nested too deeply\)"),
    ("json", b'{"a": ["\\uD800"]}', r" is not JSON \('\\ud800' is half of a character\)"),
    ("json", b'{"\\udc00": 1}', r" is not JSON \('\\udc00' is half of a character\)"),
    ("json", b'{"a": ' + b"1" * 5000 + b"}", r" is not JSON \(Exceeds the limit"),
    ("json", b"[]", r" is not a JSON object"),
    ("json", '{"a": "é"}'.encode("latin1"), r", line 1: byte 0xe9 is not UTF-8 text; .*-f latin1"),
    ("jsonl", b'{"a": 1}\n\n{"a": }\n', r", line 3 is not JSON \(Expecting value at column 7\): write an object"),
    ("jsonl", b'{"a": 1}\n' + DEEP, r", line 2 is not JSON \(it is nested too deeply\): write an object"),
    ("jsonl", b'{"a": 1}\n{"a": "\\ud83d"}', r", line 2 is not JSON \('\\ud83d' is half of a character\)"),
    ("jsonl", b"{}\n[1]\n", r", line 2 is not a JSON object: write an object"),
    ("jsonl", b"{}\n{}\n\xff", r", line 3: byte 0xff is not UTF-8 text"),
    ("yaml", b"a:\n  b: [1\nc: 2\n", r", line 3, column 2 is not YAML: expected ',' or '\]'"),
    ("yaml", b"a: &x 1\nb: *x\n", r", line 2, column 4 is not YAML: the alias \*x is not allowed"),
    ("yaml", b"a: 1\na: 2\n", r", line 2, column 1 is not YAML: a is there twice"),
    ("yaml", DEEP[:5000], r" is not YAML: it is nested too deeply"),
    ("yaml", b"a: 2024-02-31\n", r" is not YAML: day is out of range"),
    ("yaml", b'a: "\\ud800"\n', r" is not YAML: '\\ud800' is half of a character"),
    ("yaml", b"a: \x07\n", r" is not YAML: unacceptable character"),
    ("yaml", b"- a\n", r" is not a YAML object"),
    ("yaml", b"", r" is not a YAML object"),
    ("txt", b"one\n\ntw\0o", r", line 3: byte 0x00 is not UTF-8 text"),
    ("txt", b"one\n\x80", r", line 2: byte 0x80 is not UTF-8 text"),
    ("txt", "one".encode("utf-16"), r", line 1: byte 0xf[ef] is not UTF-8 text; .*`iconv -f utf-16 -t utf-8`"),
    ("txt", "one".encode("utf-16le"), r", line 1: byte 0x00 is not UTF-8 text; .*-f utf-16le"),
    ("txt", "one".encode("utf-16be"), r", line 1: byte 0x00 is not UTF-8 text; .*-f utf-16be"),
]


@pytest.mark.parametrize(("kind", "content", "message"), WRONG, ids=range(len(WRONG)))
def test_what_is_wrong_is_said_in_one_line(kind: str, content: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / f"given.{kind}"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=f"given.{kind}{message}") as caught:
        READERS[kind](file)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(file))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_any_json_is_read_as_python_reads_it_and_as_it_was_written(value: object) -> None:
    assert parse_json(json.dumps(value), "x", "anything") == value
    assert json.loads(json_text(value)) == value


def test_numbers_stand_on_one_line_and_entries_on_lines_of_their_own() -> None:
    assert json_text({"a": [1, 2.5], "b": [[1], [2]], "c": {}}) == (
        '{\n  "a": [1,2.5],\n  "b": [\n    [1],\n    [2]\n  ],\n  "c": {}\n}\n'
    )


@given(st.dictionaries(st.text("abcdefgh", min_size=1), st.lists(st.integers() | st.text("xyz \u00e9\u4e00"))))
def test_yaml_is_read_as_pyyaml_reads_it(value: dict[str, Any]) -> None:
    assert parse_yaml(yaml.safe_dump(value), "x") == value


def test_lines_end_at_line_feeds_only_and_a_mark_of_the_encoding_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("\ufeffone\x0btwo\u2028\r\n\nthree".encode())
    assert read_lines(tmp_path / "a.txt") == ["one\x0btwo\u2028", "", "three"]
    assert decode(b"", "x") == ""
