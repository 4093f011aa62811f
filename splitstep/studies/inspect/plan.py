"""What is measured of a model, and on how many texts: in three depths, of which each adds to the one before."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ...probes import PROBES
from ...probes.layer_maps import LayerBlocks

DEFAULT = ("trajectory", "drift", "clustering", "rank", "cka_layers", "attention", "rollout", "lens")
DEEP = ("commutator", "jacobian", "products", "leading", "communities")
NOT_OF_NULL = ("lens", "communities", "leading")  # what a null model has no curve of: it takes long and says nothing
DIFFERENTIATED = 4  # texts for probes with derivatives: the rotation part of the verdict needs four
PATHS = 4  # texts whose tokens the page shows as particles
TRIED = 8  # texts on which layers are left out
OTHERS = 24  # texts at most on which a list of layers is tried that others chose
FEWER_OF_NULL = {"commutator": 1}  # what its curves need; the verdict rests on Jacobians alone
FEWER = {"lens": 4, "paths": PATHS, "leading": 3}  # texts that a probe looks at if a text takes it long
LAYER = re.compile("[0-9]{1,5}")


@dataclass(frozen=True)
class Plan:
    """Probes by name, if they are not the usual ones; on how many texts those with derivatives look; the layers that
    are listed, saved and left out; where states are saved; how many layers are to go together; whether layers are
    differentiated."""

    probes: tuple[str, ...] = ()
    differentiated: int = DIFFERENTIATED
    layers: tuple[int, ...] | None = None  # None: all
    states: Path | None = None
    cut: int = 0
    deep: bool = False

    @cached_property
    def named(self) -> tuple[str, ...]:
        """All probes."""
        return tuple(dict.fromkeys((*(self.probes or DEFAULT), *(DEEP if self.deep else ()))))

    @cached_property
    def closer(self) -> tuple[str, ...]:
        """The probes that differentiate layers."""
        return tuple(name for name in self.named if isinstance(PROBES.find(name)(), LayerBlocks))

    @cached_property
    def light(self) -> tuple[str, ...]:
        """The probes of a single pass."""
        return tuple(name for name in self.named if name not in self.closer)


def read_plan(
    probes: Sequence[str], spectra: int | None, layers: str | None, cut: int | None, deep: bool, states: Path | None
) -> Plan:
    """What a person asked for: names of probes, numbers of texts and of layers, layers such as 0,4-7."""
    for name, value in (("spectra", spectra), ("cut", cut)):
        if value is not None and value < 1:
            raise ValueError(f"--{name} {value}: give at least 1")
    chosen = None if layers is None else read_layers(layers)
    for name in probes:
        if PROBES.find(name)().gradients:
            raise ValueError(f'probe "{name}" differentiates the loss, which inspect does not do: leave it out')
    return Plan(tuple(dict.fromkeys(probes)), spectra or DIFFERENTIATED, chosen, states, cut or 0, deep)


def read_layers(text: str) -> tuple[int, ...]:
    """The numbers of layers in a list such as 0,4-7."""
    found = set[int]()
    for part in text.split(","):
        first, dash, last = (one.strip() for one in part.partition("-"))
        ends = (first, last if dash else first)
        if not all(LAYER.fullmatch(one) for one in ends) or int(ends[0]) > int(ends[1]):
            raise ValueError(f"--layers {text!r}: {part.strip()!r} is not a layer; write numbers from 0, as in 0,4-7")
        found |= set(range(int(ends[0]), int(ends[1]) + 1))
    return tuple(sorted(found))
