"""A pretrained model under other discretisations as verdict, tables, charts and page."""

from __future__ import annotations

from collections.abc import Sequence

from ...experiments.claims import Rule, all_of, decide, opposite
from ...experiments.sections import reproduced
from ...experiments.statistics import Estimate
from ...experiments.study import Study
from ...notation import shortened
from ...report.charts import Axis, Line, LineChart
from ...report.document import Beside, Document, Note, Verdict
from ...report.tables import Code, Column, Table
from ...support.words import counted
from .changes import Change, Changed
from .discretised_flow import PROBED_TOKENS, DiscretisedFlow
from .shared_parts import (
    FACTOR,
    NOT_DEFINED,
    SUBSTEPS,
    errors_chart,
    errors_table,
    lengths_table,
    lines_by_scheme,
    name_of,
    scrolling,
    ways_table,
)

GUESS = 0.5  # nats per token below a uniform guess: a model that is no better has learnt next to nothing
CLOSE = 0.1  # nats per token: the change of the loss that decides
TITLE = "Is it a discretised flow?"
NOTE = (
    "Loss: its change in nats per token, each text against the model's own loss on it, with the 95% interval over "
    "texts. KL: from the model's own predictions, in nats; shared: the share of equal predictions; output: the "
    "change of the output, relative (of logits without their mean)."
)
LONGER = "The same fields with a longer or a shorter step, so over another time."
MERGED = (
    "Merged: every two neighbouring layers are one step, their fields added at the same state, so half as many steps."
)


def discretised_flow_verdict(result: DiscretisedFlow) -> Verdict:
    """By the rule of docs/theory/inspection.md."""
    if result.halved is None or result.strang is None:
        why = "; ".join(dict.fromkeys(one.why for one in result.undefined))
        return Verdict("open", f"{asked(result)}: not defined, because {why}.")
    halved, strang = result.halved.loss, result.strang.loss
    if halved is None or strang is None:
        return Verdict("open", f"{asked(result)}: no verdict, because {without_loss(result)} {outputs(result)}")
    figures = (
        f"The loss changes by {spelt(halved)} nats per token with two sub-steps and by {spelt(strang)} with "
        f"{Code(shortened(result.strang.scheme))} (95% intervals over {counted(result.texts, 'text')}; the limit is "
        f"{CLOSE:g})"
    )
    if guesses(result):
        return Verdict(
            "open",
            f"{asked(result)}: undecided, because its own loss of {result.loss:.2f} nats is that of a guess "
            f"({result.chance:.2f}), which has little to lose. {figures}.",
        )
    changes = halved, strang
    answer = all_of(opposite(decide(Estimate(*one), Rule(CLOSE, fewest=0))) for one in changes)
    few = all(one.low is None for one in changes)
    kind = "settled" if answer != "undecided" else "too few" if few else "open"
    return Verdict(kind, f"{asked(result)}: {answer}. {figures}.{merged_text(result)}")


def asked(result: DiscretisedFlow) -> str:
    return f"{result.model} as a discretised flow"


def guesses(result: DiscretisedFlow) -> bool:
    """Whether the model predicts hardly better than a uniform guess, as one with random weights does."""
    return result.chance is not None and result.loss is not None and result.loss > result.chance - GUESS


def without_loss(result: DiscretisedFlow) -> str:
    whose = {"own": "it predicts the tokens that it reads", "nothing": "it predicts no tokens"}
    return f"{whose.get(result.predicts, 'it has no loss')}, so it has no loss per token."


def outputs(result: DiscretisedFlow) -> str:
    """How far the output moves, if there is no loss."""
    named = (("two sub-steps", result.halved), ("Strang's splitting", result.strang), ("merged layers", result.merged))
    found = [f"{one.output:.3g} with {name}" for name, one in named if one is not None]
    return f"Its output changes, relative to itself, by {', by '.join(found)}."


def merged_text(result: DiscretisedFlow) -> str:
    if result.merged is None or result.merged.loss is None:
        return ""
    return f" With neighbouring layers merged it changes by {spelt(result.merged.loss)}."


def spelt(change: Change | None) -> str:
    """A change with its interval: +0.031 [+0.020, +0.042]."""
    if change is None:
        return ""
    value, *ends = (f"{x:+.3f}" for x in (change.mean, change.low, change.high) if x is not None)
    return f"{value} [{', '.join(ends)}]" if ends else value


def figures_of(one: Changed | None) -> dict[Column, str]:
    heads = ("loss", "KL", "shared", "output")
    if one is None:
        return dict(zip(map(Column, heads), (NOT_DEFINED, "", "", ""), strict=True))
    kl, shared = one.kl, one.shared
    cells = (
        spelt(one.loss), "" if kl is None else f"{kl:.3f}", "" if shared is None else f"{shared:.1%}",
        f"{one.output:.3g}",
    )  # fmt: skip
    return dict(zip(map(Column, heads), cells, strict=True))


def deciding_table(result: DiscretisedFlow) -> Table:
    named = (
        ("its own scheme", result.own), ("two sub-steps", result.halved), ("Strang's splitting", result.strang),
        ("merged layers", result.merged),
    )  # fmt: skip
    rows = [{Column("way", text=True, whole=True): name, **figures_of(one)} for name, one in named]
    return Table.of(rows, "The two ways that decide, and merged layers", [NOTE, MERGED, *undefined_notes(result)])


def undefined_notes(result: DiscretisedFlow) -> list[str]:
    """What is not defined, by its reason."""
    reasons = dict.fromkeys(one.why for one in result.undefined)
    return [
        f"Not defined: {', '.join(one.what for one in result.undefined if one.why == why)}; {why}." for why in reasons
    ]


def shown_tables(result: DiscretisedFlow) -> list[Table]:
    """What decides, schemes by sub-steps, step lengths, local errors by layer."""
    where = f"In float32, on the first {PROBED_TOKENS} tokens of the first text, or fewer."
    return scrolling(
        [
            deciding_table(result),
            ways_table(result.ways, figures_of, below=True),
            lengths_table(result.longer, figures_of, LONGER),
            errors_table(result.errors, where),
        ]
    )


def figure_of(one: Changed) -> float:
    return one.output if one.loss is None else one.loss.mean


def line_of(name: str, x: Sequence[float], some: Sequence[Changed]) -> Line:
    """A line with a band, if all of its points have intervals."""
    losses = [one.loss for one in some if one.loss is not None]
    low, high = ([end for one in losses if (end := getattr(one, side)) is not None] for side in ("low", "high"))
    whole = len(low) == len(some)
    return Line(name, x, [figure_of(one) for one in some], low if whole else (), high if whole else ())


def axis_of(result: DiscretisedFlow) -> Axis:
    if result.loss is None:
        return Axis("relative change", "{:.3g}")
    return Axis("nats per token", "{:+.3f}")


def substeps_chart(result: DiscretisedFlow) -> LineChart:
    """The change against the sub-steps, a line for each scheme."""
    lines, level = lines_by_scheme(result.ways, line_of), CLOSE if result.loss is not None else None
    title = f"Change of the {what(result)}"
    return LineChart(title, SUBSTEPS, axis_of(result), lines, level=level, name="chart-substeps")


def what(result: DiscretisedFlow) -> str:
    return "output" if result.loss is None else "loss"


def steps_chart(result: DiscretisedFlow) -> LineChart:
    """The change against the factor of the step."""
    line = line_of(name_of(result.own), [one.factor for one in result.longer], result.longer)
    title = f"Change of the {what(result)} as the step grows"
    return LineChart(title, FACTOR, axis_of(result), [line], name="chart-steps")


def document(result: DiscretisedFlow) -> Document:
    """The charts, the tables and how to reproduce them."""
    charts = [*([] if len(result.ways) < 2 else [substeps_chart(result)]), steps_chart(result)]
    local = [Beside([errors_chart(result.errors, 1.0)])] if result.errors else []
    parts = [
        *(Note(one) for one in (summary(result), *result.notes)),
        Beside(charts),
        *local,
        *shown_tables(result),
        *reproduced(result.made, f"splitstep converge {result.model}"),
    ]
    return Document(f"{TITLE} {result.model}", parts, discretised_flow_verdict(result))


def summary(result: DiscretisedFlow) -> str:
    loss = "" if result.loss is None else f"; its own loss is {result.loss:.3f} nats per token"
    return (
        f"{result.architecture}, {counted(result.layers, 'layer')} of {result.scheme}; "
        f"{counted(result.texts, 'text')}, {counted(result.tokens, 'token')}{loss}; {result.made.date}."
    )


STUDY = Study(DiscretisedFlow, document)
