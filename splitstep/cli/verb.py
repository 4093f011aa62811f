"""A verb of the shell, derived from a function: its parameters become arguments and options, its docstring the help.

Positional parameters are arguments and keyword-only ones are options. A tuple is split at commas outside brackets, a
list can be given several times, a `Literal` lists its choices, and `Lines` are those of standard input. A parameter
that takes a function of Python has no place in a shell. The docstring is the help; a last section `Parameters:` says
what each parameter is, as in "seeds N: The number of seeds.", where N stands for its value.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from types import NoneType, SimpleNamespace
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import typer

from ..doors.runs import Lines
from ..support.words import split_list

ENTRY = re.compile(r"(\w+)(?: (.+?))?: (.*)", re.DOTALL)
JSON = "Print the result as one JSON document instead of text."
NUMBERS = {int: "a whole number", float: "a number"}
Act = Callable[[dict[str, Any], bool], None]  # what a verb does with its values, and whether as JSON


class Help(NamedTuple):
    """A docstring in parts."""

    text: str
    parameters: Mapping[str, tuple[str | None, str]]  # the metavar and the help of each


class Parameter(NamedTuple):
    """A parameter of a verb: one value of a type, several that are repeated, or several between commas."""

    name: str
    kind: Any
    form: Literal["one", "list", "tuple", "lines"]
    option: bool
    default: Any

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    def value(self, given: Any) -> Any:
        """The value of the function's parameter."""
        if self.form == "lines" or given is None or (self.form == "list" and not given):
            return self.default
        if self.form != "tuple":
            return given
        return tuple(self.number(part) for part in split_list(given))

    def number(self, text: str) -> Any:
        """A part of a list as its type."""
        try:
            return self.kind(text)
        except ValueError:
            raise ValueError(f"{self.flag}: {text!r} is not {NUMBERS.get(self.kind, 'valid')}.") from None


def derived(function: Callable[..., Any], act: Act) -> Callable[..., None]:
    """The function that a command line is read for; `act` gets the values by name."""
    told, parameters = read_help(function.__doc__), parameters_of(function)

    def run(**given: Any) -> None:
        as_json = given.pop("json")
        act({one.name: one.value(given.get(one.name)) for one in parameters}, as_json)

    shown = [declared(one, *told.parameters.get(one.name, (None, ""))) for one in parameters if one.form != "lines"]
    shown.append(keyword("json", Annotated[bool, typer.Option("--json", help=JSON)], False))
    run.__doc__ = told.text
    run.__signature__ = inspect.Signature(shown)  # pyright: ignore[reportFunctionMemberAccess]
    run.__annotations__ = {one.name: one.annotation for one in shown}
    return run


def read_help(docstring: str | None) -> Help:
    """The text and what is said of each parameter. Lists such as examples keep their lines."""
    text, _, section = inspect.cleandoc(docstring or "").partition("\n\nParameters:\n")
    entries = (ENTRY.fullmatch(" ".join(entry.split())) for entry in re.split(r"\n(?=\S)", section))
    known = {one[1]: (one[2], one[3]) for one in entries if one}
    return Help(re.sub(r"\n\n(?=\S[^\n]*:\n  )", "\n\n\b\n", text), known)


def parameters_of(function: Callable[..., Any]) -> list[Parameter]:
    """The parameters that have a place in a shell. The type of the result is not looked up: it may need torch."""
    own = {name: kind for name, kind in function.__annotations__.items() if name != "return"}
    types = get_type_hints(SimpleNamespace(__annotations__=own), function.__globals__)
    signature = inspect.signature(function).parameters.values()
    return [parameter for one in signature if (parameter := read_parameter(one, types[one.name]))]


def read_parameter(one: inspect.Parameter, kind: Any) -> Parameter | None:
    """A parameter by its type; None if it has no place in a shell."""
    inside = [each for each in get_args(kind) if each is not NoneType]
    if NoneType in get_args(kind) and len(inside) == 1:
        kind = inside[0]
    option, default = one.kind is one.KEYWORD_ONLY, one.default
    if get_origin(kind) is Callable:
        return None
    if kind is Lines:
        return Parameter(one.name, list, "lines", option, default)
    if one.kind is one.VAR_POSITIONAL:
        return Parameter(one.name, kind, "list", False, [])
    origin = get_origin(kind)
    if origin in (list, tuple):
        return Parameter(one.name, get_args(kind)[0], "list" if origin is list else "tuple", option, default)
    return Parameter(one.name, kind, "one", option, default)


def declared(one: Parameter, metavar: str | None, text: str) -> inspect.Parameter:
    """The parameter as typer reads it."""
    needed, default = one.default is inspect.Parameter.empty, one.default
    kind = {"list": list[one.kind], "tuple": str}.get(one.form, one.kind)
    if one.form == "tuple":
        default = ",".join(map(str, default)) if default and not needed else None
    if one.form == "list":
        default = None
    if not needed and default is None:
        kind = kind | None if not isinstance(kind, str) else kind
    if one.option:
        about: Any = typer.Option(one.flag, metavar=metavar, help=text)
    else:
        about = typer.Argument(metavar=metavar or one.name.upper(), help=text)
    return keyword(one.name, Annotated[kind, about], inspect.Parameter.empty if needed else default)


def keyword(name: str, kind: Any, default: Any) -> inspect.Parameter:
    """A parameter as typer finds it in a signature."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def called(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """The function called with values by name."""
    words, options = list[Any](), dict[str, Any]()
    for one in inspect.signature(function).parameters.values():
        if one.name not in values:
            continue
        if one.kind is one.VAR_POSITIONAL:
            words += values[one.name]
        elif one.kind is one.KEYWORD_ONLY:
            options[one.name] = values[one.name]
        else:
            words.append(values[one.name])
    return function(*words, **options)


def standard_input(instead: str) -> list[str]:
    """The lines of standard input; a terminal is refused."""
    if sys.stdin.isatty():
        raise ValueError(f"{instead.split()[1]} reads lines from standard input: {instead}")
    from ..text.lines import lines_of

    return lines_of(sys.stdin.buffer.read(), "standard input")
