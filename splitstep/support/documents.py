"""Documents from anywhere: JSON, JSON lines, YAML and plain text; and how the settings in two of them differ.

Whatever is wrong with one, its encoding, syntax, depth or outermost type, is a `ValueError` of one line that names the
file and the line.
"""

import hashlib
import json
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, final

import yaml

from .words import first_line

TOO_DEEP, DEEPEST = "it is nested too deeply", 100
AGAIN = "copy it again, or train again"  # a model that is damaged
Needed = Literal["object", "list", "anything"]
KINDS: dict[Needed, type] = {"object": dict, "list": list, "anything": object}


def decode(content: bytes, name: str, first: int = 1) -> str:
    """The text of a file's bytes; those that UTF-8 text does not have are refused. `first`: the number of the first
    line."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise not_utf8(content, error.start, name, first) from None
    if (nul := content.find(b"\0")) >= 0:
        raise not_utf8(content, nul, name, first)
    return text.removeprefix("\ufeff")


def not_utf8(content: bytes, position: int, name: str, first: int = 1) -> ValueError:
    """The error for a byte that UTF-8 text does not have. In UTF-16 one of the two bytes of an ASCII letter is NUL."""
    number, nul = content.count(b"\n", 0, position) + first, content.find(b"\0")
    if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        likely = "utf-16"
    else:
        likely = "latin1" if nul < 0 else "utf-16le" if nul % 2 else "utf-16be"
    return ValueError(
        f"{name}, line {number}: byte {content[position]:#04x} is not UTF-8 text; convert the file, e.g. with "
        f"`iconv -f {likely} -t utf-8`"
    )


def split_lines(text: str) -> list[str]:
    """The lines of a text, split at line feeds only: other separators may be inside a sentence."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def read_lines(file: Path) -> list[str]:
    """The lines of a text file."""
    return split_lines(decode(file.read_bytes(), str(file)))


def parse_json(text: str, where: str, needed: Needed = "object", hint: str = "") -> Any:
    """The value of a JSON text that stands at `where`; `needed`: what its outermost type has to be; `hint`: the end of
    an error."""
    hint = hint and f": {hint}"
    try:
        found = json.loads(text, object_pairs_hook=unrepeated)
    except RecursionError:
        raise ValueError(f"{where} is not JSON ({TOO_DEEP}){hint}") from None
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " * ("\n" in text.strip())
        raise ValueError(f"{where} is not JSON ({error.msg} at {line}column {error.colno}){hint}") from None
    except ValueError as error:  # such as a number of 5,000 digits, or a repeated name
        raise ValueError(f"{where} is not JSON ({first_line(error)}){hint}") from None
    if "\\ud" in text.lower() and (half := half_character(found)):
        raise ValueError(f"{where} is not JSON ({half} is half of a character){hint}")
    return checked_kind(found, where, "JSON", needed, hint)


def unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The entries of a JSON object, none of which may be there twice: Python would keep the last."""
    found = dict(pairs)
    if len(found) < len(pairs):
        [(name, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"{name!r} is there twice: keep one")
    return found


def read_json(file: Path, needed: Needed = "object", hint: str = "") -> Any:
    """The value in a JSON file."""
    return parse_json(decode(file.read_bytes(), str(file)), str(file), needed, hint)


def json_lines(lines: Iterable[str], name: str, hint: str = "") -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file of JSON lines, each with its line's number; blank lines are left out."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield number, parse_json(line, f"{name}, line {number}", hint=hint)


@final
class Loader(yaml.SafeLoader):
    """Reads YAML without aliases, a few lines of which can expand beyond all memory, and without repeated keys, of
    which PyYAML's own loader would keep the last. 3e-4 is a number."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()
            raise yaml.MarkedYAMLError(
                problem=f"the alias *{event.anchor} is not allowed: write its value out", problem_mark=event.start_mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set[str]()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"{key.value} is there twice: keep one", problem_mark=key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def parse_yaml(text: str, name: str, needed: Needed = "object") -> Any:
    """The value of a YAML text; see `Loader` for what is allowed in it."""
    try:
        found = yaml.load(text, Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"
        raise ValueError(f"{name}{where} is not YAML: {error.problem or error.context}") from None
    except RecursionError:
        raise ValueError(f"{name} is not YAML: {TOO_DEEP}") from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: such as the 31st of February
        raise ValueError(f"{name} is not YAML: {first_line(error)}") from None
    if "\\u" in text.lower() and (half := half_character(found)):
        raise ValueError(f"{name} is not YAML: {half} is half of a character")
    return checked_kind(found, name, "YAML", needed)


def read_yaml(file: Path, name: str = "", needed: Needed = "object") -> Any:
    """The value in a YAML file, which errors call by `name`."""
    name = name or str(file)
    return parse_yaml(decode(file.read_bytes(), name), name, needed)


def half_character(value: Any) -> str:
    """A text inside of a value with an escape that is half of a character, which no file and no tokenizer can hold."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            left += [*one, *one.values()]
        elif isinstance(one, list):
            left += one
        elif isinstance(one, str):
            try:
                one.encode()
            except UnicodeEncodeError as error:
                return repr(one[error.start : error.end])
    return ""


@contextmanager
def readable(place: object, remedy: str) -> Iterator[None]:
    """Make one line of whatever the content of a place does to its reader; too little memory is another matter."""
    try:
        yield
    except Exception as error:
        from .memory import no_memory

        if no_memory(error):
            raise
        raise ValueError(f"{place} is damaged ({first_line(error)}): {remedy}") from None


def checked_kind(found: Any, where: str, form: str, needed: Needed, hint: str = "") -> Any:
    """The value, unless its outermost type is another one than is needed, or it has too many levels."""
    level, depth = [found], 0
    while level := [y for x in level if isinstance(x, dict | list) for y in (x.values() if isinstance(x, dict) else x)]:
        depth += 1
        if depth > DEEPEST:
            raise ValueError(f"{where} is not {form} ({TOO_DEEP}){hint}")
    if not isinstance(found, KINDS[needed]):
        raise ValueError(f"{where} is not a {form} {needed}{hint}")
    return found


def flat(entries: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """All entries, those of sections as `section.entry`."""
    for name, value in entries.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def first_difference(stored: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """The first entry by name that differs between two flat settings, in words; "" if all agree."""
    differ = sorted(name for name in stored.keys() | given.keys() if stored.get(name) != given.get(name))
    if not differ:
        return ""
    old, new = (shortened(entries.get(differ[0])) for entries in (stored, given))
    return f"{differ[0]}={old}, and here it is {new}"


def shortened(value: Any) -> str:
    """A value for an error: a text of several lines by its hash."""
    text = str(value)
    return f"a text of SHA-256 {hashlib.sha256(text.encode()).hexdigest()[:12]}" if "\n" in text else text
