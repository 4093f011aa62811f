"""What the sentences about a model rest on: figures text by text, as records that are read back as they were written.

A change is that of the loss in nats for each prediction or, of a model without a loss, |y' - y| / |y| of its output.
"""

from typing import Literal, NamedTuple

from ...support.typed import Figure

Figures = tuple[Figure, ...]  # one of each text


class Health(NamedTuple):
    """`not_finite`: tensors and states with entries that are not finite; `idle`: layers that change no state; `guess`:
    the loss of a uniform guess, if there is such a guess; `bits`: bits for each byte of a text, if it is text."""

    not_finite: tuple[str, ...]
    idle: tuple[int, ...]
    guess: Figure | None
    bits: Figures


class Half(NamedTuple):
    """A half-step that was left out: the field `letter` of a layer."""

    layer: int
    letter: str
    changes: Figures


class CutList(NamedTuple):
    """Layers that were left out together: in the order in which they were chosen, the texts that chose them, and what
    leaving out the first k of them costs on other texts: changes[k - 1][text]. `ties`: numbers k at which another
    layer could have been chosen as well."""

    how: Literal["greedy", "single"]  # one after the other, or by what each costs alone
    layers: tuple[int, ...]
    chosen_on: int  # texts
    changes: tuple[Figures, ...]
    ties: tuple[int, ...] = ()


class Coordinate(NamedTuple):
    """A coordinate of the state that holds much of the squared norm: its share in the state where that is largest, with
    and without the first token, text by text."""

    coordinate: int
    state: int
    shares: Figures
    without_first: Figures


class Held(NamedTuple):
    """Coordinates that were held still in every state: at their mean over other texts, or at zero."""

    coordinates: tuple[int, ...]
    at: Literal["mean", "zero"]
    changes: Figures


class Swapped(NamedTuple):
    """A layer that was replaced by the same layer of another model."""

    layer: int
    changes: Figures


class Evidence(NamedTuple):
    """All of it for one model. What was not measured is empty."""

    health: Health | None = None
    halves: tuple[Half, ...] = ()
    cuts: tuple[CutList, ...] = ()
    coordinates: tuple[Coordinate, ...] = ()
    held: tuple[Held, ...] = ()
    swapped: tuple[Swapped, ...] = ()
    divergence: Figures = ()  # KL of the other model's predictions from this one's, in nats for each token
