"""The letters of schemes: what each one stands for, how it is drawn, and how its field is made. No torch here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, Literal

from .support.registry import Registry


@dataclass(frozen=True)
class Letter:
    """A letter's title and colour, what its field can do, and the function that makes its field.

    `field` takes a `FieldSpec` and returns a module f(t, x, context) with a method flops(length, memory). It is a
    function or the path of one ("package.module:function"); None: no model has the field yet. `cache` says where the
    field's keys and values are kept during generation: nowhere, in the cache of the sequence itself, or in that of the
    encoder's states, which only a decoder has. `backwards`: it may run backwards in time. `exact`: its field solves its
    own equation, by a method flow(t, h, x, context). `branch`: a network around which there may be a residual
    connection; the others are terms that mean something as rates of change only. `documents`: its field must know which
    document a token is of, beyond what masks say. `normed`: its field is made of the norm that projections have.
    """

    title: str
    colour: str
    backwards: bool = True
    exact: bool = False
    branch: bool = True
    documents: bool = False
    normed: bool = False
    field: str | Callable[[Any], Any] | None = None
    cache: Literal["none", "self", "cross"] = "none"

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
        "A": Letter("attention", "#2f6db5", field="splitstep.fields.attention:SelfAttention", cache="self"),
        "F": Letter("feed-forward", "#c8641b", field="splitstep.fields.pointwise:FeedForward"),
        "C": Letter("cross-attention", "#2a8a57", field="splitstep.fields.attention:CrossAttention", cache="cross"),
        "D": Letter(
            "diffusion", "#7a4fb0", field="splitstep.fields.diffusion:diffusion", cache="self",
            backwards=False, exact=True, branch=False, documents=True,
        ),
        "S": Letter("stabiliser", "#a8323e", branch=False, normed=True, field="splitstep.fields.pointwise:Stabiliser"),
    },
)  # fmt: skip

UNKNOWN = Letter("field", "", exact=True)  # of one's own, used without a model: it may do everything


def letter_of(name: str) -> Letter:
    """The letter of a field's name."""
    return LETTERS.get(name[0], UNKNOWN)
