"""Reading a recipe's `data:` section into a frozen record, with errors that say what to type."""

import dataclasses
import difflib
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


def nearest(name: str, names: Iterable[str]) -> str:
    """A question that points at the nearest right name, or nothing where none is near."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f'; did you mean "{close[0]}"?' if close else ";"


def read_options(kind: type[T], given: Mapping[str, object], owner: str) -> T:
    """The record of type `kind` that the entries `given` describe; `owner` names it in errors."""
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(typing.cast(Any, kind))]
    for key in given:
        if key not in names:
            known = ", ".join(f"{name} ({spell(hints[name])})" for name in names) or "none"
            raise ValueError(f'{owner} has no option "{key}"{nearest(str(key), names)} its options are: {known}')
    values = {key: _convert(hints[key], value, f"{owner}: option {key}") for key, value in given.items()}
    try:
        return kind(**values)
    except ValueError as error:
        raise ValueError(f"{owner}: {error}") from None


def spell(hint: Any) -> str:
    """A type as a reader of an error says it."""
    if hint is type(None):
        return "nothing"
    if typing.get_origin(hint) is typing.Literal:
        return " or ".join(f'"{value}"' for value in typing.get_args(hint))
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return " or ".join(spell(part) for part in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        return f"a list of {spell(typing.get_args(hint)[0])}"
    return {int: "a whole number", float: "a number", str: "text", bool: "true or false"}[hint]


def _convert(hint: Any, value: object, where: str) -> Any:
    """The value as the hint wants it, or an error that restates both."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        (inner,) = (part for part in arguments if part is not type(None))
        return _convert(inner, value, where)
    if origin is tuple:
        # A lone value is a list of one, so that `path: notes.txt` needs no brackets.
        items = value if isinstance(value, list | tuple) else [value]
        return tuple(_convert(arguments[0], item, where) for item in items)
    if origin is typing.Literal:
        if value in arguments:
            return value
    elif hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    elif isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    raise ValueError(f"{where} is {value!r}, and needs {spell(hint)}")


def at_least(name: str, value: int | None, low: int) -> None:
    """Refuse an option below its least value."""
    if value is not None and value < low:
        raise ValueError(f"option {name} is {value}, and needs at least {low}")


def at_most(name: str, value: int, high: int) -> None:
    """Refuse an option above its greatest value."""
    if value > high:
        raise ValueError(f"option {name} is {value}, and needs at most {high:,}")
