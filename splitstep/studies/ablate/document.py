"""What an ablation says: the claims first, then every analysis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...experiments.sections import pictures, reproduce, summary
from ...report.charts import Axis
from ...report.document import Beside, Document, Heading, Note, Part
from ...report.tables import Table
from . import charts, tables
from .charts import COSINE, Figure
from .result import DRIFT, EXPLOSION, Ablation, DecidedClaim, ablation_verdict, claim_verdict

SHARE = Axis("CKA", "{:.3f}")


def document(result: Ablation) -> Document:
    """The whole document."""
    title = f"{result.task}: {', '.join(arm.name for arm in result.arms)}"
    losses = (("train", "Training loss"), ("valid", "Validation loss"))
    parts = [
        tables.claims_table(result),
        *(part for claim in result.claims for part in claimed(result, claim)),
        summary(result.made, result.trials, {"arm": len(result.arms), "seed": len(result.seeds)}),
        tables.arms_table(result),
        tables.measures_table(result),
        *tables.lost_table(result),
        *(part for section in SECTIONS for part in section.parts(result)),
        *tables.replay_table(result),
        Beside([charts.loss_curves(result, f"{split}_loss", title, f"chart-{split}") for split, title in losses]),
        *pictures((arm.name, arm.scheme) for arm in result.arms),
        tables.runs_table(result),
        *reproduce(result.made, result.trials, "splitstep.studies.ablate.ablate(...)"),
    ]
    return Document(title, parts, ablation_verdict(result))


def tables_together(results: Sequence[tuple[str, Ablation]]) -> Sequence[Table]:
    """The claims and the arms of several ablations; all tables of a single one."""
    return tables.common_tables(results) if len(results) > 1 else document(results[0][1]).tables


def claimed(result: Ablation, claim: DecidedClaim) -> list[Part]:
    """A claim with its verdict and, if an arm has another rate of its own, what the full arm's rate says."""
    shown: list[Part] = [claim_verdict(claim)]
    if any(arm.own.rate != arm.shared.rate for arm in result.arms):
        at = f"At the full arm's learning rate, {result.full.own.rate:g}: {claim.at_shared_rate}"
        shown.append(Note(f"{at}; {claim.number_at_shared_rate}."))
    return shown


class Section(NamedTuple):
    """An analysis: the figure without which there is none, how it is drawn, and its heading with a note."""

    needs: str
    drawn: Callable[[Ablation], list[Part]]
    title: str = ""
    note: str = ""

    def parts(self, result: Ablation) -> list[Part]:
        """The parts of the document; none without figures."""
        if not charts.has(result, self.needs):
            return []
        headed = [Heading(self.title), Note(self.note)] if self.title else []
        return [*headed, *self.drawn(result)]


def drift(result: Ablation) -> list[Part]:
    layers = Figure("drift", "Cosine with the input", COSINE, level=DRIFT)
    along = layers._replace(title="The last layer's cosine with the input")
    previous = Figure("neighbours", "Cosine with the layer before", COSINE)
    return [
        Beside([charts.over_layers(result, layers), charts.along_training(result, along)]),
        charts.over_layers(result, previous),
    ]


def gradients(result: Ablation) -> list[Part]:
    growth = Figure("growth", "Growth per layer", Axis("factor", "{:.3g}", log=True), level=EXPLOSION)
    first = Figure("gradients", "Gradient at the stack's input", Axis("norm", "{:.3g}", log=True))
    return [
        charts.gradient_maps(result),
        Beside([charts.along_training(result, growth), charts.along_training(result, first, 0)]),
        Heading("Parameters", 3),
        Note(
            "The gradient of each group of parameters at the end of training over the full arm's, again as a decimal "
            "logarithm."
        ),
        charts.group_maps(result),
    ]


def information(result: Ablation) -> list[Part]:
    note = (
        "What the states T of each layer know about the input X and the label Y, with noise added to T after a "
        "fixed projection: sigma is 1, relative to the spread of T. A line joins the layers of one record. The "
        "table has other estimators, other noise, and what each is off by where the truth is known."
    )
    return [charts.information_planes(result), Note(note), *tables.information_table(result)]


def attention(result: Ablation) -> list[Part]:
    return [charts.head_maps(result, "jensen_shannon", "{:.3f}"), *tables.attention_table(result)]


def entropy(result: Ablation) -> list[Part]:
    return [charts.over_layers(result, Figure("entropy", "Entropy of attention", Axis("nats", "{:.2f}")))]


def fidelity(result: Ablation) -> list[Part]:
    cka = Figure("cka", "CKA with the full arm", SHARE, first=0, baseline="two seeds")
    cosine = Figure("cosine", "Cosine with the full arm, same start", COSINE, first=0, baseline="two starts")
    along = cka._replace(title="The last layer's CKA along training")
    return [
        Beside([charts.over_layers(result, cka), charts.over_layers(result, cosine)]),
        charts.along_training(result, along),
    ]


def sensitivity(result: Ablation) -> list[Part]:
    layers = Figure("sensitivity", "Growth in each layer", Axis("logarithm", "{:.3f}"), level=0.0)
    along = Figure("exponent", "The exponent along training", Axis("exponent", "{:.3f}"), level=0.0)
    return [Beside([charts.over_layers(result, layers), charts.along_training(result, along)])]


SECTIONS = (
    Section(
        "drift", drift, "Drift",
        "How far the state turns away from the stack's input: the mean cosine over tokens. Over the layers at the end "
        f"of training, and along it. A network drifts below {DRIFT:g}.",
    ),
    Section(
        "gradients", gradients, "Gradients",
        "The norm of the loss's gradient with respect to the state before each layer, over that after the last: its "
        "decimal logarithm, +1 is ten times as large. Layer 0 is the stack's input.",
    ),
    Section("information_x", information),
    Section(
        "jensen_shannon", attention, "Attention",
        "How far each head attends elsewhere than the same head of the full arm from the same start: the "
        "Jensen-Shannon divergence in nats, at most 0.693. The first map has two seeds of the full arm.",
    ),
    Section("entropy", entropy),
    Section(
        "cka", fidelity, "Representations",
        "CKA compares networks of different seeds; the line of the full arm is that of two of its seeds. The cosine "
        "depends on coordinates, so it compares networks from the same start; its line of the full arm is that of two "
        "starts.",
    ),
    Section(
        "sensitivity", sensitivity, "Sensitivity",
        "The growth of a small perturbation of the stack's input, as a natural logarithm: in each layer, and per "
        "unit of time over the whole stack, the finite-time Lyapunov exponent. Above 0 it grows.",
    ),
)  # fmt: skip
