"""The letters of schemes: what each one stands for, how it is drawn, and how its field is made. No torch here."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, Literal

from .support.registry import Registry

State = Literal["nothing", "keys and values", "last inputs", "all inputs", "keys and values of the source"]


@dataclass(frozen=True)
class NoOptions:
    """The options of a letter that has none."""


NO_OPTIONS = NoOptions()


@dataclass(frozen=True)
class Letter:
    """A letter's title and colour, what its field is and can do, and the function that makes its field.

    `field` takes a `FieldSpec` and returns a module f(t, x, context) with a method flops(length, memory). It is a
    function or the path of one ("package.module:function"); None: no model has the field yet. `options` is a frozen
    dataclass of what one may choose; the field finds them in `FieldSpec.options`.

    `mixes`: a token's rate of change depends on other tokens of its text. `pure`: the same state gives the same rate
    again, however often the field is evaluated. `state`: what each evaluation keeps of earlier tokens while a text is
    generated; only a decoder has a source. `documents`: the field must know which document a token is of, beyond what
    masks say.

    `backwards`: it may run backwards in time. `exact`: its field solves its own equation, by a method
    flow(t, h, x, context). `branch`: a network around which there may be a residual connection; the others are terms
    that mean something as rates of change only. `normed`: its field is made of the norm that projections have.
    """

    title: str
    colour: str
    backwards: bool = True
    exact: bool = False
    branch: bool = True
    documents: bool = False
    normed: bool = False
    mixes: bool = False
    pure: bool = True
    state: State = "nothing"
    options: type = NoOptions
    field: str | Callable[[Any], Any] | None = None

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
        function = resolve_name(self.field) if isinstance(self.field, str) else self.field
        return function(spec)


LETTERS: Registry[Letter] = Registry(
    "letter",
    {
        "A": Letter(
            "attention", "#2f6db5", field="splitstep.fields.attention:SelfAttention",
            mixes=True, state="keys and values",
        ),
        "F": Letter("feed-forward", "#c8641b", field="splitstep.fields.pointwise:FeedForward"),
        "C": Letter(
            "cross-attention", "#2a8a57", field="splitstep.fields.attention:CrossAttention",
            state="keys and values of the source",
        ),
        "D": Letter(
            "diffusion", "#7a4fb0", field="splitstep.fields.diffusion:diffusion",
            backwards=False, exact=True, branch=False, documents=True, mixes=True, state="all inputs",
        ),
        "S": Letter("stabiliser", "#a8323e", branch=False, normed=True, field="splitstep.fields.pointwise:Stabiliser"),
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
