"""splitstep: a Transformer is a splitting scheme."""

from .integrate import Event, Field, Site, Step, integrate, refine, uniform
from .scheme import Scheme, average, compose, decoder, unshare, with_tableau
from .schemes import SCHEMES, scheme
from .stack import Stack
from .tableau import TABLEAUX, Tableau

__all__ = [
    "SCHEMES", "TABLEAUX", "Event", "Field", "Scheme", "Site", "Stack", "Step", "Tableau",
    "average", "compose", "decoder", "integrate", "refine", "scheme", "uniform", "unshare", "with_tableau",
]  # fmt: skip
