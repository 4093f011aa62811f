"""What an ablation says: the claims first, then every analysis."""

from __future__ import annotations

from collections.abc import Callable

from ...experiments.sections import pictures, reproduce, summary
from ...report.charts import Axis
from ...report.document import Beside, Document, Heading, Note, Part
from .charts import (
    COSINE,
    Figure,
    along_training,
    group_maps,
    has,
    head_maps,
    heat_maps,
    information_planes,
    loss_curves,
    over_layers,
    relative_to_last,
)
from .result import Ablation, Claim
from .tables import (
    arms_table,
    attention_table,
    claims_table,
    information_table,
    lost_table,
    measures_table,
    replay_table,
    runs_table,
)
from .verdict import DRIFT, EXPLOSION, ablation_verdict, claim_verdict

NORM = Axis("norm", "{:.3g}", log=True)
Section = Callable[[Ablation], list[Part]]


def document(result: Ablation) -> Document:
    """The whole document."""
    title = f"{result.task}: {', '.join(arm.name for arm in result.arms)}"
    parts = [
        claims_table(result),
        *(part for claim in result.claims for part in claimed(result, claim)),
        summary(result.made, result.trials, {"arm": len(result.arms), "seed": len(result.seeds)}),
        arms_table(result),
        measures_table(result),
        *lost_table(result),
        *(part for section in SECTIONS for part in section(result)),
        *replay_table(result),
        *losses(result),
        *pictures((arm.name, arm.scheme) for arm in result.arms),
        runs_table(result),
        *reproduce(result.made, result.trials, "splitstep.studies.ablate.ablate(...)"),
    ]
    return Document(title, parts, ablation_verdict(result))


def claimed(result: Ablation, claim: Claim) -> list[Part]:
    """A claim with its verdict and, if an arm has another rate of its own, what the full arm's rate says."""
    shown: list[Part] = [claim_verdict(claim)]
    if any(arm.own.rate != arm.shared.rate for arm in result.arms):
        at = f"At the full arm's learning rate, {result.full.own.rate:g}: {claim.at_shared_rate}"
        shown.append(Note(f"{at}; {claim.number_at_shared_rate}."))
    return shown


def headed(title: str, text: str) -> list[Part]:
    return [Heading(title), Note(text)]


def drift(result: Ablation) -> list[Part]:
    if not has(result, "drift"):
        return []
    layers = Figure("drift", "Cosine with the input", COSINE, level=DRIFT)
    previous = Figure("neighbours", "Cosine with the layer before", COSINE)
    along = Figure("drift", "The last layer's cosine with the input", COSINE, level=DRIFT)
    return [
        *headed("Drift", "How far the state turns away from the stack's input: the mean cosine over tokens. Over the "
                f"layers at the end of training, and along it. A network drifts below {DRIFT:g}."),
        Beside([over_layers(result, layers), along_training(result, along)]),
        over_layers(result, previous),
    ]  # fmt: skip


def gradients(result: Ablation) -> list[Part]:
    if not has(result, "gradients"):
        return []
    maps = Figure("gradients", "", Axis("", "{:+.2f}"), first=0)
    growth = Figure("growth", "Growth per layer", Axis("factor", "{:.3g}", log=True), level=EXPLOSION)
    first = Figure("gradients", "Gradient at the stack's input", NORM)
    return [
        *headed("Gradients", "The norm of the loss's gradient with respect to the state before each layer, over that "
                "after the last: its decimal logarithm, +1 is ten times as large. Layer 0 is the stack's input."),
        heat_maps(result, maps, relative_to_last),
        Beside([along_training(result, growth), along_training(result, first, 0)]),
        Heading("Parameters", 3),
        Note("The gradient of each group of parameters at the end of training over the full arm's, again as a decimal "
             "logarithm."),
        group_maps(result),
    ]  # fmt: skip


def information(result: Ablation) -> list[Part]:
    if not has(result, "information_x"):
        return []
    return [
        information_planes(result),
        Note(
            "What the states T of each layer know about the input X and the label Y, with noise added to T after a "
            "fixed projection: sigma is 1, relative to the spread of T. A line joins the layers of one record. The "
            "table has other estimators, other noise, and what each is off by where the truth is known."
        ),
        *information_table(result),
    ]


def attention(result: Ablation) -> list[Part]:
    parts = list[Part]()
    if any("jensen_shannon" in arm.own.maps for arm in result.arms):
        parts += headed(
            "Attention",
            "How far each head attends elsewhere than the same head of the full arm from the same start: the "
            "Jensen-Shannon divergence in nats, at most 0.693. The first map has two seeds of the full arm.",
        )
        parts += [head_maps(result, "jensen_shannon", "", "{:.3f}")]
        parts += attention_table(result)
    if has(result, "entropy"):
        entropy = Figure("entropy", "Entropy of attention", Axis("nats", "{:.2f}"))
        parts.append(over_layers(result, entropy))
    return parts


def fidelity(result: Ablation) -> list[Part]:
    if not has(result, "cka"):
        return []
    cka = Figure("cka", "CKA with the full arm", Axis("CKA", "{:.3f}"), first=0)
    cosine = Figure("cosine", "Cosine with the full arm, same start", COSINE, first=0)
    along = Figure("cka", "The last layer's CKA along training", Axis("CKA", "{:.3f}"))
    return [
        *headed("Representations", "CKA compares networks of different seeds; the line of the full arm is that of two "
                "of its seeds. The cosine depends on coordinates, so it compares networks from the same start; its "
                "line of the full arm is that of two starts."),
        Beside([
            over_layers(result, cka, "two seeds"),
            over_layers(result, cosine, "two starts"),
        ]),
        along_training(result, along, baseline="two seeds"),
    ]  # fmt: skip


def sensitivity(result: Ablation) -> list[Part]:
    if not has(result, "sensitivity"):
        return []
    layers = Figure("sensitivity", "Growth in each layer", Axis("logarithm", "{:.3f}"), level=0.0)
    along = Figure("exponent", "The exponent along training", Axis("exponent", "{:.3f}"), level=0.0)
    return [
        *headed(
            "Sensitivity",
            "The growth of a small perturbation of the stack's input, as a natural logarithm: in each layer, and per "
            "unit of time over the whole stack, the finite-time Lyapunov exponent. Above 0 it grows.",
        ),
        Beside([over_layers(result, layers), along_training(result, along)]),
    ]


SECTIONS: tuple[Section, ...] = (drift, gradients, information, attention, fidelity, sensitivity)


def losses(result: Ablation) -> list[Part]:
    train = loss_curves(result, "train_loss", "Training loss", "chart-train")
    valid = loss_curves(result, "valid_loss", "Validation loss", "chart-valid")
    return [Beside([train, valid])]
