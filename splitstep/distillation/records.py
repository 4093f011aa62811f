"""What the two models of a distillation show, and how their texts align.

Letters of shapes: B texts, T tokens, S spans, V vocabulary, K largest logits, d width. T, V and d may differ
between the two models.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar, final

import torch
from torch import Tensor

from ..flows.keys import ONCE, Key, places
from ..kernels.softmax import wide

Kind = TypeVar("Kind")


class Spans(NamedTuple):
    """Stretches of text that both models read: half-open ranges of tokens, padded to S a text.

    teacher, student: integers [B, S, 2], the first token and the one after the last. mask: booleans [B, S], false where
    a row is padding.
    """

    teacher: Tensor
    student: Tensor
    mask: Tensor

    def at_most(self, limit: int) -> "Spans":
        """The first `limit` spans of each text."""
        if self.mask.shape[1] <= limit:
            return self
        kept = torch.argsort(~self.mask, dim=1, stable=True)[:, :limit]
        ranges = kept[..., None].expand(-1, -1, 2)
        return Spans(self.teacher.gather(1, ranges), self.student.gather(1, ranges), self.mask.gather(1, kept))


@final
@dataclass(frozen=True)
class TopK:
    """The K largest logits of each token, and the rest of the vocabulary as one class, the tail.

    logits: [..., K], all shifted by one number per token; ids: [..., K]; tails: for each temperature t, [..., 1] the
    log of the sum of exp(logit / t) over the rest, shifted by that number over t. The shift of `top_k` makes `logits`
    and `tails[1]` log probabilities, which half precision holds well.
    """

    logits: Tensor
    ids: Tensor
    tails: Mapping[float, Tensor]

    def tail(self, temperature: float) -> Tensor:
        if temperature not in self.tails:
            known = ", ".join(f"{t:g}" for t in self.tails)
            raise ValueError(
                f"The teacher's tail is known at temperature {known}, but a term needs {temperature:g}: "
                "write the teacher's cache again for this method."
            )
        return self.tails[temperature]

    def logs(self, temperature: float) -> Tensor:
        """The log probabilities of the K + 1 classes, [..., K + 1]. They sum to 1 even if they were rounded."""
        tail = wide(self.tail(temperature))
        return torch.cat((wide(self.logits) / temperature, tail), -1).log_softmax(-1)


Distribution = Tensor | TopK


def top_k(logits: Tensor, k: int, temperatures: tuple[float, ...] = (1.0,)) -> TopK:
    """The `k` largest of the logits [..., V] and the tail's mass at these temperatures."""
    if not 0 < k < logits.shape[-1]:
        raise ValueError(f"{k} largest logits of {logits.shape[-1]}: keep at least 1, and fewer than there are.")
    exact = wide(logits)
    shift = exact.logsumexp(-1, keepdim=True)
    ids = exact.topk(k, -1).indices
    rest = exact.scatter(-1, ids, -torch.inf) - shift
    tails = {t: (rest / t).logsumexp(-1, keepdim=True) for t in temperatures}
    return TopK(exact.gather(-1, ids) - shift, ids, tails)


def each(change: Callable[[Tensor], Tensor], given: Distribution) -> Distribution:
    """A distribution with its leading dimensions changed alike in all of its tensors."""
    if isinstance(given, Tensor):
        return change(given)
    return TopK(change(given.logits), change(given.ids), {t: change(tail) for t, tail in given.tails.items()})


LOGITS, IDS, MASSES, FINAL, OUTPUT = map(Key, ONCE)


@final
@dataclass(frozen=True, eq=False)
class Outputs:
    """What one model shows of a batch of texts: only what the method needs is there. One is equal to itself only.

    real: booleans [B, T], false at padding. layers: how many layers the model has. shown: `logits` [B, T, V], or of a
    cache the K largest with their `ids` and the rest as `tail.t`, t the temperature. `states.l`: the state after layer
    l = 1 .. layers, before the final norm, [B, T, d]. `weights.l`: MTA's token weights at such a layer, [B, T]; they
    are computed from the states if they are missing. `masses`: SRA's token masses, [B, T]. `final`: the states after
    the final norm, [B, T, d]. `output`: the output matrix, [V, d].
    """

    real: Tensor
    layers: int = 0
    shown: Mapping[Key, Tensor] = field(default_factory=dict)
    shared: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    def __getitem__(self, key: Key) -> Tensor:
        """What a term has declared, so that it must be there."""
        assert key in self.shown, f"the method needs {key}"
        return self.shown[key]

    @property
    def logits(self) -> Distribution:
        """All logits, or the largest and the rest as one class."""
        if IDS not in self.shown:
            return self[LOGITS]
        tails = {at: self[Key("tail", at)] for at in places("tail", self.shown)}
        return TopK(self[LOGITS], self[IDS], tails)

    def once(self, key: Hashable, make: Callable[[], Kind]) -> Kind:
        """What `make` returns, computed once for all terms that ask for it with this key in a pass."""
        if key not in self.shared:
            self.shared[key] = make()
        return self.shared[key]


SpanKind = Literal["aligned", "words", "phrases"]


@final
@dataclass(frozen=True, eq=False)
class Aligned:
    """How the texts of a batch align, and what is scored. One is equal to itself only.

    labels: the student's tokens [B, T], -100 outside of the answer, as Hugging Face has them: position t predicts token
    t + 1. teacher_labels: the same of the teacher, if it has other tokens. spans: by kind. vocabulary: ids [P, 2] of
    the tokens that teacher and student share. items, rows: how many tokens and texts the whole batch has, if this is a
    part of it.
    """

    labels: Tensor
    teacher_labels: Tensor | None = None
    spans: Mapping[SpanKind, Spans] = field(default_factory=dict)
    vocabulary: Tensor | None = None
    items: Tensor | int | None = None
    rows: Tensor | int | None = None


class Shape(NamedTuple):
    """The shape of a model, as far as terms depend on it."""

    layers: int
    width: int


class Shapes(NamedTuple):
    """The shapes of the two models of a distillation."""

    teacher: Shape
    student: Shape
