"""Does training install a depth gradient? The rule is in docs/theory/inspection.md, written before the runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from ...experiments.statistics import Estimate, estimate
from ...probes.communities import spearman
from ...report.document import Verdict
from .result import Inspection, Looked

Decision = Literal["supported", "not supported", "undecided"]
COLLAPSED = 0.1  # the effective rank of the product over the width, below which it has collapsed
WIDE = 0.5  # that of a random network, above which it has not


class Part(NamedTuple):
    """One part of the claim: the figures of the trained and of the random network, and what they decide."""

    name: str
    trained: Estimate | None
    random: Estimate | None
    difference: Estimate | None
    decision: Decision


def by_layer(looked: Looked | None, probe: str, name: str) -> list[float]:
    """Spearman's correlation of a figure with the number of the layer, text by text."""
    found = looked.find(probe, name) if looked is not None else None
    if found is None:
        return []
    layers = np.array(found.numbers, dtype=float)
    return [float(spearman(layers, np.array(row), permutations=1)[0]) for row in found.figures]


def last_rank(looked: Looked | None) -> list[float]:
    """The effective rank of the product of all Jacobians over the width, text by text."""
    found = looked.find("products", "effective rank") if looked is not None else None
    return [] if looked is None or found is None else [row[-1] / looked.width for row in found.figures]


def estimated(values: Sequence[float]) -> Estimate | None:
    return estimate([one for one in values if math.isfinite(one)])


def differences(trained: Sequence[float], random: Sequence[float]) -> list[float]:
    return [a - b for a, b in zip(trained, random, strict=False)]


def lies(found: Estimate | None, side: Literal["below", "above"], level: float) -> bool:
    """Whether the whole interval lies on one side of a level."""
    if found is None or found.low is None or found.high is None:
        return False
    return found.high < level if side == "below" else found.low >= level


def falls(name: str, trained: list[float], random: list[float]) -> Part:
    """A figure that falls with depth, and more so than in the random network."""
    own, null, both = estimated(trained), estimated(random), estimated(differences(trained, random))
    decision: Decision = "undecided"
    if lies(own, "below", 0.0) and lies(both, "below", 0.0):
        decision = "supported"
    elif lies(own, "above", 0.0) or lies(both, "above", 0.0):
        decision = "not supported"
    return Part(name, own, null, both, decision)


def collapses(trained: list[float], random: list[float]) -> Part:
    """A product that loses rank, while that of the random network does not."""
    own, null, both = estimated(trained), estimated(random), estimated(differences(trained, random))
    decision: Decision = "undecided"
    if lies(own, "below", COLLAPSED) and lies(null, "above", WIDE):
        decision = "supported"
    elif lies(own, "above", COLLAPSED) or lies(null, "below", WIDE):
        decision = "not supported"
    return Part("the product loses rank", own, null, both, decision)


def parts_of(result: Inspection) -> list[Part]:
    """The three parts of the claim, or none if there is no null model."""
    if result.null is None:
        return []
    pairs: list[tuple[str, Callable[[Looked], list[float]]]] = [
        ("rotation falls with depth", lambda one: by_layer(one, "jacobian", "complex")),
        ("asymmetry falls with depth", lambda one: by_layer(one, "jacobian", "J asymmetry")),
    ]
    found = [falls(name, figures(result.model), figures(result.null)) for name, figures in pairs]
    return [*found, collapses(last_rank(result.model), last_rank(result.null))]


def decided(parts: Sequence[Part]) -> Decision:
    if any(one.decision == "not supported" for one in parts):
        return "not supported"
    return "supported" if parts and all(one.decision == "supported" for one in parts) else "undecided"


def depth_gradient(result: Inspection) -> Verdict:
    """Whether training installs a depth gradient, by the rule."""
    parts = parts_of(result)
    if not parts:
        return Verdict("too few", "Depth gradient: not decided, since there is no null model beside the model.")
    claim, decision = "Training installs a depth gradient", decided(parts)
    why = "; ".join(f"{one.name}: {one.decision}{figures_text(one)}" for one in parts)
    lacking = all(one.trained is None or one.trained.low is None for one in parts)
    kind = "settled" if decision != "undecided" else "too few" if lacking else "open"
    return Verdict(kind, f"{claim}: {decision} ({why}).{advice(result, lacking)}")


def figures_text(part: Part) -> str:
    if part.trained is None or part.random is None:
        return ", not measured"
    return f", {shown(part.trained)} against {shown(part.random)} at random"


def shown(found: Estimate | None) -> str:
    if found is None:
        return ""
    ends = "" if found.low is None or found.high is None else f" [{found.low:.2f}, {found.high:.2f}]"
    return f"{found.mean:.2f}{ends}"


def advice(result: Inspection, lacking: bool) -> str:
    if not lacking or result.model.find("jacobian", "complex") is None:
        return ""
    add = "--spectra 8" if result.texts > 2 else "--texts 8 --spectra 8"
    return f" An interval needs 3 texts or more, and Jacobians were taken on {result.differentiated}: add {add}."
