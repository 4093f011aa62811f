"""Reading a recipe's `data:` section into a frozen record, with errors that say what to type."""

import dataclasses
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from ..support.typed import nearest, read_as, spell

T = TypeVar("T")


def read_options(kind: type[T], given: Mapping[str, object], owner: str) -> T:
    """The record of type `kind` with the entries `given`; `owner` names it in errors."""
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(typing.cast(Any, kind))]
    for key in given:
        if key not in names:
            known = ", ".join(f"{name} ({spell(hints[name])})" for name in names) or "none"
            end = nearest(str(key), names, f"its options are: {known}")
            raise ValueError(f'{owner} has no option "{key}"{end}')
    values = {key: read_option(hints[key], value, f"{owner}: option {key}") for key, value in given.items()}
    with errors_at(owner):
        return kind(**values)


@contextmanager
def errors_at(where: str) -> Iterator[None]:
    """Put `where` in front of each `ValueError` that is raised inside."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def read_option(kind: Any, value: object, where: str) -> Any:
    """The value as this type. A single value is a list of one, so `path: notes.txt` needs no brackets."""
    if typing.get_origin(kind) is tuple and not isinstance(value, list | tuple):
        return (read_as(typing.get_args(kind)[0], value, where),)
    return read_as(kind, value, where)


def at_least(name: str, value: int | None, low: int) -> None:
    """Refuse an option below its least value."""
    if value is not None and value < low:
        raise ValueError(f"option {name} is {value}, and needs at least {low}")


def at_most(name: str, value: int, high: int) -> None:
    """Refuse an option above its greatest value."""
    if value > high:
        raise ValueError(f"option {name} is {value}, and needs at most {high:,}")


def check_int64(name: str, value: int) -> None:
    """Refuse a whole number that neither PyTorch nor NumPy can hold."""
    if abs(value) >= 2**63:
        raise ValueError(f"{name} is {value}, and needs a number below 2^63")
