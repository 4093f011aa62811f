"""The page of a comparison."""

from __future__ import annotations

from html import escape
from pathlib import Path

from ..notation import shortened
from ..schemes import label, scheme
from ..studies.compare.losses import NOTE, SPLITS, losses
from ..studies.compare.result import Comparison, Row
from ..studies.compare.test_splits import OnTestSet
from ..studies.compare.wording import kept_text, widths
from ..support.files import write_atomically
from ..support.words import counted
from ..tasks.task import title_of
from . import charts
from .diagram import draw
from .page import page, pairs, table

NAME = "report.html"


def write_report(result: Comparison, folder: Path) -> Path:
    """Write the page of a comparison into a folder."""
    file = folder / NAME
    write_atomically(file, compare_page(result))
    return file


def compare_page(result: Comparison) -> str:
    """The whole page: table, curves, quality against cost, diagrams, what was matched, how to reproduce."""
    script = charts.plotly_script()
    title = f"{result.task}: {', '.join(row.name for row in result.rows)}"
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="soft">{escape(summary(result))}</p>',
        main_table(result),
        f'<p class="soft">{escape(result.note())}</p>',
        *test_sets(result),
        *diverged(result),
        *loss_curves(result),
        *loss_differences(result),
        *against_cost(result),
        *diagrams(result),
        *matched(result),
        *trials(result),
        *reproduce(result),
    ]
    return page(title, body, [script])


def summary(result: Comparison) -> str:
    rows, seeds, runs = len(result.rows), len(result.seeds), len(result.trials)
    counts = ", ".join([counted(rows, "scheme"), counted(seeds, "seed"), counted(runs, "run")])
    return f"{counts} on {', '.join(result.devices)}; {result.date}."


def main_table(result: Comparison) -> str:
    metric = title_of(result.metric)
    heads = [
        "scheme", f"{over_two_lines(metric)}, test\n95% interval",
        f"difference to {result.rows[0].name}\n95% interval, paired", f"{over_two_lines(metric)}, valid", "parameters",
        "FLOPs per token", "seconds", "tokens/s",
    ]  # fmt: skip
    return table(heads, [table_row(result, row) for row in result.rows])


def over_two_lines(title: str) -> str:
    """A long title, what it has in brackets below it."""
    return title.replace(" (", "\n(", 1)


def table_row(result: Comparison, row: Row) -> list[str]:
    first, notation = row is result.rows[0], shortened(row.scheme) if row.scheme != row.name else ""
    return [
        "\n".join(filter(None, [shortened(row.name), notation, *row.setting, row.lost])),
        result.interval(row.test),
        "" if first else result.interval(row.difference, signed=True),
        "-" if row.valid is None else result.shown(row.valid.mean),
        f"{row.cost.parameters:,}",
        f"{row.cost.flops:,}",
        f"{row.seconds:,.1f}",
        "-" if row.tokens_per_second is None else f"{row.tokens_per_second:,.0f}",
    ]


def test_sets(result: Comparison) -> list[str]:
    """Every test split, for tasks whose models write."""
    scores = result.scored()
    if not scores:
        return []
    metric, *others = scores
    heads = [
        "test set and scheme", f"{over_two_lines(metric.name)}\n95% interval",
        f"difference to {result.rows[0].name}\n95% interval", "seeds apart\np < 0.05", "seed by seed",
        *(over_two_lines(one.name) for one in others),
    ]  # fmt: skip
    rows = [
        [
            f"{one.split}: {shortened(label(one.scheme))}\n{counted(one.lines, 'line')}",
            result.score_text(one.score(metric.key)),
            result.test_difference(one),
            result.told_apart(one),
            "\n".join(seed_by_seed(one)),
            *(result.score_text(one.score(other.key)) for other in others),
        ]
        for one in result.tests
    ]
    signatures = pairs([(score.name, score.signature) for score in scores])
    return ["<h2>Test sets</h2>", table(heads, rows), f'<p class="soft">{escape(result.test_note())}</p>', signatures]


def seed_by_seed(one: OnTestSet) -> list[str]:
    """Each pair's difference and p, in small print below nothing."""
    told = [f"{pair.seed}: {pair.difference:+.2f}, p {pair.p:.3f}" for pair in one.pairs]
    return ["", *told] if told else []


def diverged(result: Comparison) -> list[str]:
    bad = [trial for trial in result.trials if trial.status != "finished"]
    if not bad:
        return []
    rows = [
        [label(t.scheme), str(t.seed), ", ".join(t.setting) or "-",
         *map(str, (d.step, d.loss, d.layer) if (d := t.diverged) else (t.steps, "-", "-"))]
        for t in bad
    ]  # fmt: skip
    return [
        "<h2>Runs that diverged</h2>",
        "<p>They are in no mean above; the counts beside the names say how many a row lacks.</p>",
        table(["scheme", "seed", "setting", "step", "loss", "first bad layer"], rows),
    ]


def loss_curves(result: Comparison) -> list[str]:
    what = "The line is the mean over seeds, the band runs from the least to the greatest."
    train = charts.curves(result, "train_loss", {"title": charts.axis_title("loss")})
    valid = charts.curves(result, "valid_loss", {"title": charts.axis_title("loss")})
    charted = [f"<h2>Validation loss</h2>{charts.html(valid, 'chart-valid')}"]
    if any(trial.valid_metric.steps for trial in result.trials):  # what a model writes may be judged at the end alone
        metric = charts.curves(result, "valid_metric", charts.metric_axis(result))
        charted.append(f"<h2>Validation {escape(title_of(result.metric))}</h2>{charts.html(metric, 'chart-metric')}")
    return [
        "<h2>Training loss</h2>",
        f'<p class="soft">{what if len(result.seeds) > 1 else "One seed."}</p>',
        charts.html(train, "chart-train"),
        *side_by_side(charted),
    ]


def loss_differences(result: Comparison) -> list[str]:
    """Where a scheme is ahead of the first, and when: curves on top of each other do not show it."""
    if len(result.rows) < 2:
        return []
    how = "the band is the 95% interval of the mean over seeds" if len(result.seeds) > 1 else "one seed"
    charted = [
        f"<h2>{title} loss, difference to {escape(shortened(result.rows[0].name))}</h2>"
        + charts.html(charts.differences(result, column), f"chart-{column.partition('_')[0]}-difference")
        for title, column in (("Training", "train_loss"), ("Validation", "valid_loss"))
    ]
    return [
        *side_by_side(charted),
        f'<p class="soft">Seed by seed; below zero is better; {how}.</p>',
        *final_losses(result),
    ]


def final_losses(result: Comparison) -> list[str]:
    """What the schemes come to, in training and held out."""
    heads = [text for split in SPLITS for text in (f"{split} loss", "difference\n95% interval")]
    rows = [
        [shortened(row.name), *(text for one in found for text in (one.text(), one.difference_text()))]
        for row, found in zip(result.rows, losses(result, result.rows), strict=True)
    ]
    note = f"{NOTE} Differences are to {shortened(result.rows[0].name)}, seed by seed."
    return ["<h2>Losses at the end</h2>", table(["scheme", *heads], rows), f'<p class="soft">{escape(note)}</p>']


def side_by_side(parts: list[str]) -> list[str]:
    """Two parts beside each other where there is room; one takes all of it."""
    return parts if len(parts) == 1 else ['<div class="pair">', *(f"<div>{part}</div>" for part in parts), "</div>"]


def against_cost(result: Comparison) -> list[str]:
    parameters = charts.quality(result, "parameters", "parameters")
    flops = charts.quality(result, "flops", "FLOPs per token")
    return [
        "<h2>Quality against cost</h2>",
        '<p class="soft">The test figure with its 95% interval; points of equal cost stand side by side.</p>',
        '<div class="pair">',
        charts.html(parameters, "chart-parameters"),
        charts.html(flops, "chart-flops"),
        "</div>",
    ]


def diagrams(result: Comparison) -> list[str]:
    figures = []
    for row in result.rows:
        order = "no order" if row.order is None else f"order {row.order}"
        notation = "" if row.name == row.scheme else f"<code>{escape(shortened(row.scheme))}</code> "
        caption = (
            f"<b>{escape(shortened(row.name))}</b> {notation}&middot; {row.evaluations} evaluations a step, {order}"
        )
        figures.append(f"<figure><figcaption>{caption}</figcaption>{draw(scheme(row.scheme))}</figure>")
    return [
        "<h2>The schemes</h2>",
        '<p class="soft">One step from left to right. A attention, F feed-forward; a number below a box is its '
        "fraction of the step, dots above it are the stages of its tableau, dashed boxes are projections. F0 and F1 "
        "have weights of their own, two boxes F share theirs.</p>",
        f'<div class="row">{"".join(figures)}</div>',
    ]


def matched(result: Comparison) -> list[str]:
    what = {
        "parameters": "Every scheme has the reference's number of parameters in its body (without embeddings and "
        "head); FLOPs differ as the schemes do.",
        "flops": "Every scheme has the reference's FLOPs per token: where a step costs more there are fewer, longer "
        "steps, and the parameters differ.",
        "none": "Nothing was matched: every scheme has the same widths and depth.",
    }[result.match]
    rows = []
    for row in result.rows:
        shape = row.shape
        difference = "-" if row.matched is None else f"{row.matched.difference:+.3%}"
        rows.append(
            [row.name, str(shape.layers), f"{shape.step:g}", str(shape.width), widths(row.scheme, shape),
             f"{row.cost.body:,}", f"{row.cost.flops:,}", difference]
        )  # fmt: skip
    heads = [
        "scheme", "layers", "step", "width", "feed-forward", "body parameters", "FLOPs per token",
        "off the reference" if result.match != "none" else "matched",
    ]  # fmt: skip
    return [
        "<h2>What was matched</h2>",
        f"<p>{escape(what)} The reference is {escape(label(result.reference))}, in the shape of the recipe.</p>",
        table(heads, rows),
    ]


def trials(result: Comparison) -> list[str]:
    """Every run, of a sweep also those that were not chosen."""
    name = result.metric.name

    def shown(figures: dict[str, float] | None) -> str:
        return result.shown(figures[name]) if figures else "-"

    swept = bool(result.sweep)
    chosen = {(row.scheme, row.setting) for row in result.rows}
    rows = [
        [label(t.scheme), *([", ".join(t.setting), "yes" if (t.scheme, t.setting) in chosen else "no"] * swept),
         str(t.seed), t.status, shown(t.valid), shown(t.test), kept_text(t.kept, t.best_step, t.steps),
         f"{t.seconds:,.1f}"]
        for t in result.trials
    ]  # fmt: skip
    sweep = "Each scheme tried every setting; the one with the best mean validation figure is its row above."
    heads = ["scheme", *(["setting", "chosen"] * swept), "seed", "status", "valid", "test", "weights", "seconds"]
    return ["<h2>All runs</h2>", *([f"<p>{sweep}</p>"] * swept), table(heads, rows, stacked=False)]


def reproduce(result: Comparison) -> list[str]:
    import yaml

    known = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    data = {name: value for name, value in result.data.items() if name != "sha256"}
    return [
        "<h2>How to reproduce</h2>",
        f"<pre>{escape(result.command or 'splitstep.studies.compare.compare(...) with the recipe below')}</pre>",
        pairs(
            [
                ("commit", result.commit or "not known"),
                ("versions", known),
                ("devices", ", ".join(result.devices)),
                ("engine", f"{result.engine}, {counted(result.threads, 'thread')} a run"),
                ("date", result.date),
            ]
        ),
        "<p>The recipe, with all defaults written out:</p>",
        f"<pre>{escape(yaml.safe_dump(result.recipe, sort_keys=False))}</pre>",
        "<p>The data, as the task read it; hashes are in result.json:</p>",
        f"<pre>{escape(yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=100))}</pre>",
    ]
