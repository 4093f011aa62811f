"""The tables of comparisons: each is a value, built once for the terminal, the page and Markdown."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...experiments.experiment import sample
from ...experiments.sections import difference_of, estimated, status_cell
from ...experiments.statistics import Estimate
from ...experiments.trials import loss_on, observed
from ...models.cost import span
from ...notation import shortened
from ...report.tables import EVERYWHERE, NOT_IN_MARKDOWN, ON_PAGES, Cell, Code, Column, Record, Table, lines
from ...schemes import label, scheme
from ...shape import feed_forwards
from ...support.words import counted
from ...tasks.measures import title_of
from ...tasks.pairs.translation import EXACT_MATCH
from ...training.result import Kept, Shape
from .lead_charts import lead_record
from .result import Comparison, Named, OnTestSet, Row, ScoreEstimate, lacking, row_name, rows_of
from .standing import findings, unit_of

TASK, SCHEME = Column("task", text=True, grouped=True), Column("scheme", text=True)
AGAINST = Column(("against the first", "[95%]"))
NOT_COMPARABLE = "not comparable with published scores"
MATCHED = {
    "parameters": "Every scheme has the reference's number of parameters in its body (without embeddings and head); "
    "FLOPs differ.",
    "flops": "Every scheme has the reference's FLOPs per token. A scheme whose step costs more takes fewer, longer "
    "steps, so parameters differ.",
    "none": "Nothing was matched: every scheme has the same widths and depth.",
}
LOSS_SPLITS = {"training": "train", "validation": "valid", "test": "test"}  # as readers call them, and as runs do
NOTE_ON_LOSSES = (
    "Training losses are means over the last tenth of the steps, with the dropout and label smoothing of the recipe. "
    "The others are losses of the weights that were kept."
)


class Block(NamedTuple):
    """Rows that are compared with the first of them; the comparison has a name if several share a table."""

    name: str
    result: Comparison
    rows: Sequence[Row]


def comparison_tables(result: Comparison) -> list[Table]:
    """The tables of one comparison, with a row per scheme at the setting that validation chose."""
    block = [Block("", result, result.rows)]
    tests = tables_of_test_sets(block)
    return [main_table(block), *tests, losses_table(block), matched_table(result), runs_table(result)]


def tables_together(results: Sequence[tuple[str, Comparison]]) -> list[Table]:
    """Comparisons in common tables, with a row per scheme and setting of a sweep.

    Each is named after its task; if several have the same task, also after its folder. Comparisons whose test sets have
    the same scores share a table of test sets.
    """
    blocks, alike, tasks = list[Block](), dict[object, list[Block]](), Counter(result.task for _, result in results)
    for folder, result in results:
        name = result.task if tasks[result.task] == 1 else f"{result.task} ({folder})"
        blocks += [Block(name, result, rows) for rows in by_setting(result)]
        scores = tuple((one.key, one.name, one.signature, one.comparable) for one in main_scores(result))
        alike.setdefault(scores, []).append(Block(name, result, result.rows))
    tested = [table for group in alike.values() for table in tables_of_test_sets(group)]
    return [main_table(blocks), *tested, losses_table(blocks)]


def by_setting(result: Comparison) -> list[Sequence[Row]]:
    """The rows of each setting, compared with the first scheme at the same one."""
    found = [rows_of([t for t in result.counted if t.setting == setting], result.metric) for setting in result.sweep]
    return [rows for rows in found if rows] or [result.rows]


def scheme_name(one: Named) -> str:
    """A scheme by its name, else by its notation, with its arm if it has one; or an arm that says all."""
    name = row_name(one)
    return name if name != one.scheme else Code(shortened(name))


def scheme_cell(row: Row) -> tuple[str, ...]:
    """The name with its notation, the setting of a sweep, and how many runs failed."""
    names = [row.name] if row.name != row.scheme else []
    counts = {"diverged": row.diverged, "not finite": row.not_finite}
    lost = [f"{n} of {row.diverged + row.finished} {what}" for what, n in counts.items() if n]
    return *names, Code(shortened(row.scheme)), *row.setting, *lost


def main_table(blocks: Sequence[Block]) -> Table:
    """The test metric of each row, its difference to the first row's, and what the row cost."""
    designed = any(block.result.design for block in blocks)
    records = [record for block in blocks for record in main_records(block, designed)]
    title = "Figures" if designed else ""
    return Table.of(records, title, list(dict.fromkeys(reading_note(block.result) for block in blocks)))


def main_records(block: Block, designed: bool) -> list[Record]:
    """The rows of one comparison; arms that are named alone have the differences of the verdict, and what else it
    says of them, if some comparison of the table is `designed`."""
    known = {one.arm: one for one in findings(block.result)[1:]} if block.result.design else {}
    leads = {arm: one.decision.lead for arm, one in known.items()}
    if not block.result.metric.higher_is_better:
        leads = {arm: lead and lead.turned for arm, lead in leads.items()}
    first, unit = block.rows[0].name, unit_of(block.result.metric)
    more = {row.name: lead_record(first, known.get(row.arm), unit) if designed else {} for row in block.rows}
    return [main_record(block, row, leads.get(row.arm, row.difference), more[row.name]) for row in block.rows]


def main_record(block: Block, row: Row, difference: Estimate | None, more: Record) -> Record:
    """A row of the main table."""
    form, title, rate = block.result.metric.format, title_of(block.result.metric), row.tokens_per_second
    return {
        TASK: block.name,
        Column("metric", text=True, grouped=True): title if block.name else "",
        SCHEME: scheme_cell(row),
        Column(("test" if block.name else f"{title}, test", "[95%]")): estimated(row.test, form),
        AGAINST: "" if row is block.rows[0] else difference_of(difference, form),
        **more,
        Column("valid", detail=NOT_IN_MARKDOWN): "-" if row.valid is None else form.format(row.valid.mean),
        Column("parameters"): f"{row.cost.parameters:,}",
        Column("FLOPs/token", below=True): f"{row.cost.flops:,}",
        Column("seconds", detail=NOT_IN_MARKDOWN): f"{row.seconds:,.1f}",
        Column("tokens/s", detail=NOT_IN_MARKDOWN, below=True): "-" if rate is None else f"{rate:,.0f}",
    }


def reading_note(result: Comparison) -> str:
    """How to read the main table."""
    better = "higher" if result.metric.higher_is_better else "lower"
    options = (result.made.recipe or {}).get("train", {})
    averaged = f"the mean of its last {options.get('average')} snapshots"
    kept = averaged if options.get("keep") == "average" else "the weights of its best validation step"
    others = len(result.rows) - 1
    joint = " and hold for all arms at once" if result.design and others > 1 else ""
    if result.design and len(result.design.budgets) > 1:
        joint += "; multiplier: how many times as much the worse arm takes for its loss"
    what = {"parameters": "parameters of the body", "flops": "FLOPs per token", "none": "nothing"}[result.match]
    return (
        f"{title_of(result.metric)}: {better} is better; mean over {counted(len(result.seeds), 'seed')}, each with "
        f"{kept}. Intervals: 95%, Student's t over seeds; differences to {result.rows[0].name} are "
        f"paired by seed{joint}. Matched: {what}, to {label(result.reference)}.{warnings(result)}"
    )


def warnings(result: Comparison) -> str:
    """What to know before comparing figures: which are missing, and whether runs shared the machine."""
    finished = [one for one in observed(result.counted) if one.finished]
    at_once = (result.made.engine or "").removeprefix("local=")
    lost = {"Diverged": len(result.counted) - len(finished), "Figures not finite": lacking(finished, result.metric)}
    said = [f" {what}, and left out of the means: {counted(n, 'run')}." for what, n in lost.items() if n]
    if at_once.isdecimal() and int(at_once) > 1:
        said.append(f" Seconds and tokens/s: with {at_once} runs at once.")
    return "".join(said)


def all_scores(result: Comparison) -> list[ScoreEstimate]:
    """The scores of the test sets, the metric first."""
    found = next((one.scores for one in result.tests if one.scores), ())
    return sorted(found, key=lambda score: score.key != result.metric.name)


def main_scores(result: Comparison) -> list[ScoreEstimate]:
    """The scores for a short table: exact matches only if they are the metric."""
    return [one for one in all_scores(result) if one.key != EXACT_MATCH.name or one.key == result.metric.name]


def tables_of_test_sets(blocks: Sequence[Block]) -> list[Table]:
    """Every scheme on every test set with all its scores, and the signatures of these, the same for all blocks."""
    scores, main = all_scores(blocks[0].result), main_scores(blocks[0].result)
    if not scores:
        return []
    records = [record_of_test_set(block, one, scores, main) for block in blocks for one in block.result.tests]
    notes = dict.fromkeys(note_on_test_sets(block.result) for block in blocks)
    heads = Column("score", text=True), Column("signature", text=True)
    signatures = [(one.name, (Code(one.signature), "" if one.comparable else f"(*: {NOT_COMPARABLE})")) for one in main]
    rest = [f"{one.name}: {one.signature}." for one in scores if one not in main]
    return [Table.of(records, "Test sets", list(notes)), Table(heads, signatures, notes=rest)]


def record_of_test_set(
    block: Block, one: OnTestSet, scores: Sequence[ScoreEstimate], main: Sequence[ScoreEstimate]
) -> Record:
    metric, *others = scores
    found, pairs = one.score(metric.key), [f"{p.seed}: {p.difference:+.2f}, p {p.p:.3f}" for p in one.pairs]
    means = {score.key: f"{score.mean.mean:.2f}{'' if score.comparable else '*'}" for score in one.scores}
    return {
        Column("test set", text=True, grouped=True): (f"{block.name} {one.split}".strip(), counted(one.lines, "line")),
        SCHEME: scheme_name(one),
        Column((metric.name, "[95%]")): estimated(found and found.mean, block.result.metric.format),
        AGAINST: difference_on_test_set(block.result, one),
        Column(("seeds apart", "p below 0.05")): significant_seeds(one),
        Column("seed by seed", detail=ON_PAGES): ("", *pairs) if pairs else "",
    } | {
        Column(other.name, below=other is not others[0], detail=EVERYWHERE if other in main else ON_PAGES): means.get(
            other.key, "-"
        )
        for other in others
    }


def difference_on_test_set(result: Comparison, one: OnTestSet) -> Cell:
    """The difference to the first scheme with its interval; one seed has an interval over sentences alone."""
    if one.difference is None:
        first = result.rows[0]
        return "" if (one.scheme, one.arm) == (first.scheme, first.arm) else "-"
    alone = ["(sentences alone)"] if one.difference.n == 1 else []
    return *lines(difference_of(one.difference, result.metric.format)), *alone


def significant_seeds(one: OnTestSet, level: float = 0.05) -> Cell:
    """How many seeds differ significantly from the first scheme's, and in which direction."""
    better = [pair.difference > 0 for pair in one.pairs if pair.p < level]
    return (f"{sum(better)} better", f"{len(better) - sum(better)} worse of {len(one.pairs)}") if one.pairs else ""


def note_on_test_sets(result: Comparison) -> str:
    """How to read the table of test sets."""
    first, sentences = result.rows[0].name, ["Scores are means over seeds, with Student's t intervals."]
    counts = [one.difference.n for one in result.tests if one.difference is not None]
    if counts:
        several = "Student's t over seeds and a paired bootstrap over sentences, together"
        how = several if max(counts) > 1 else "paired bootstrap over sentences alone: there is only one seed"
        sentences.append(
            f"Differences to {first} are of {title_of(result.metric)}, seed by seed; intervals: 95%, {how}. p: paired "
            f"bootstrap over sentences, two-sided, of each seed against {first}'s."
        )
    if not all(score.comparable for score in all_scores(result)):
        sentences.append(f"*: {NOT_COMPARABLE}, for the references are not published text.")
    return " ".join(sentences)


def losses_table(blocks: Sequence[Block]) -> Table:
    """The losses of each row in training, validation and test."""
    columns = [TASK, SCHEME, *(column for split in LOSS_SPLITS for column in (Column(f"{split} loss"), AGAINST))]
    rows = [[block.name, scheme_cell(row), *loss_cells(block, row)] for block in blocks for row in block.rows]
    note = f"{NOTE_ON_LOSSES} Differences are to {shortened(blocks[0].result.rows[0].name)}, seed by seed."
    return Table(columns, rows, "Losses at the end", [note], ON_PAGES, "losses")


def loss_cells(block: Block, row: Row) -> Iterator[Cell]:
    """For each split the mean loss, and its difference to the first row's."""
    for split in LOSS_SPLITS.values():
        own, first = (sample(observed(block.result.chosen(one)), loss_on(split)) for one in (row, block.rows[0]))
        mean, difference = own.mean(), own.minus(first)
        yield f"{mean.mean:.3f}" if mean else "-"
        yield estimated(difference, "{:+.3f}") if difference and row is not block.rows[0] else ""


def matched_table(result: Comparison) -> Table:
    """Shapes and costs, and how far each scheme is from the reference."""
    heads = ("layers", "step", "width", "feed-forward", "body parameters", "FLOPs/token", "against the reference")
    columns = [SCHEME, *map(Column, heads), Column("changed, and its dropouts", text=True)]
    rows = [
        [scheme_cell(row)[0], str(row.shape.layers), f"{row.shape.step:g}", str(row.shape.width),
         widths(row.scheme, row.shape), f"{row.cost.body:,}", f"{row.cost.flops:,}",
         "-" if row.matched is None else f"{row.matched.difference:+.3%}", result.changed.get(row.arm, "")]
        for row in result.rows
    ]  # fmt: skip
    note = f"{MATCHED[result.match]} The reference is {label(result.reference)}, in the shape of the recipe."
    return Table(columns, rows, "What was matched", [note], ON_PAGES)


def runs_table(result: Comparison) -> Table:
    """Every run, including those of settings that were not chosen."""
    name, form = result.metric.name, result.metric.format
    chosen = {(row.scheme, row.arm, row.setting): "yes" for row in result.rows} if result.sweep else None
    rows = [
        [scheme_name(t), ", ".join(t.setting),
         chosen.get((t.scheme, t.arm, t.setting), "no") if chosen else "",
         str(t.seed), status_cell(t), *(form.format(found[name]) if found else "-" for found in (t.valid, t.test)),
         kept_text(t.kept, t.best_step, t.steps), f"{t.seconds:,.1f}"]
        for t in result.trials
    ]  # fmt: skip
    heads = ("setting", "chosen", "seed", "status", "valid", "test", "weights", "seconds")
    note = "Each scheme was trained at every setting; its row above has the best mean validation figure."
    notes = [note] if result.sweep else []
    return Table([SCHEME, *map(Column, heads)], rows, "All runs", notes, ON_PAGES, stacked=False)


def kept_text(kept: Kept | None, best_step: int | None, steps: int) -> str:
    """Which weights a run ended with; older documents hold only the best step."""
    if kept is None or kept.by == "best":
        by = f", the best by {kept.figure.replace('_', ' ')}" if kept and kept.figure else ""
        return "-" if best_step is None else f"{best_step:,} of {steps:,}{by}"
    return f"the mean of {len(kept.steps)}, steps {kept.steps[0]:,} to {kept.steps[-1]:,}" if kept.steps else "-"


def widths(notation: str, shape: Shape) -> str:
    """The feed-forward widths, half by half: "F 256" or "F0 128, F1 128"."""
    ffn = shape.ffn
    if not notation:  # of a network that others designed
        return str(ffn)
    names = feed_forwards(scheme(notation))
    lists = [ffn[i :: len(names)] if isinstance(ffn, list) else [ffn] for i in range(len(names))]
    return ", ".join(f"{name} {span(found)}" for name, found in zip(names, lists, strict=True)) or "none"
