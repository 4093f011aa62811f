"""Hidden states and attention weights of a pass, as Hugging Face counts them."""

from __future__ import annotations

from torch import Tensor

from ..fields.context import Record
from ..integrate import Event, Observe
from .config import SplitstepConfig


class Watch:
    """Keeps hidden states and attention weights of one stack, if wanted.

    Hidden states are those at the start of every layer, and the last one; of a doubled state, the mean of the halves,
    as at the end of a stack. Attention weights are those of every evaluation, in order: several in a layer if the
    scheme evaluates attention several times. It holds no method of its own, which would keep it, and all states with
    their graph, in memory until the garbage collector runs.
    """

    def __init__(
        self, config: SplitstepConfig, inner: Observe | None, hidden: bool | None, attentions: bool | None = None
    ) -> None:
        self.kept: list[Tensor] | None = [] if (config.output_hidden_states if hidden is None else hidden) else None
        looks = config.output_attentions if attentions is None else attentions
        self.weights: dict[str, list[Tensor]] | None = {"own": [], "cross": []} if looks else None
        self.inner, self.substeps = inner, config.substeps

    @property
    def observe(self) -> Observe | None:
        return self.inner if self.kept is None and self.weights is None else self.see

    @property
    def record(self) -> Record | None:
        return None if self.weights is None else self.look

    def see(self, event: Event) -> None:
        if self.kept is not None and event.site[1:] == (0, 0, 0) and event.site.step % self.substeps == 0:
            self.kept.append(event.before)
        if self.inner is not None:
            self.inner(event)

    def look(self, whose: str, weights: Tensor) -> None:
        assert self.weights is not None
        self.weights[whose].append(weights)

    def states(self, last: Tensor) -> tuple[Tensor, ...] | None:
        return None if self.kept is None else (*self.kept, last)

    def attentions(self, whose: str = "own") -> tuple[Tensor, ...] | None:
        """The weights [B, heads, T, S] of every evaluation, of tokens on their "own" sequence or "cross" on another."""
        return None if self.weights is None else tuple(self.weights[whose])
