"""The names of what a model shows: what a term of a distillation needs, what a cache holds, what a pass has found."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Literal, NamedTuple

from ..integrate import Event, Time
from ..scheme import Scheme

ONCE = ("logits", "ids", "masses", "final", "output")
PLACED: Mapping[str, Callable[[str], float]] = {"states": int, "weights": int, "tail": float}


class Key(NamedTuple):
    """One thing that a model shows: `states.3`, `weights.3`, `logits`, `tail.2`.

    `at` is the layer after which a state is taken, or the temperature of a tail; what there is once has none.
    """

    what: str
    at: float | None = None

    def __str__(self) -> str:
        return self.what if self.at is None else f"{self.what}.{self.at:g}"

    @staticmethod
    def read(text: str) -> "Key":
        """The key that is written like this."""
        if text in ONCE:
            return Key(text)
        what, _, at = text.partition(".")
        with suppress(KeyError, ValueError):
            if str(key := Key(what, PLACED[what](at))) == text:
                return key
        raise ValueError(f'there is no key "{text}": write one of {", ".join(ONCE)}, states.3, weights.3 or tail.2')


def places(what: str, keys: Iterable[Key]) -> list[float]:
    """Where something is needed, in order: the layers of states, say."""
    return sorted({key.at for key in keys if key.what == what and key.at is not None})


class StateName(NamedTuple):
    """A state of the residual stream by the name that is usual for it."""

    name: str  # resid_pre, resid_mid or resid_post; the states of longer blocks are resid_mid.1, resid_mid.2, ..
    layer: int
    t: Time


def state_name(
    event: Event, scheme: Scheme, side: Literal["before", "after"] = "before", substeps: int = 1
) -> StateName:
    """The name of the state before or after a part: resid_pre at the start of a layer, resid_post at its end."""
    parts = len(scheme.plan[event.site.branch][1])
    layer, substep = divmod(event.site.step, substeps)
    number, last = event.site.part + (side == "after") + substep * parts, substeps * parts
    name = {0: "resid_pre", last: "resid_post"}.get(number, "resid_mid" if last == 2 else f"resid_mid.{number}")
    return StateName(name, layer, event.t if side == "before" else event.t + event.h)
