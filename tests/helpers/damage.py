"""Files as a stranger may bring them: valid ones that were flipped, cut, stretched and exchanged, and plain garbage."""

import json
import re
from typing import Any

from hypothesis import strategies as st

DEEP = "<deep>"  # stands for lists in lists, which no writer of JSON can write
DEPTHS = (50, 900, 5_000)
NUMBERS = (-1, 0, 1, 3, 255, 2**31, 2**63, 10**12, 10**30, 10**400, 1e-300, 1e308, -0.5, float("nan"), float("inf"))
JUNK: tuple[Any, ...] = (
    None, True, "", "nan", "\ud800", "\0", "a\nb", "../x", "x" * 3_000, "é" * 200, [], {}, [0] * 1_000, [[]],
    {"": {}}, {"a": 1}, DEEP,
)  # fmt: skip
WORDS = (
    b"\0", b"\xff", b"\n", b"\r", b'"', b"{", b"}", b"[", b"]", b":", b",", b"'", b"&a", b"*a", b"!!python", b"---",
    b"=", b"@", b"\xed\xa0\x80", b"\\ud800", b"NaN", b"1e999", b"-", b"9" * 30, b"9" * 5_000, b"\t", b"|", b"%", b"#",
)  # fmt: skip
DIGITS = re.compile(rb"\d+")


def damaged(content: bytes) -> st.SearchStrategy[bytes]:
    """Bytes near a valid file's: JSON also with other values in its tree."""
    ways = [anywhere(content), st.binary(max_size=60)]
    try:
        ways.insert(0, tree_text(json.loads(content)))
    except ValueError:
        ways.insert(0, anywhere(content))
    return st.one_of(ways)


@st.composite
def anywhere(draw: st.DrawFn, content: bytes) -> bytes:
    """The content with a few accidents, as often near its beginning as anywhere else."""
    most = 2 * len(content) + 50_000  # longer ones take long for a good reason
    for _ in range(draw(st.integers(1, 3))):
        reach = min(len(content), draw(st.sampled_from([64, 2_000, len(content)])))
        begin = draw(st.integers(0, reach))
        end = min(len(content), begin + draw(st.sampled_from([0, 1, 4, 8, 100, 10_000])))
        part = content[begin:end]
        number = DIGITS.search(content, begin)
        way = draw(st.sampled_from(["replace", "insert", "repeat", "cut", "end", "flip", "number"]))
        if way == "number" and number:
            begin, end = number.span()
            new = str(draw(st.sampled_from([n for n in NUMBERS if n == n]))).encode()
        elif way == "flip":
            new = bytes(byte ^ draw(st.integers(1, 255)) for byte in part[:8]) + part[8:]
        elif way in ("insert", "replace"):
            new = draw(st.one_of(st.sampled_from(WORDS), st.binary(max_size=8)))
            end = begin if way == "insert" else end
        else:
            new = part * draw(st.sampled_from([2, 50])) if way == "repeat" else b""
            end = len(content) if way == "end" else end
        content = (content[:begin] + new + content[end:])[:most]
    return content


@st.composite
def tree_text(draw: st.DrawFn, tree: Any) -> bytes:
    """A JSON tree of which a few values are lost, exchanged, or of another type."""
    for _ in range(draw(st.integers(1, 3))):
        tree = changed(draw, tree, tree)
    depth = draw(st.sampled_from(DEPTHS))
    text = json.dumps(tree).replace(json.dumps(DEEP), "[" * depth + "]" * depth)
    return text.encode()


def changed(draw: st.DrawFn, value: Any, whole: Any) -> Any:
    """The value with a change somewhere below."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    if not keys or draw(st.integers(0, 5)) == 0:
        return exchanged(draw, value, whole)
    key = draw(st.sampled_from(keys))
    if draw(st.integers(0, 7)) == 0:
        return without(value, key)
    new = changed(draw, value[key], whole)
    return {**value, key: new} if isinstance(value, dict) else [*value[:key], new, *value[key + 1 :]]


def without(value: Any, key: Any) -> Any:
    if isinstance(value, dict):
        return {name: one for name, one in value.items() if name != key}
    return [*value[:key], *value[key + 1 :]]


def exchanged(draw: st.DrawFn, value: Any, whole: Any) -> Any:
    """Something else in place of a value."""
    if isinstance(value, int | float) and draw(st.integers(0, 5)):
        return draw(st.sampled_from([n for n in NUMBERS if isinstance(value, float) or isinstance(n, int)]))
    other = st.sampled_from(list(whole.values()) if isinstance(whole, dict) and whole else [whole])
    wrapped = st.sampled_from([[value], {"value": value}, str(value), [value, value]])
    return draw(st.one_of(st.sampled_from(JUNK), st.sampled_from(NUMBERS), other, wrapped))
