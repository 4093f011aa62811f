"""A method of distillation: a weighted sum of terms, written as text.

    method  = summand { "+" summand }  |  preset
    summand = [ weight [ "*" ] ] name [ "(" option { "," option } ")" ]
    option  = name "=" value { "," value }

`skl + 2 mta.dsa + .2 mta.hid` and `kl(temperature=2) + mta(words=6, phrases=9,12)` are methods. Names are those of
`TERMS`, or of `ALIASES`, which stand for several terms and hand options on to those that have them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import reduce
from operator import or_
from typing import Any, NamedTuple, final, get_origin, get_type_hints

import torch
from torch import Tensor, nn

from ..support.typed import nearest, read_as
from .records import Aligned, Outputs, Shapes
from .terms import TERMS, Needs, Term

NUMBER = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
SUMMAND = re.compile(
    rf"\s*(?P<weight>-?{NUMBER})?\s*\*?\s*(?P<name>[A-Za-z][\w.\-]*)\s*(?:\((?P<options>[^()]*)\))?\s*(?P<end>\+|$)"
)
EXAMPLE = '"skl + 2 mta.dsa + .2 mta.hid"'


class Preset(NamedTuple):
    """A method with a name, and where its weights come from."""

    method: str
    source: str


ALIASES = {
    "mta": "2 mta.dsa + .2 mta.hid",
    "sra": ".6 ce + .4 sra.centre + 20 sra.geometry + .4 sra.vocabulary(temperature=2)",
}
"""Names that stand for several terms inside of a sum."""

PRESETS = {
    "distillm": Preset("skl(alpha=.1)", "DistiLLM, arXiv 2402.03898; without its sampling from the student"),
    "distillm-reverse": Preset("srkl(alpha=.1)", "DistiLLM, arXiv 2402.03898; without its sampling from the student"),
    "mta": Preset("skl + mta", "MTA on DistiLLM, arXiv 2605.01374, weights (2, .2)"),
    "mta-strong": Preset("skl + 3 mta.dsa + .3 mta.hid", "MTA on DistiLLM, arXiv 2605.01374, weights (3, .3)"),
    "sra": Preset("sra", "SRA, arXiv 2605.01205: alpha .6, lambda 50, temperature 2, as one port has them"),
    "uld-paper": Preset("ce + 1.5 uld", "ULD, arXiv 2402.12030; 1.5 as in the commands of its code"),
}
"""Names that stand for a whole method. They hold if nothing else is written: `mta` alone is `skl + mta`."""


class Summand(NamedTuple):
    """A term with its name and its weight."""

    weight: float
    name: str
    term: Term

    def __str__(self) -> str:
        changed = [
            f"{f.name}={spelt(getattr(self.term, f.name))}"
            for f in fields(self.term)  # pyright: ignore[reportArgumentType]
            if getattr(self.term, f.name) != f.default
        ]
        options = f"({', '.join(changed)})" if changed else ""
        return f"{'' if self.weight == 1 else f'{spelt(self.weight)} '}{self.name}{options}"


@final
@dataclass(frozen=True)
class Method:
    """A weighted sum of terms. `str` gives its canonical text, from which `parse_method` makes the same method."""

    summands: tuple[Summand, ...]

    def __str__(self) -> str:
        return " + ".join(map(str, self.summands))

    def needs(self, shapes: Shapes) -> Needs:
        """What has to be known of both models and their texts, and nothing else."""
        return reduce(or_, (one.term.needs(shapes) for one in self.summands), Needs())


@final
class MethodLoss(nn.Module):
    """A method for two models of given shapes, with the projectors that its terms train beside the student."""

    def __init__(self, method: Method, shapes: Shapes, seed: int = 0) -> None:
        super().__init__()
        method.needs(shapes)  # refuses layers that do not exist
        self.method = method
        self.names = unique([one.name for one in method.summands])
        source = torch.Generator().manual_seed(seed)
        made = {key: one.term.projectors(shapes, source) for key, one in zip(self.names, method.summands, strict=True)}
        self.projectors = nn.ModuleDict({module_key(key): nn.ModuleDict(dict(own)) for key, own in made.items() if own})

    def forward(self, teacher: Outputs, student: Outputs, aligned: Aligned) -> Tensor:
        """The loss, a 0-d tensor in float32 or better."""
        values = self.values(teacher, student, aligned)
        weighted = [one.weight * x for one, x in zip(self.method.summands, values.values(), strict=True)]
        return torch.stack(weighted).sum()

    def values(self, teacher: Outputs, student: Outputs, aligned: Aligned) -> dict[str, Tensor]:
        """Each term without its weight, by name; a second term of a name has a number."""
        return {
            key: one.term(teacher, student, aligned, self.own(key))
            for key, one in zip(self.names, self.method.summands, strict=True)
        }

    def own(self, key: str) -> Mapping[str, nn.Module]:
        """The projectors of one term."""
        name = module_key(key)
        return dict(self.projectors[name].named_children()) if name in self.projectors else {}


def module_key(name: str) -> str:
    """The name of a term as that of a module, which has no dots."""
    return name.replace(".", "_")


def unique(names: list[str]) -> list[str]:
    """The names, with a number after each that has occurred before."""
    earlier = [names[:i].count(name) for i, name in enumerate(names)]
    return [f"{name}_{n + 1}" if n else name for name, n in zip(names, earlier, strict=True)]


def parse_method(text: str) -> Method:
    """The method that the text describes."""
    preset = PRESETS.get(text.strip())
    found: dict[tuple[str, Term], float] = {}
    for summand in summands(preset.method if preset else text):
        key = summand.name, summand.term
        found[key] = rounded(found.get(key, 0.0) + summand.weight)
    return Method(tuple(Summand(weight, name, term) for (name, term), weight in found.items()))


def summands(text: str) -> list[Summand]:
    """The summands in the order in which they are written."""
    found: list[Summand] = []
    position, more = 0, True
    while more:
        match = SUMMAND.match(text, position)
        if match is None:
            raise fail(text, f"write terms with weights and plus signs, such as {EXAMPLE}; {listing()}")
        weight = float(match["weight"] or 1)
        if not 0 < weight < float("inf"):
            needed = "a finite one" if weight > 0 else "one above 0"
            raise fail(text, f"the weight of {match['name']} is {weight:g}: give {needed}, or leave the term out")
        found += expanded(text, weight, match["name"], read_options(text, match["options"] or ""))
        position, more = match.end(), match["end"] == "+"
    return found


def expanded(text: str, weight: float, name: str, options: dict[str, Any]) -> list[Summand]:
    """A summand as terms: one, or those of an alias with its weight and those of its options that each has."""
    if name not in ALIASES:
        return [Summand(weight, name, make(text, name, options))]
    inner, found = summands(ALIASES[name]), list[Summand]()
    check_options(text, name, options, sorted({option for one in inner for option in option_types(one.term)}))
    for one in inner:
        own = {option: getattr(one.term, option) for option in option_types(one.term)}
        own |= {option: value for option, value in options.items() if option in own}
        found.append(Summand(rounded(weight * one.weight), one.name, make(text, one.name, own)))
    return found


def make(text: str, name: str, options: dict[str, Any]) -> Term:
    """A term with its options, or an error that says what to type."""
    if name not in TERMS:
        raise fail(text, f'there is no term "{name}"{nearest(name, [*TERMS, *ALIASES], listing())}')
    kind = TERMS[name]
    types = option_types(kind)
    check_options(text, name, options, list(types))
    try:
        return kind(**{key: read_value(types[key], value, f"{name}.{key}") for key, value in options.items()})
    except ValueError as error:
        raise fail(text, str(error)) from None


def check_options(text: str, name: str, options: dict[str, Any], known: list[str]) -> None:
    """Refuse an option that a term or an alias does not have."""
    for option in options:
        if option not in known:
            has = f"it has {', '.join(known) or 'none'}"
            raise fail(text, f'{name} has no option "{option}"{nearest(option, known, has)}')


def option_types(kind: type[Term] | Term) -> dict[str, Any]:
    """The options of a term with their types: the fields of its dataclass."""
    hints = get_type_hints(kind if isinstance(kind, type) else type(kind))
    return {f.name: hints[f.name] for f in fields(kind)}  # pyright: ignore[reportArgumentType]


def read_value(kind: Any, value: Any, where: str) -> Any:
    """The value of an option as its type; one number may stand for a list."""
    if get_origin(kind) is tuple and not isinstance(value, list | tuple):
        value = [value]
    return read_as(kind, value, where)


def read_options(text: str, inside: str) -> dict[str, Any]:
    """The options between brackets: numbers, words, or lists of them. What has no name continues a list."""
    found: dict[str, list[Any]] = {}
    last = ""
    for piece in filter(None, (part.strip() for part in inside.split(","))):
        name, equals, value = (part.strip() for part in piece.rpartition("="))
        if (equals and name in found) or not (name or last) or not value:
            raise fail(text, f'write options as name=value, each once, such as "kl(temperature=2)", not "{piece}"')
        last = name or last
        number = re.fullmatch(rf"-?{NUMBER}", value)
        read = int if re.fullmatch(r"-?[0-9]+", value) else float if number else str
        found.setdefault(last, []).append(read(value))
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def spelt(value: Any) -> str:
    """A weight or an option as it is typed."""
    if isinstance(value, tuple):
        return ",".join(map(spelt, value))
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def rounded(weight: float) -> float:
    """A product or sum of decimal weights as one would write it: 3 times .2 is .6."""
    return float(f"{weight:.12g}")


def listing() -> str:
    return f"the terms are {', '.join(TERMS)}; {' and '.join(ALIASES)} stand for several"


def fail(text: str, what: str) -> ValueError:
    """An error of one line: the method as it was given, and what to write."""
    return ValueError(f'method "{" ".join(text.split())}": {what}')
