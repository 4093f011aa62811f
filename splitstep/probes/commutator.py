"""Do attention and the feed-forward network commute? If they did, splitting would cost nothing."""

from collections.abc import Mapping
from functools import reduce
from itertools import combinations
from math import nan
from typing import Any, final

import torch
from torch import Tensor

from ..integrate import Field, Step, integrate, refine
from ..scheme import Project, Scheme
from .layer_maps import Layer, LayerBlocks, differentiable
from .probe import Figures, Pass, over_texts
from .splitting import SUM, added_up, products_of, shares

SUBSTEPS = 4  # of rk4, for a flow over a whole layer


@final
class Commutators(LayerBlocks):
    """[A, F] = F'(x) A(x) - A'(x) F(x) at the state x before each layer, and what splitting costs there.

    "A F": |[A, F]| / (|F' A| + |A' F|), between 0 and 1, and so for each pair of letters; fields of one letter are
    summed with their fractions. "A F step": h / 2 |[A, F]| / |sum of the fields|, the leading term of the local error
    of Lie-Trotter splitting, relative to how far a layer moves. "lie" and "strang": the local splitting error
    |split - exact| / |exact - x| over the layer itself, of the letters one after the other and of its symmetric form
    (A/2 F A/2), in the scheme's order, flows by rk4, 4 steps for a whole layer; "reference": the distance of "exact"
    from that with half the steps, which says how far to trust both. Norms over the real tokens of a text; means over 2
    texts, with their spread.

    None of this is defined if parts are summed (parallel), project (post-norm) or replace the state, nor for a doubled
    state: then there is one series, "not defined", with nan for each layer.
    """

    def figures(self, passed: Pass) -> Figures:
        layers, real = self.layers(passed), self.real(passed)
        if not splits(passed.stack.scheme):
            return {"not defined": (nan,) * len(layers)}
        found: dict[str, list[Tensor]] = {}
        with differentiable(layers[0].x):
            for layer in layers:
                fields = by_letter(layer)
                for name, value in (pair_terms(layer, fields, real) | local_errors(layer, fields, real)).items():
                    found.setdefault(name, []).append(value)
        return {k: v for name, values in found.items() for k, v in over_texts(name, torch.stack(values)).items()}


def splits(scheme: Scheme) -> bool:
    """Whether a scheme advances its letters one after the other, and does nothing else."""
    parts = [part for _, program in scheme.branches for part in program]
    plain = not (scheme.doubled or scheme.replaces or any(isinstance(part, Project) for part in parts))
    return plain and len(letters(scheme)) > 1 and all(len(part.fields) == 1 for _, part in scheme.substeps)


def letters(scheme: Scheme) -> list[str]:
    """The letters of a scheme in the order in which they first act."""
    return list(dict.fromkeys(part.fields[0][0] for _, part in scheme.substeps))


def by_letter(layer: Layer) -> dict[str, Field]:
    """One field for each letter: A, or F = F0/2 + F1/2. What it is at the layer's own state is worked out once."""
    own, found = layer.steps[0].fields, dict[str, Field]()
    for letter in letters(layer.scheme):
        terms = [(share, own[name]) for name, share in shares(layer.scheme).items() if name.startswith(letter)]
        found[letter] = known_at(layer.x, added_up(terms))
    return found


def known_at(start: Tensor, field: Field) -> Field:
    """The field, which keeps its value at the state where a layer begins: many flows begin there."""
    kept: list[Tensor] = []

    def known(t: Any, x: Tensor, context: Any) -> Tensor:
        if x is not start:
            return field(t, x, context)
        if not kept:
            kept.append(field(t, x, context))
        return kept[0]

    return known


def norms(x: Tensor, real: Tensor | None) -> Tensor:
    """The norm [B] of each text of x [B, T, width], without padding."""
    kept = x if real is None else torch.where(real[..., None], x, 0)
    return torch.linalg.vector_norm(kept.double(), dim=(1, 2))


def pair_terms(layer: Layer, fields: Mapping[str, Field], real: Tensor | None) -> dict[str, Tensor]:
    """The commutators of all pairs of letters, both ways relative, [B] each."""
    t = layer.steps[0].t
    moved = norms(sum((f(t, layer.x, layer.context) for f in fields.values()), torch.zeros_like(layer.x)), real)
    out: dict[str, Tensor] = {}
    for f, g in combinations(fields, 2):
        one, other = products_of(fields[f], fields[g], t, layer.x, layer.context)
        size = norms(one - other, real)
        out[f"{f} {g}"] = size / (norms(one, real) + norms(other, real))
        out[f"{f} {g} step"] = layer.h / 2 * size / moved
    return out


def local_errors(layer: Layer, fields: Mapping[str, Field], real: Tensor | None) -> dict[str, Tensor]:
    """The local splitting errors of Lie-Trotter and Strang splitting, [B] each. Both begin with the first letter's flow
    over half the layer, which is worked out once."""
    first, *middle, last = fields.values()
    whole = added_up([(1.0, field) for field in fields.values()])
    half, rest = flow(layer, layer.x, first, 0.0, 0.5), (first, 0.5, 0.5)
    there, back = ([(field, begin, 0.5) for field in middle] for begin in (0.0, 0.5))
    parts = {
        "lie": [rest, *((field, 0.0, 1.0) for field in (*middle, last))],
        "strang": [*there, (last, 0.0, 1.0), *reversed(back), rest],
    }
    exact, rough = (flow(layer, layer.x, whole, n=n) for n in (SUBSTEPS, SUBSTEPS // 2))
    ends = {name: reduce(lambda x, part: flow(layer, x, *part), path, half) for name, path in parts.items()}
    moved = norms(exact - layer.x, real)
    return {name: norms(end - exact, real) / moved for name, end in (ends | {"reference": rough}).items()}


def flow(layer: Layer, x: Tensor, field: Field, begin: float = 0.0, share: float = 1.0, n: int = SUBSTEPS) -> Tensor:
    """The flow of one field over a share of a layer from where it begins, by rk4 with n steps for the whole layer."""
    step = Step({"F": field}, layer.steps[0].t + begin * layer.h, share * layer.h)
    return integrate(SUM, refine([step], round(n * share)), x, layer.context)
