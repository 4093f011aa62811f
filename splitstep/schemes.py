"""The table of named schemes. A new scheme is one row."""

from .notation import read
from .scheme import Scheme, compose, with_tableau
from .support.registry import Registry
from .support.words import nearest
from .tableau import RK4

_STRANG = read("F/2 A F/2")
_YOSHIDA = 1 / (2 - 2 ** (1 / 3))
_SUZUKI = 1 / (4 - 4 ** (1 / 3))

SCHEMES: Registry[Scheme] = Registry("scheme", {
    "lie": read("A F"),  # Lie-Trotter: the pre-norm Transformer
    "lie-postnorm": read("A N F M"),  # the original Transformer
    "reverse-lie": read("F A"),
    "parallel": read("A+F"),  # GPT-J, GPT-NeoX, PaLM
    "strang": read("F/2 A F/2"),  # Strang-Marchuk with tied halves; Euler sub-flows leave it first order
    "strang-attention": read("A/2 F A/2"),
    "macaron": read("F0/2 A F1/2"),  # Macaron Net: Strang with own weights per half
    "macaron-postnorm": read("F0/2 N A M F1/2 P"),
    "conformer": read("F0/2 A V F1/2 N"),  # Macaron with a convolution, for speech
    "strang-midpoint": read("F/2 A F/2 @midpoint"),
    "strang-heun": read("F/2 A F/2 @heun"),
    "symmetrised-heun": read("1/2(A F) + 1/2(F A) @heun"),
    "ruth3": read("A*7/24 F*2/3 A*3/4 F*-2/3 A*-1/24 F @kutta3"),
    "yoshida4": with_tableau(compose(_STRANG, _YOSHIDA, 1 - 2 * _YOSHIDA, _YOSHIDA), RK4),
    "suzuki4": with_tableau(compose(_STRANG, _SUZUKI, _SUZUKI, 1 - 4 * _SUZUKI, _SUZUKI, _SUZUKI), RK4),
    "heun": read("A+F @heun"),
    "midpoint": read("A+F @midpoint"),
    "kutta3": read("A+F @kutta3"),
    "rk4": read("A+F @rk4"),
    "reversible": read("b:(A+F)/2 a:A+F b:(A+F)/2 @midpoint"),  # Strang kick-drift on a pair (a, b)
}, accept=lambda value: scheme(value))  # fmt: skip

NORMED = ("conformer",)  # rows whose fields have norms of their own beside a projection


def scheme(text: str | Scheme) -> Scheme:
    """The scheme of a row's name ("macaron") or of a notation ("F0/2 A F1/2")."""
    if isinstance(text, Scheme):
        return text
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f'A scheme is a text such as "A F", or a row\'s name such as macaron; got {text!r}.')
    name = text.strip()
    if name in SCHEMES:
        return SCHEMES[name]
    if (name[:1].islower() and name[1:2] != ":") or (name[:1].isupper() and name[1:2].islower()):
        hint = f"Did you mean {near}? " if (near := nearest(name.lower(), SCHEMES) or in_capitals(name)) else ""
        raise ValueError(f'Unknown scheme {name!r}. {hint}Rows: {", ".join(SCHEMES)}; or a notation: "F0/2 A F1/2".')
    return read(text)


def in_capitals(text: str) -> str | None:
    """The scheme that a notation in small letters means."""
    try:
        return f'"{read(text.upper())}"'
    except ValueError:
        return None


def normed(value: Scheme) -> bool:
    """Whether the fields of a scheme have norms of their own, if a config does not say where."""
    return not value.projections or any(value == SCHEMES[name] for name in NORMED)


class SchemeEntry:
    """An entry of a record that is a scheme: its text is read when it is given, and nowhere else."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, record: object | None, owner: type | None = None) -> Scheme:
        return SCHEMES["lie"] if record is None else vars(record)[self.name]

    def __set__(self, record: object, value: str | Scheme) -> None:
        vars(record)[self.name] = scheme(value)


def name_of(value: Scheme) -> str | None:
    """The name of the row that is this scheme, if there is one; packages that add rows are not imported for it."""
    return next((name for name, row in SCHEMES.known.items() if row == value), None)


def label(value: str | Scheme) -> str:
    """A scheme for humans: its row's name, else its notation."""
    return name_of(scheme(value)) or str(value)
