"""A verb of the shell, derived from a door: its parameters become arguments and options, its docstring the help."""

import inspect
import sys
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from ..doors.door import Parameter, parameters_of, read_help
from ..hints import places
from ..recipes import recipe_names
from ..schemes import SCHEMES


def recipes_like(incomplete: str) -> list[str]:
    """The recipes that begin so, for the shell."""
    return [name for name in recipe_names() if name.startswith(incomplete)]


def schemes_like(incomplete: str) -> list[str]:
    """The named schemes that begin so, for the shell."""
    return [name for name in SCHEMES if name.startswith(incomplete)]


def entries_like(incomplete: str) -> list[str]:
    """The entries of recipes that begin so, for the shell."""
    return [f"{name}=" for name in sorted(set(places().values())) if name.startswith(incomplete)]


COMPLETED = {"recipe": recipes_like, "name": recipes_like, "notations": schemes_like, "changes": entries_like}
JSON = "Print the result as one JSON document instead of text."
Door = Callable[..., Any]
Act = Callable[[Door, dict[str, Any], bool], None]  # what a verb does with a door and its values, and whether as JSON


def derived(function: Door, act: Act) -> Callable[..., None]:
    """The function that a command line is read for; `act` gets the values by name."""
    told, parameters = read_help(function.__doc__), parameters_of(function)

    def run(**given: Any) -> None:
        as_json = given.pop("json")
        empty = {one.name for one in parameters if given.get(one.name) in (None, [])}
        act(function, {one.name: one.default if one.name in empty else given[one.name] for one in parameters}, as_json)

    shown = [declared(one, *told.parameters.get(one.name, (None, ""))) for one in parameters if one.form != "lines"]
    shown.append(keyword("json", Annotated[bool, typer.Option("--json", help=JSON)], False))
    run.__doc__ = told.text
    run.__signature__ = inspect.Signature(shown)  # pyright: ignore[reportFunctionMemberAccess]
    run.__annotations__ = {one.name: one.annotation for one in shown}
    return run


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
        about = typer.Argument(metavar=metavar or one.name.upper(), help=text, autocompletion=COMPLETED.get(one.name))
    return keyword(one.name, Annotated[kind, about], inspect.Parameter.empty if needed else default)


def keyword(name: str, kind: Any, default: Any) -> inspect.Parameter:
    """A parameter as typer finds it in a signature."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def called(function: Door, values: Mapping[str, Any]) -> Any:
    """The function called with values by name."""
    signature = inspect.signature(function)
    given = OrderedDict((name, values[name]) for name in signature.parameters if name in values)
    bound = inspect.BoundArguments(signature, given)
    return function(*bound.args, **bound.kwargs)


def standard_input(instead: str) -> list[str]:
    """The lines of standard input; a terminal is refused."""
    if sys.stdin.isatty():
        raise ValueError(f"{instead.split()[1]} reads lines from standard input: {instead}")
    from ..text.lines import lines_of

    return lines_of(sys.stdin.buffer.read(), "standard input")
