"""Does training install a depth gradient? The rule is in docs/theory/inspection.md, written before the runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...experiments.claims import Answer, Rule, all_of, decide, opposite
from ...experiments.statistics import Estimate, estimate
from ...probes.communities import spearman
from ...report.document import Verdict
from .result import Inspection, ModelFindings

COLLAPSED = 0.1  # the effective rank of the product over the width, below which it has collapsed
WIDE = 0.5  # that of a random network, above which it has not


class GradientPart(NamedTuple):
    """One part of the claim: the figures of the trained and of the random network, and what they decide."""

    name: str
    trained: Estimate | None
    random: Estimate | None
    decision: Answer


def by_layer(model: ModelFindings, probe: str, name: str) -> list[float]:
    """Spearman's correlation of a figure with the number of the layer, text by text."""
    found = model.find(probe, name)
    if found is None:
        return []
    layers = np.array(found.numbers, dtype=float)
    return [float(spearman(layers, np.array(row), permutations=1)[0]) for row in found.figures]


def last_rank(model: ModelFindings) -> list[float]:
    """The effective rank of the product of all Jacobians over the width, text by text."""
    found = model.find("products", "effective rank")
    return [] if found is None else [row[-1] / model.width for row in found.figures]


def gradient_part(name: str, trained: list[float], random: list[float], answer: Callable[..., Answer]) -> GradientPart:
    """Both networks' figures, and the answer to them and to their difference."""
    apart = [a - b for a, b in zip(trained, random, strict=False)]
    own, null, both = (estimate([x for x in values if math.isfinite(x)]) for values in (trained, random, apart))
    return GradientPart(name, own, null, answer(own, null, both))


def falls(own: Estimate | None, null: Estimate | None, both: Estimate | None) -> Answer:
    """A figure falls with depth, and more so than in the random network."""
    return all_of(opposite(decide(one, Rule(level_is="above"))) for one in (own, both))


def collapses(own: Estimate | None, null: Estimate | None, both: Estimate | None) -> Answer:
    """A product loses rank, while that of the random network does not."""
    collapsed = opposite(decide(own, Rule(COLLAPSED, level_is="above")))
    return all_of((collapsed, decide(null, Rule(WIDE, level_is="above"))))


def gradient_parts(result: Inspection) -> list[GradientPart]:
    """The three parts of the claim, or none if there is no null model."""
    if result.null is None:
        return []
    model, null = result.model, result.null
    falling = {"rotation falls with depth": "complex", "asymmetry falls with depth": "J asymmetry"}
    return [
        *(
            gradient_part(claim, by_layer(model, "jacobian", name), by_layer(null, "jacobian", name), falls)
            for claim, name in falling.items()
        ),
        gradient_part("the product loses rank", last_rank(model), last_rank(null), collapses),
    ]


def depth_gradient(result: Inspection) -> Verdict:
    """Whether training installs a depth gradient, by the rule."""
    parts = gradient_parts(result)
    if not parts:
        return Verdict("too few", "Depth gradient: not decided, since there is no null model beside the model.")
    claim, decision = "Training installs a depth gradient", all_of(one.decision for one in parts)
    why = "; ".join(f"{one.name}: {one.decision}{figures_text(one)}" for one in parts)
    lacking = all(one.trained is None or one.trained.low is None for one in parts)
    kind = "settled" if decision != "undecided" else "too few" if lacking else "open"
    return Verdict(kind, f"{claim}: {decision} ({why}).{advice(result) if lacking else ''}")


def figures_text(part: GradientPart) -> str:
    if part.trained is None or part.random is None:
        return ", not measured"
    return f", {shown(part.trained)} against {shown(part.random)} at random"


def shown(found: Estimate | None) -> str:
    if found is None:
        return ""
    ends = "" if found.low is None or found.high is None else f" [{found.low:.2f}, {found.high:.2f}]"
    return f"{found.mean:.2f}{ends}"


def advice(result: Inspection) -> str:
    """How to get an interval, if anything was measured."""
    if result.model.find("jacobian", "complex") is None:
        return ""
    add = "--spectra 8" if result.texts > 2 else "--texts 8 --spectra 8"
    return f" An interval needs 3 texts or more, and Jacobians were taken on {result.differentiated}: add {add}."
