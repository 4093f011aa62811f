"""The letters of schemes: what each one stands for, how it is drawn, and how its field is made. No torch here."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import inf, isfinite
from pkgutil import resolve_name
from typing import Any, Literal, NamedTuple

from .support.registry import Registry

State = Literal["nothing", "keys and values", "last inputs", "all inputs", "keys and values of the source"]
NormAt = Literal["before", "after", "both", "none"]  # f(norm(x)), norm(f(x)), norm(f(norm(x))), f(x)
LONGEST = 4096  # kernel of a convolution
START = {"start": True}  # of an option that says how weights start, and nothing about what they mean


@dataclass(frozen=True)
class NoOptions:
    """The options of a letter that has none."""


@dataclass(frozen=True)
class NetworkOptions:
    """Those of a network. `norm_at`: where it has norms; None: where the networks of the whole config have them."""

    norm_at: NormAt | None = None


@dataclass(frozen=True)
class AttentionOptions(NetworkOptions):
    """`bias_start` is the initial bias of all queries and keys: it makes rotary attention start local, with scores that
    fall with distance. `qk_norm` is the norm of each head's queries and keys, before they are turned."""

    bias_start: float = field(default=0.0, metadata=START)
    qk_norm: Literal["none", "layer", "rms"] = "none"

    def __post_init__(self) -> None:
        if not isfinite(self.bias_start):
            raise ValueError(f"option bias_start is {self.bias_start}, and needs a finite number")


@dataclass(frozen=True)
class DiffusionOptions:
    """`alpha` is the coefficient at the start; `boundary` says what happens at the ends of a document, in models that
    look both ways."""

    alpha: float = 0.1
    boundary: Literal["reflecting", "fixed"] = "reflecting"

    def __post_init__(self) -> None:
        check_positive("alpha", self.alpha)


@dataclass(frozen=True)
class ConvolutionOptions(NetworkOptions):
    """`kernel` is the number of taps, on images along each axis; `norm` is that between the convolution and SiLU;
    `window`: whether the taps lie on both sides of a token or, as always in causal models, before it."""

    kernel: int = 7
    window: Literal["centred", "causal"] = "centred"
    norm: Literal["layer", "rms", "tanh", "none"] = "layer"

    def __post_init__(self) -> None:
        if not 1 <= self.kernel <= LONGEST:
            raise ValueError(f"option kernel is {self.kernel}, and needs a whole number from 1 to {LONGEST:,}")


@dataclass(frozen=True)
class StabiliserOptions:
    """`gamma` is the rate at which the state is pulled towards its norm."""

    gamma: float = 1.0

    def __post_init__(self) -> None:
        check_positive("gamma", self.gamma)


def check_positive(name: str, value: float) -> None:
    """Refuse an option that is no positive number."""
    if not 0 < value < inf:
        raise ValueError(f"option {name} is {value}, and needs a positive number")


class Place(NamedTuple):
    """Where a field stands: the shape of its network, the scheme of its stack, whether that looks back only, its name
    and its options."""

    shape: Any
    scheme: Any
    causal: bool
    name: str
    options: Any


@dataclass(frozen=True)
class Letter:
    """A letter's title and colour, what its field is and can do, and the function that makes its field.

    `field` takes a `FieldSpec` and returns a module f(t, x, context) with a method flops(length, memory). It is a
    function or the path of one ("package.module:function"); None: no model has the field yet. `options` is a frozen
    dataclass of what one may choose; the field finds them in `FieldSpec.options`. `check` refuses, with a `ValueError`,
    what does not fit a `Place`; it is a function or a path, too.

    `mixes`: a token's rate of change depends on other tokens of its text. `pure`: the same state gives the same rate
    again, however often the field is evaluated. `state`: what each evaluation keeps of earlier tokens while a text is
    generated; only a decoder has a source. `documents`: the field must know which document a token is of, beyond what
    masks say. `inner`: it has an inner width and an activation, `ffn` and `activation` of the config.

    `backwards`: it may run backwards in time. `exact`: its field solves its own equation, by a method
    flow(t, h, x, context). `branch`: a network around which there may be a residual connection; the others are terms
    that mean something as rates of change only.
    """

    title: str
    colour: str
    backwards: bool = True
    exact: bool = False
    branch: bool = True
    documents: bool = False
    mixes: bool = False
    pure: bool = True
    state: State = "nothing"
    options: type = NoOptions
    field: str | Callable[[Any], Any] | None = None
    check: str | Callable[[Place], None] | None = None
    inner: bool = False

    @property
    def cache(self) -> Literal["none", "self", "cross"]:
        """Which cache keeps the state: none, that of the sequence itself, or that of the source."""
        if self.state == "nothing":
            return "none"
        return "cross" if self.state == "keys and values of the source" else "self"

    @property
    def free(self) -> bool:
        """Whether any scheme may use it: models have its field, and it is not one that only decoders add."""
        return self.field is not None and self.cache != "cross"

    def make(self, spec: Any) -> Any:
        """The field that this `FieldSpec` describes."""
        assert self.field is not None, f"configs refuse {self.title}"
        return found(self.field)(spec)

    def refuse_misfit(self, place: Place) -> None:
        """Raise an error if the field cannot stand there."""
        if self.check is not None:
            found(self.check)(place)


def found(path: str | Callable[..., Any]) -> Callable[..., Any]:
    """A function, or the one at this path."""
    return resolve_name(path) if isinstance(path, str) else path


def check_bias_start(place: Place) -> None:
    """Refuse an initial bias where attention is not rotary or has no biases."""
    if place.options.bias_start and not (place.shape.positions == "rotary" and place.shape.bias):
        raise ValueError(
            f"letters.{place.name}.bias_start={place.options.bias_start} is the initial bias of rotary attention: use "
            "it with positions=rotary and bias=true."
        )


def check_window(place: Place) -> None:
    """Refuse a centred window without a middle, and a causal one on images."""
    kernel, name, causal = place.options.kernel, place.name, place.options.window == "causal"
    if causal and place.shape.grid is not None:
        raise ValueError(f"letters.{name}.window=causal has no meaning on images: use centred.")
    if not place.causal and not causal and kernel % 2 == 0:
        raise ValueError(
            f"letters.{name}.kernel={kernel} is even, and {name} looks both ways here: use an odd number, such as "
            f"{kernel + 1}."
        )


def check_norm(place: Place) -> None:
    """Refuse a stabiliser without a norm."""
    if place.shape.norm == "none":
        raise ValueError(
            f"The stabiliser {place.name} of {str(place.scheme)!r} pulls towards the norm of the state, and "
            f"norm='none': use norm=layer or norm=rms, or a scheme without {place.name}."
        )


LETTERS: Registry[Letter] = Registry(
    "letter",
    {
        "A": Letter(
            "attention", "#2f6db5", field="splitstep.fields.attention:SelfAttention",
            mixes=True, state="keys and values", options=AttentionOptions, check=check_bias_start,
        ),
        "F": Letter(
            "feed-forward", "#b85a17", field="splitstep.fields.pointwise:FeedForward", inner=True,
            options=NetworkOptions,
        ),
        "C": Letter(
            "cross-attention", "#27804f", field="splitstep.fields.attention:CrossAttention",
            state="keys and values of the source", options=NetworkOptions,
        ),
        "V": Letter(
            "convolution", "#17818f", field="splitstep.fields.convolution:Convolution", documents=True, mixes=True,
            state="last inputs", options=ConvolutionOptions, check=check_window,  # caches keep all, to be cropped
        ),
        "D": Letter(
            "diffusion", "#7a4fb0", field="splitstep.fields.diffusion:diffusion",
            backwards=False, exact=True, branch=False, documents=True, mixes=True, state="all inputs",
            options=DiffusionOptions, check="splitstep.stability:check_diffusion",
        ),
        "S": Letter(
            "stabiliser", "#a8323e", field="splitstep.fields.pointwise:Stabiliser",
            branch=False, options=StabiliserOptions, check=check_norm,
        ),
    },
)  # fmt: skip

OWN = frozenset(LETTERS.own)  # the package's own letters

UNKNOWN = Letter("field", "", exact=True)  # of one's own, used without a model: it may do everything


def letter_of(name: str) -> Letter:
    """The letter of a field's name."""
    return LETTERS.get(name[0], UNKNOWN)


def foreign(names: Iterable[str]) -> list[str]:
    """The names among these whose letters are somebody else's."""
    return [name for name in names if name[0] not in OWN]
