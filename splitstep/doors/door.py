"""A door: a typed function that a person calls from Python, and from which a verb of the shell is derived.

Positional parameters are the verb's arguments; keyword-only ones, and numbers, are its options. A tuple is written with
commas, which do not separate inside brackets; a list can be given several times; `Literal` lists its choices; `Lines`
are those of standard input. A parameter that takes a function of Python, or anything, has no place in a shell.

The docstring is the help. Its last section `Parameters:` says what each parameter is, as in "seeds N: The number of
seeds.", where N stands for its value; a door adds those that many doors have.
"""

import inspect
import re
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Literal, NamedTuple, NewType, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from ..hints import network_meant
from ..own_letters import read_letters
from ..support.words import split_list

F = TypeVar("F", bound=Callable[..., Any])
Lines = NewType("Lines", list)  # of standard input, for a verb
SECTION = "\n\nParameters:\n"
ENTRY = re.compile(r"(\w+)(?: (.+?))?: (.*)", re.DOTALL)
NUMBERS = {int: "a whole number", float: "a number"}
LETTERS = "letters"
NETWORKS = ("model", "run", "teacher")  # parameters that are the path or the name of a network
COMMON = (
    "recipe RECIPE: A recipe by name, such as digits, or a YAML file.",
    "changes KEY=VALUE: Recipe entries to change, such as train.steps=500.",
    "model MODEL: A run, a model's folder, a GGUF file, or a model's name on the Hub.",
    "run RUN: The directory of a finished run.",
    "task NAME: Use the recipe of this task, if no recipe is named.",
    "sweep KEY=VALUE,...: Recipe values to try for each row; its best on validation is reported. Several form a grid.",
    "beams N: The number of beams to translate with; 1 is greedy. Default: as in the recipe.",
    "length_penalty X: Divide a beam's score by its length to this power. Default: as in the recipe.",
    "text FILE: Your text to train on: plain, .gz or .xz. Several are joined.",
    "schemes LIST: Names or notations of schemes, separated by commas; commas inside brackets do not separate schemes.",
    "minutes N: Choose the size of the networks, the steps and the number of seeds for this time.",
    "budgets LIST: Train at several multiples of the steps, such as 1,3,9; the verdict is about the largest.",
    "tune N: Try N learning rates for each arm, with a seed that the verdict does not use.",
    "null: Also train the first arm twice with each seed, which shows the noise floor.",
    "until WHEN: Add seeds until each arm is decided: after 4, 6, 8, 10 and 12.",
    "margin X: A difference that does not matter, in the unit of the metric.",
    "plan: Only say how long it takes and what it can detect.",
    "markdown: Only print a Markdown table.",
    "out DIR: The folder of all output; what was interrupted there continues. Default: runs/COMMAND-NAME.",
    "engine ENGINE: Where runs execute: local, local=N for N processes at once, or dask=ADDRESS of a scheduler.",
    "data DIR: The directory of the data sets. Default: $SPLITSTEP_DATA, else ./data.",
    "texts N: Use at most N texts; in Python also the texts themselves.",
    "chat: Give each text as one turn of a user, in the model's chat template.",
    "cut N: Also leave out attention and feed-forward alone, and 1 to N layers together.",
    "deep: Also differentiate layers: Jacobians, commutators, communities, the depth gradient.",
    "probes LIST: Any of state_norms, increment_norms, drift, states, attention, sensitivity, information, trajectory, "
    "clustering, rank, cka_layers, rollout, commutator, jacobian, products, communities, leading, lens.",
    "spectra N: Texts for probes that differentiate layers. Default: 4, which the verdict needs.",
    "save WHAT: `states`, to write those of each text to DIR/states; or, with --cut, a new folder for the model "
    "without these layers.",
    "trust_remote_code: Let Python code run that comes with the model. Read it first.",
    f"{LETTERS} FILES: Python files that define letters of schemes, such as my.py.",
)  # what is said of parameters that several doors have or that need much room, unless a door says something else


class Help(NamedTuple):
    """A docstring in parts: its text, and the metavar and the help of each parameter."""

    text: str
    parameters: dict[str, tuple[str | None, str]]


class Parameter(NamedTuple):
    """A parameter of a door: one value of a type, several that are repeated, or several between commas."""

    name: str
    kind: Any
    form: Literal["one", "list", "tuple", "lines"]
    option: bool
    default: Any

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    def read(self, given: Any) -> Any:
        """The value of the parameter, of which words were perhaps given."""
        if self.form == "one":
            return Path(given) if self.kind is Path and isinstance(given, str) else given
        if given is None or self.form == "lines":
            return given
        parts = split_list(given) if self.form == "tuple" and isinstance(given, str) else given
        return (tuple if self.form == "tuple" else list)(
            map(self.part, [parts] if isinstance(parts, str | Path) else parts)
        )

    def part(self, given: Any) -> Any:
        """One of several as its type."""
        try:
            return self.kind(given)
        except ValueError:
            raise ValueError(f"{self.flag}: {given!r} is not {NUMBERS.get(self.kind, 'valid')}.") from None


def door(function: F) -> F:
    """The function, which also takes paths and lists as a shell has them: as text. Letters are defined first."""

    @wraps(function)
    def called(*words: Any, **options: Any) -> Any:
        bound = inspect.signature(function).bind(*words, **options)
        for one in parameters_of(function):
            if one.name in bound.arguments:
                bound.arguments[one.name] = one.read(bound.arguments[one.name])
        for name in NETWORKS:
            given = bound.arguments.get(name)
            if isinstance(given, str | Path) and (meant := network_meant(str(given))):
                raise ValueError(meant)
        read_letters(bound.arguments.get(LETTERS) or ())
        return function(*bound.args, **bound.kwargs)

    called.__doc__ = completed(function)
    return cast("F", called)


def completed(function: Callable[..., Any]) -> str:
    """The docstring, which says something of every parameter."""
    text, _, section = inspect.cleandoc(function.__doc__ or "").partition(SECTION)
    told = {entry.split()[0].rstrip(":"): entry for entry in entries(section)}
    common = {entry.split()[0].rstrip(":"): entry for entry in COMMON}
    names = [name for name in inspect.signature(function).parameters if name in told or name in common]
    return SECTION.join([text, "\n".join(told.get(name) or common[name] for name in names)])


def entries(section: str) -> list[str]:
    """The entries of a section, each of which may go on in indented lines."""
    return [" ".join(entry.split()) for entry in re.split(r"\n(?=\S)", section) if entry]


def read_help(docstring: str | None) -> Help:
    """The text and what is said of each parameter. Lists such as examples keep their lines."""
    text, _, section = inspect.cleandoc(docstring or "").partition(SECTION)
    found = [one for entry in entries(section) if (one := ENTRY.fullmatch(entry))]
    return Help(re.sub(r"\n\n(?=\S[^\n]*:\n  )", "\n\n\b\n", text), {one[1]: (one[2], one[3]) for one in found})


@cache
def parameters_of(function: Callable[..., Any]) -> list[Parameter]:
    """The parameters that have a place in a shell. The type of the result is not looked up: it may need torch."""
    function = inspect.unwrap(function)
    own = {name: kind for name, kind in function.__annotations__.items() if name != "return"}
    types = get_type_hints(SimpleNamespace(__annotations__=own), function.__globals__)
    signature = inspect.signature(function).parameters.values()
    return [parameter for one in signature if (parameter := read_parameter(one, types[one.name]))]


def read_parameter(one: inspect.Parameter, kind: Any) -> Parameter | None:
    """A parameter by its type; None if it has no place in a shell."""
    union = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    inside = [each for each in union if each not in (NoneType, Any) and get_origin(each) is not Callable]
    if not inside:
        return None
    kind, default = inside[0], one.default
    option = one.kind is one.KEYWORD_ONLY or kind in NUMBERS
    if kind is Lines:
        return Parameter(one.name, list, "lines", option, default)
    if one.kind is one.VAR_POSITIONAL:
        return Parameter(one.name, kind, "list", False, [])
    origin = get_origin(kind)
    if origin in (list, tuple):
        return Parameter(one.name, get_args(kind)[0], "list" if origin is list else "tuple", option, default)
    return Parameter(one.name, kind, "one", option, default)
