"""The page of an ablation: the claims first, then every analysis."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

from ...report.charts import Axis
from ...report.diagram import diagrams
from ...report.drawing import chart_to_html
from ...report.page import page, side_by_side
from ...report.tables import to_html
from ...report.verdict import verdict_to_html
from ...schemes import scheme
from ..reproduce import reproduce, summary
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
from .tables import arms_table, attention_table, information_table, lost_table, measures_table, replay_table, runs_table
from .verdict import DRIFT, EXPLOSION, claim_verdict

NORM = Axis("norm", "{:.3g}", log=True)
Section = Callable[[Ablation], list[str]]


def ablation_page(result: Ablation) -> str:
    """The whole page."""
    title = f"{result.task}: {', '.join(arm.name for arm in result.arms)}"
    body = [
        f"<h1>{escape(title)}</h1>",
        *(part for claim in result.claims for part in claimed(result, claim)),
        summary(result, {"arm": len(result.arms), "seed": len(result.seeds), "run": len(result.trials)}),
        to_html(arms_table(result)),
        to_html(measures_table(result)),
        *map(to_html, lost_table(result)),
        *(part for section in SECTIONS for part in section(result)),
        *map(to_html, replay_table(result)),
        *losses(result),
        *pictures(result),
        to_html(runs_table(result)),
        *reproduce(result, "splitstep.studies.ablate.ablate(...)"),
    ]
    return page(title, body)


def claimed(result: Ablation, claim: Claim) -> list[str]:
    """A claim with its verdict and, if an arm has another rate of its own, what the full arm's rate says."""
    shown = [verdict_to_html(claim_verdict(claim))]
    if any(arm.own.rate != arm.shared.rate for arm in result.arms):
        at = f"At the full arm's learning rate, {result.full.own.rate:g}: {claim.at_shared_rate}"
        shown.append(f'<p class="soft">{escape(f"{at}; {claim.number_at_shared_rate}.")}</p>')
    return shown


def headed(title: str, text: str) -> list[str]:
    return [f"<h2>{escape(title)}</h2>", f'<p class="soft">{escape(text)}</p>']


def drift(result: Ablation) -> list[str]:
    if not has(result, "drift"):
        return []
    layers = Figure("drift", "Cosine with the input", COSINE, level=DRIFT)
    previous = Figure("neighbours", "Cosine with the layer before", COSINE)
    along = Figure("drift", "The last layer's cosine with the input", COSINE, level=DRIFT)
    return [
        *headed("Drift", "How far the state turns away from the stack's input: the mean cosine over tokens. Over the "
                f"layers at the end of training, and along it. A network drifts below {DRIFT:g}."),
        side_by_side([chart_to_html(over_layers(result, layers)), chart_to_html(along_training(result, along))]),
        chart_to_html(over_layers(result, previous)),
    ]  # fmt: skip


def gradients(result: Ablation) -> list[str]:
    if not has(result, "gradients"):
        return []
    maps = Figure("gradients", "", Axis("", "{:+.2f}"), first=0)
    growth = Figure("growth", "Growth per layer", Axis("factor", "{:.3g}", log=True), level=EXPLOSION)
    first = Figure("gradients", "Gradient at the stack's input", NORM)
    return [
        *headed("Gradients", "The norm of the loss's gradient with respect to the state before each layer, over that "
                "after the last: its decimal logarithm, +1 is ten times as large. Layer 0 is the stack's input."),
        chart_to_html(heat_maps(result, maps, relative_to_last)),
        side_by_side([chart_to_html(along_training(result, growth)), chart_to_html(along_training(result, first, 0))]),
        '<h3>Parameters</h3><p class="soft">The gradient of each group of parameters at the end of training over the '
        "full arm's, again as a decimal logarithm.</p>",
        chart_to_html(group_maps(result)),
    ]  # fmt: skip


def information(result: Ablation) -> list[str]:
    if not has(result, "information_x"):
        return []
    return [
        chart_to_html(information_planes(result)),
        '<p class="soft">What the states T of each layer know about the input X and the label Y, with noise added to T '
        "after a fixed projection: sigma is 1, relative to the spread of T. A line joins the layers of one record. The "
        "table has other estimators, other noise, and what each is off by where the truth is known.</p>",
        *map(to_html, information_table(result)),
    ]


def attention(result: Ablation) -> list[str]:
    parts = list[str]()
    if any("jensen_shannon" in arm.own.maps for arm in result.arms):
        parts += headed(
            "Attention",
            "How far each head attends elsewhere than the same head of the full arm from the same start: the "
            "Jensen-Shannon divergence in nats, at most 0.693. The first map has two seeds of the full arm.",
        )
        parts += [chart_to_html(head_maps(result, "jensen_shannon", "", "{:.3f}"))]
        parts += map(to_html, attention_table(result))
    if has(result, "entropy"):
        entropy = Figure("entropy", "Entropy of attention", Axis("nats", "{:.2f}"))
        parts.append(chart_to_html(over_layers(result, entropy)))
    return parts


def fidelity(result: Ablation) -> list[str]:
    if not has(result, "cka"):
        return []
    cka = Figure("cka", "CKA with the full arm", Axis("CKA", "{:.3f}"), first=0)
    cosine = Figure("cosine", "Cosine with the full arm, same start", COSINE, first=0)
    along = Figure("cka", "The last layer's CKA along training", Axis("CKA", "{:.3f}"))
    return [
        *headed("Representations", "CKA compares networks of different seeds; the line of the full arm is that of two "
                "of its seeds. The cosine depends on coordinates, so it compares networks from the same start; its "
                "line of the full arm is that of two starts."),
        side_by_side([
            chart_to_html(over_layers(result, cka, "two seeds")),
            chart_to_html(over_layers(result, cosine, "two starts")),
        ]),
        chart_to_html(along_training(result, along, baseline="two seeds")),
    ]  # fmt: skip


def sensitivity(result: Ablation) -> list[str]:
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
        side_by_side([chart_to_html(over_layers(result, layers)), chart_to_html(along_training(result, along))]),
    ]


SECTIONS: tuple[Section, ...] = (drift, gradients, information, attention, fidelity, sensitivity)


def losses(result: Ablation) -> list[str]:
    train = loss_curves(result, "train_loss", "Training loss", "chart-train")
    valid = loss_curves(result, "valid_loss", "Validation loss", "chart-valid")
    return [side_by_side([chart_to_html(train), chart_to_html(valid)])]


def pictures(result: Ablation) -> list[str]:
    names = {arm.scheme: arm.name for arm in reversed(result.arms)}
    return ["<h2>The schemes</h2>", diagrams((name, scheme(text)) for text, name in reversed(names.items()))]
