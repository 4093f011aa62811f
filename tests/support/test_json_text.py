"""JSON files that people can read and that stay small."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from splitstep.support.typed import json_text

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_what_is_written_is_read_back(value: object) -> None:
    assert json.loads(json_text(value)) == value


def test_numbers_stand_on_one_line_and_entries_on_lines_of_their_own() -> None:
    assert json_text({"a": [1, 2.5], "b": [[1], [2]], "c": {}}) == (
        '{\n  "a": [1,2.5],\n  "b": [\n    [1],\n    [2]\n  ],\n  "c": {}\n}\n'
    )
