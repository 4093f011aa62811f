"""Values from files, read as the types that records are annotated with; an error names the entry that does not fit."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterable, Mapping, Set
from math import isfinite
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    NotRequired,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)  # fmt: skip

from . import words

if TYPE_CHECKING:
    Figure = float
else:

    class Figure(float):
        """A number that may be infinite or NaN. JSON has no such numbers, so files hold them as text."""


T = TypeVar("T")
INLINED = "inlined"
Inlined = Annotated[T, INLINED]  # a record in a record, whose entries stand among the outer one's in a file

NOT_FINITE = ("nan", "inf", "-inf")
WORDS = {
    int: "a whole number", float: "a number", Figure: "a number", str: "text", bool: "true or false",
    NoneType: "nothing", Any: "anything",
}  # fmt: skip
MANY = {int: "whole numbers", float: "numbers"}
UNIONS = (Union, UnionType)


def read_as(kind: Any, value: Any, where: str) -> Any:
    """The value as this type: a record from an object, a tuple from a list, and so on recursively."""
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    if not suits(kind, value):
        near = nearest(str(value), map(str, arguments)) if origin is Literal else ""
        shown = repr(value) if len(repr(value)) <= 80 else f"{repr(value)[:77]}..."
        if type(value) is int and suits(kind, 0):
            raise ValueError(f"{where}={shown} is too large: give a number below 2^63")
        raise ValueError(f"{where} is {shown}, and needs {spell(kind)}{near}")
    if origin in UNIONS:
        return read_as(next(one for one in arguments if suits(one, value)), value, where)
    if origin in (list, tuple):
        return origin(read_as(arguments[0], one, f"{where}[{i}]") for i, one in enumerate(value))
    if origin is dict:
        return {
            read_as(arguments[0], key, f"a key of {where}"): read_as(arguments[1], one, f"{where}.{key}")
            for key, one in value.items()
        }
    if kind in (float, Figure):
        return float(str(value))  # infinite if a whole number has too many digits
    return value if kind in WORDS or origin is Literal else read_record(kind, value, where)


def suits(kind: Any, value: Any) -> bool:
    """Whether the outermost type of a value fits; whole numbers pass as floats, booleans do not pass as numbers."""
    origin, arguments = get_origin(kind) or kind, get_args(kind)
    if origin in UNIONS:
        return any(suits(one, value) for one in arguments)
    if origin is Literal:
        return value in arguments
    if kind is Any or isinstance(value, bool):
        return kind in (Any, bool)
    if kind is int and isinstance(value, int):
        return abs(value) < 2**63  # what can be computed with
    if kind is Figure and isinstance(value, str):
        return value in NOT_FINITE
    wider = {float: (int, float), Figure: (int, float), tuple: (list, tuple)}
    return isinstance(value, wider.get(origin, origin if origin in (*WORDS, list) else dict))


def spell(kind: Any) -> str:
    """A type in words, for an error."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return " or ".join(f'"{value}"' for value in arguments)
    if origin in UNIONS:
        return " or ".join(spell(one) for one in arguments if not (one is int and float in arguments))
    if origin in (list, tuple):
        return f"a list of {MANY.get(arguments[0]) or spell(arguments[0])}"
    return WORDS.get(kind, "entries of its own")


def nearest(name: str, names: Iterable[str], known: str = "") -> str:
    """The end of an error: a question with the nearest right name, or what is known if none is near."""
    near = words.nearest(name, names)
    return f'; did you mean "{near}"?' if near else known and f"; {known}"


def check_entries(
    given: Iterable[Any], names: Collection[str], owner: str, known: str = "", sort: str = "entry"
) -> None:
    """Refuse entries that are not among the names; `known`: what an error says of these, if no name is near."""
    for key in given:
        if key not in names:
            end = nearest(str(key), names, known or f"its entries are {', '.join(names)}")
            raise ValueError(f'{owner} has no {sort} "{key}"{end}')


def read_record(kind: Any, value: dict[str, Any], where: str) -> Any:
    """A dataclass, a named tuple or a typed dictionary from an object; unknown entries are ignored."""
    hints, inner = types_of(kind), inlined(kind)
    if missing := sorted(required(kind) - inner - value.keys()):
        raise ValueError(f"{where} has no {missing[0]}")
    known = {name: read_as(hints[name], value[name], f"{where}.{name}") for name in hints if name in value}
    known |= {name: read_as(hints[name], value, where) for name in inner}
    return value if is_typeddict(kind) else kind(**known)


def inlined(kind: Any) -> Set[str]:
    """The records in a record whose entries stand among its own."""
    hints = get_type_hints(kind, include_extras=True)
    return {name for name, hint in hints.items() if INLINED in getattr(hint, "__metadata__", ())}


def types_of(kind: Any) -> dict[str, Any]:
    """The types of a record's entries, without what belongs to the class."""
    return {name: hint for name, hint in get_type_hints(kind).items() if get_origin(hint) is not ClassVar}


def required(kind: Any) -> Set[str]:
    """The entries that have no default."""
    if is_typeddict(kind):
        hints = get_type_hints(kind, include_extras=True)  # __required_keys__ ignores postponed annotations
        return {name for name, hint in hints.items() if get_origin(hint) is not NotRequired}
    if dataclasses.is_dataclass(kind):
        absent = dataclasses.MISSING
        return {f.name for f in dataclasses.fields(kind) if f.default is absent and f.default_factory is absent}
    return set(kind._fields) - kind._field_defaults.keys()


def plain(value: Any) -> Any:
    """The value for JSON, as `read_as` reads it: records become objects, without optional entries that are None; tuples
    become lists; infinite numbers and NaN become text."""
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    named = isinstance(value, tuple) and type(value) is not tuple
    if not named and not dataclasses.is_dataclass(value):
        return [plain(one) for one in value] if isinstance(value, list | tuple) else value
    kind = type(value)
    needed, inner, entries = required(kind), inlined(kind), dict[str, Any]()
    for name in types_of(kind):
        one = getattr(value, name)
        if name in inner:
            entries |= plain(one)
        elif one is not None or name in needed:
            entries[name] = plain(one)
    return entries


def json_text(document: Any) -> str:
    """The document as JSON with a line for each entry; a list of plain values stands on one line."""
    return "\n".join(lines_of(plain(document), "")) + "\n"


def lines_of(value: Any, indent: str) -> list[str]:
    """The lines of a JSON value; all but the first are indented."""
    parts = value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else []
    if isinstance(value, list) and not any(isinstance(one, list | dict) for one in parts):
        return [json.dumps(value, separators=(",", ":"), allow_nan=False)]
    if not parts:
        return [json.dumps(value, allow_nan=False)]
    keys = [f"{json.dumps(str(key))}: " for key in value] if isinstance(value, dict) else [""] * len(parts)
    inner, lines = indent + "  ", []
    for key, one in zip(keys, parts, strict=True):
        first, *rest = lines_of(one, inner)
        lines += [f"{inner}{key}{first}", *rest]
        lines[-1] += ","
    lines[-1] = lines[-1][:-1]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return [opening, *lines, indent + closing]
