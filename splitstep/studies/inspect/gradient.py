"""Whether training installed a depth gradient: a rule about Jacobians of the model and of its null model.

The rule is in docs/theory/inspection.md, and was written before the runs.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...experiments.experiment import Answer, Rule, Sample, all_of, decide, opposite
from ...experiments.statistics import Estimate
from ...probes.communities import spearman
from ...report.document import Verdict
from ...report.tables import Column, Table
from .result import Inspection, ModelFindings

FALLING = {"rotation falls with depth": "complex", "asymmetry falls with depth": "J asymmetry"}  # of Jacobians
COLLAPSED = Rule(0.1, level_is="above")  # the effective rank of the product over the width, if it has not collapsed
WIDE = Rule(0.5, level_is="above")  # that of a random network, if it has not
GRADIENT_NOTE = (
    "Correlations with the number of the layer, and the effective rank of the product of all layers' Jacobians over "
    "the width; means over texts with Student's 95% interval."
)


class GradientPart(NamedTuple):
    """One part of the claim: the figures of the trained and of the random network, and what they decide."""

    name: str
    trained: Estimate | None
    random: Estimate | None
    decision: Answer

    @property
    def figures(self) -> str:
        """Both in words."""
        if self.trained is None or self.random is None:
            return "not measured"
        return f"{shown(self.trained)} against {shown(self.random)} at random"


def text_by_text(values: Sequence[float]) -> Sample:
    """The finite figures of texts."""
    return Sample({i: x for i, x in enumerate(values) if math.isfinite(x)})


def by_layer(model: ModelFindings, name: str) -> Sample:
    """Spearman's correlation of a figure of Jacobians with the number of the layer."""
    found = model.find("jacobian", name)
    rows = [] if found is None else [spearman(np.array(found.numbers, float), np.array(x), 1) for x in found.figures]
    return text_by_text([float(one[0]) for one in rows])


def last_rank(model: ModelFindings) -> Estimate | None:
    """The effective rank of the product of all Jacobians over the width."""
    found = model.find("products", "effective rank")
    return text_by_text([] if found is None else [row[-1] / model.width for row in found.figures]).mean()


def gradient_parts(result: Inspection) -> list[GradientPart]:
    """The three parts of the claim, or none if there is no null model: two figures fall with depth, and more so than in
    the random network, and the product of Jacobians loses rank, while that of the random network does not."""
    if result.null is None:
        return []
    parts = list[GradientPart]()
    for claim, name in FALLING.items():
        own, null = (by_layer(one, name) for one in (result.model, result.null))
        falls = all_of(opposite(decide(one, Rule(level_is="above"))) for one in (own.mean(), own.minus(null)))
        parts.append(GradientPart(claim, own.mean(), null.mean(), falls))
    own, null = map(last_rank, (result.model, result.null))
    lost = all_of((opposite(decide(own, COLLAPSED)), decide(null, WIDE)))
    return [*parts, GradientPart("the product loses rank", own, null, lost)]


def depth_gradient(result: Inspection) -> Verdict:
    """Whether training installs a depth gradient, by the rule."""
    parts = gradient_parts(result)
    if not parts:
        return Verdict("too few", "Depth gradient: not decided, since there is no null model beside the model.")
    claim, decision = "Training installs a depth gradient", all_of(one.decision for one in parts)
    why = "; ".join(f"{one.name}: {one.decision}, {one.figures}" for one in parts)
    lacking = all(one.trained is None or one.trained.low is None for one in parts)
    kind = "settled" if decision != "undecided" else "too few" if lacking else "open"
    add = "--spectra 8" if result.texts > 2 else "--texts 8 --spectra 8"
    advice = f" An interval needs 3 texts or more, and Jacobians were taken on {result.differentiated}: add {add}."
    measured = result.model.find("jacobian", "complex") is not None
    return Verdict(kind, f"{claim}: {decision} ({why}).{advice if lacking and measured else ''}")


def shown(found: Estimate | None) -> str:
    """A mean with its interval in one line."""
    if found is None:
        return ""
    ends = "" if found.low is None or found.high is None else f" [{found.low:.2f}, {found.high:.2f}]"
    return f"{found.mean:.2f}{ends}"


def gradient_table(result: Inspection) -> Table:
    """The parts of the depth gradient."""
    columns = [Column("part", text=True), Column("trained"), Column("random"), Column("decided", text=True)]
    rows = [[one.name, shown(one.trained), shown(one.random), one.decision] for one in gradient_parts(result)]
    return Table(columns, rows, "Depth gradient", [GRADIENT_NOTE] if rows else [])
