"""Do attention and the feed-forward network commute? If they did, splitting would cost nothing."""

from collections.abc import Mapping
from itertools import combinations
from math import nan
from typing import Any, final

import torch
from torch import Tensor

from ..integrate import Field, Step, integrate, refine
from ..scheme import Project, Scheme
from ..schemes import scheme as scheme_of
from .layer_maps import Layer, LayerBlocks, differentiable
from .probe import Figures, Pass, over_texts
from .splitting import SUM, products_of, shares, summed, with_exact_parts

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
                for name, value in (pair_terms(layer, real) | local_errors(layer, real)).items():
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


def by_letter(scheme: Scheme, step: Step) -> dict[str, Field]:
    """One field for each letter: A, or F = F0/2 + F1/2."""

    def total(letter: str) -> Field:
        terms = [(share, step.fields[name]) for name, share in shares(scheme).items() if name.startswith(letter)]

        def field(t: Any, x: Tensor, context: Any) -> Tensor:
            return sum((share * one(t, x, context) for share, one in terms), torch.zeros_like(x))

        return field

    return {letter: total(letter) for letter in letters(scheme)}


def norms(x: Tensor, real: Tensor | None) -> Tensor:
    """The norm [B] of each text of x [B, T, width], without padding."""
    kept = x if real is None else torch.where(real[..., None], x, 0)
    return torch.linalg.vector_norm(kept.double(), dim=(1, 2))


def pair_terms(layer: Layer, real: Tensor | None) -> dict[str, Tensor]:
    """The commutators of all pairs of letters, both ways relative, [B] each."""
    fields, t = by_letter(layer.scheme, layer.steps[0]), layer.steps[0].t
    moved = norms(sum((f(t, layer.x, layer.context) for f in fields.values()), torch.zeros_like(layer.x)), real)
    out: dict[str, Tensor] = {}
    for f, g in combinations(fields, 2):
        one, other = products_of(fields[f], fields[g], t, layer.x, layer.context)
        size = norms(one - other, real)
        out[f"{f} {g}"] = size / (norms(one, real) + norms(other, real))
        out[f"{f} {g} step"] = layer.h / 2 * size / moved
    return out


def local_errors(layer: Layer, real: Tensor | None) -> dict[str, Tensor]:
    """The local splitting errors of Lie-Trotter and Strang splitting, [B] each."""
    fields: Mapping[str, Field] = by_letter(layer.scheme, layer.steps[0])
    names, t = list(fields), layer.steps[0].t
    whole, one = Step(summed(layer.scheme, layer.steps[0]), t, layer.h), Step(fields, t, layer.h)
    halves = [f"{name}/2" for name in names[:-1]]
    forms = {"lie": " ".join(names), "strang": " ".join((*halves, names[-1], *reversed(halves)))}
    exact, rough = (integrate(SUM, refine([whole], n), layer.x, layer.context) for n in (SUBSTEPS, SUBSTEPS // 2))
    moved = norms(exact - layer.x, real)
    ends = {name: with_exact_parts(scheme_of(text), SUBSTEPS) for name, text in forms.items()}
    found = {name: integrate(scheme, [one], layer.x, layer.context) - exact for name, scheme in ends.items()}
    return {name: norms(y, real) / moved for name, y in (found | {"reference": rough - exact}).items()}
