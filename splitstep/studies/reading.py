"""JSON values as the types that a record is annotated with; what does not fit is named by its place."""

from __future__ import annotations

import dataclasses
from collections.abc import Set
from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

WORDS = {
    int: "a whole number", float: "a number", str: "text", bool: "true or false", tuple: "a list", list: "a list",
    dict: "entries of its own",
}  # fmt: skip


def read_as(kind: Any, value: Any, where: str) -> Any:
    """The value as this type: a record from an object, a tuple from a list, and so on all the way down."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, UnionType):
        if value is None and NoneType in arguments:
            return None
        lists = [k for k in arguments if get_origin(k) is list and isinstance(value, list)]
        return read_as([*lists, arguments[0]][0], value, where)
    if origin is Literal:
        if value not in arguments:
            raise ValueError(f"{where} is {value!r}, and needs {' or '.join(map(repr, arguments))}")
        return value
    if origin in (tuple, list):
        found = enumerate(checked(list, value, where))
        return origin(read_as(arguments[0], one, f"{where}[{i}]") for i, one in found)
    if origin is dict:
        return {key: read_as(arguments[1], one, f"{where}.{key}") for key, one in checked(dict, value, where).items()}
    return checked(kind, value, where) if kind in WORDS else read_record(kind, value, where)


def checked(kind: type, value: Any, where: str) -> Any:
    """The value, where it is of this plain type; whole numbers pass as floats, truth values not as numbers."""
    fits = isinstance(value, (int, float) if kind is float else kind) and (kind is bool or not isinstance(value, bool))
    if not fits:
        raise ValueError(f"{where} is {str(value)[:40]!r}, and needs {WORDS[kind]}")
    return value


def read_record(kind: Any, value: Any, where: str) -> Any:
    """A dataclass, a named tuple or a typed dictionary from an object; entries that it does not know are left."""
    hints, given = get_type_hints(kind), checked(dict, value, where)
    if missing := sorted(required(kind) - given.keys()):
        raise ValueError(f"{where} has no {missing[0]}")
    known = {name: read_as(hints[name], given[name], f"{where}.{name}") for name in hints if name in given}
    return given if is_typeddict(kind) else kind(**known)


def required(kind: Any) -> Set[str]:
    """The entries that have no default."""
    if is_typeddict(kind):
        hints = get_type_hints(kind, include_extras=True)  # its own list does not see through postponed annotations
        return {name for name, hint in hints.items() if get_origin(hint) is not NotRequired}
    if dataclasses.is_dataclass(kind):
        absent = dataclasses.MISSING
        return {f.name for f in dataclasses.fields(kind) if f.default is absent and f.default_factory is absent}
    return set(kind._fields) - kind._field_defaults.keys()
