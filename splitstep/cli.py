"""The verbs of the command line. Each is one function: read the input, call a study, hand its result to `Output`.

The contract of every verb: `--json` prints one JSON document on standard output and nothing else there; `--out DIR`
writes the same document to DIR/result.json; wrong input ends with one line on standard error and exit code 2.
A verb imports what it needs when it runs, so that `--help` is quick.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.main import get_command

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from .studies.comparison import Comparison, Row
    from .studies.orders import Orders
    from .training import Recipe

WRONG_INPUT, INTERRUPTED, PIPE_CLOSED = 2, 130, 141

# Typer stands on click or on its own copy of it, depending on the release; its BadParameter says which.
_click: Any = import_module(typer.BadParameter.__module__)

app = typer.Typer(add_completion=False, rich_markup_mode=None)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Write the document to DIR/result.json.")]


class Output(NamedTuple):
    """Where a result goes: a table for people or JSON for programs, and a file beside either."""

    as_json: bool
    out: Path | None

    def open(self) -> Output:
        """Make the directory, before work begins that would be lost without it."""
        self.check()
        if self.out is not None:
            self.out.mkdir(parents=True, exist_ok=True)
        return self

    def check(self) -> Output:
        """Refuse what cannot be a directory."""
        if self.out is not None and self.out.exists() and not self.out.is_dir():
            raise ValueError(f"--out {self.out} is not a directory: name one that is, or a new one.")
        return self

    def emit(self, document: Any, table: Callable[[], RenderableType]) -> None:
        """Write the document where it goes; people get the table, or the text as it stands where it is a str."""
        text = json.dumps(document, indent=2, allow_nan=False) + "\n"
        if self.out is not None:
            from .files import write_atomically

            write_atomically(self.out / "result.json", text)
        if self.as_json:
            sys.stdout.write(text)
        else:
            shown = table()
            if not isinstance(shown, str):
                shown = _drawn(shown)
            sys.stdout.write(shown)


def _drawn(table: RenderableType) -> str:
    from rich.console import Console

    console = Console(highlight=False)
    with console.capture() as captured:  # rich would leave on a closed pipe by itself
        console.print(table)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


@app.callback()
def splitstep() -> None:
    """A Transformer is a splitting scheme: build, train and compare them.

    \b
    Example:
      splitstep schemes
      splitstep schemes "F/2 A F/2 @midpoint" macaron --measure
    """


@app.command()
def schemes(
    notations: Annotated[
        list[str] | None,
        typer.Argument(metavar="NOTATION", help="Rows' names or notations; without any, the whole table."),
    ] = None,
    measure: Annotated[bool, typer.Option("--measure", help="Add orders measured in float64.")] = False,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Show schemes with their cost and their orders, computed from the notation.

    \b
    Example:
      splitstep schemes
      splitstep schemes "F/2 A F/2 @midpoint" "A+F @rk4" --measure
      splitstep schemes --measure --json --out results/schemes

    A notation that starts with a minus sign goes after `--`.
    """
    from .schemes import scheme
    from .studies.orders import orders

    texts = [str(scheme(text)) for text in notations or []]
    output = Output(as_json, out).open()
    result = orders(texts, measure)
    output.emit(result.document(), lambda: _orders_table(result))


def _orders_table(result: Orders) -> RenderableType:
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("scheme", no_wrap=True)
    table.add_column("notation", min_width=16)
    for head in ["evals", "split", "order", *(["f(x)", "f(t,x)"] if result.measured else [])]:
        table.add_column(head, justify="right", no_wrap=True)
    for row in result.rows:
        numbers = [str(row.evaluations), row.splitting, row.shown_order, *(f"{v:.2f}" for v in row.measured or ())]
        table.add_row(*map(Text, [row.name or "", _shortened(row.notation), *numbers]))
    return Group(table, Text(f"\n{NOTE}{MEASURED if result.measured else ''}"))


NOTE = (
    'evals: field evaluations per step. split: the order with exact sub-flows, "exact" where nothing is split. '
    "order: of the whole step; with own weights (F0, F1) that of the tied form; Strang with Euler sub-flows is first "
    "order."
)
MEASURED = " f(x), f(t,x): measured in float64 on smooth fields without and with time."


def _shortened(notation: str) -> str:
    """The notation with long decimals cut, for reading."""
    return re.sub(r"(\d\.\d{3})\d{5,}(e[-+]?\d+)?", r"\1..\2", notation)


Data = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="The data directory; else $SPLITSTEP_DATA, else ./data.")
]
Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Entries of the recipe, such as train.steps=2000.")
]
NewDirectory = Annotated[Path, typer.Option("--out", metavar="DIR", help="The directory; the same one goes on.")]


@app.command()
def train(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="A YAML file, such as recipes/digits.yaml.")],
    overrides: Overrides = None,
    *,
    out: NewDirectory,
    data: Data = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Log to DIR/tensorboard too.")] = False,
    as_json: Json = False,
) -> None:
    """Train a recipe; started again after a kill, go on from the last checkpoint.

    \b
    Example:
      splitstep train recipes/digits.yaml --out runs/digits
      splitstep train recipes/enwik8.yaml scheme=macaron train.steps=20000 --out runs/e8
      accelerate launch -m splitstep train recipes/enwik8.yaml --out runs/e8

    A loss that diverges is a result too: the table says at which step.
    """
    from .training import load_recipe
    from .training import train as run

    document = run(load_recipe(recipe, overrides or []), out, data, tensorboard=tensorboard)
    if os.environ.get("RANK", "0") == "0":  # of several processes, one speaks
        Output(as_json, None).emit(document, lambda: _run_table(document, out))


def _run_table(document: Mapping[str, Any], out: Path) -> RenderableType:
    from .studies.wording import kept_text, label, widths
    from .tasks.task import title_of

    metric, cost, shape = document["metric"], document["cost"], document["shape"]
    notation = document["scheme"]["notation"]

    def figure(split: str) -> str:
        values = document.get(split)
        return metric["format"].format(values[metric["name"]]) if values else "-"

    diverged = document.get("diverged")
    rate = document["tokens_per_second"]
    rows = [
        ("status", f"diverged at step {diverged['step']}, loss {diverged['loss']}" if diverged else "finished"),
        ("scheme", label(notation) + ("" if label(notation) == notation else f", {notation}")),
        (title_of(metric), f"test {figure('test')}, valid {figure('valid')}"),
        *((f"  {split}", _scores(found, metric)) for split, found in document.get("splits", {}).items()),
        ("weights", kept_text(document.get("kept"), document["best_step"], document["steps"])),
        ("parameters", f"{cost['parameters']:,} ({cost['body']:,} without embeddings and head)"),
        ("FLOPs per token", f"{cost['flops']:,} at length {cost['length']:,}"),
        ("shape", f"{shape['layers']} layers, width {shape['width']}, ffn {widths(notation, shape)}"),
        ("matched", _matched(document["matched"])),
        ("time", f"{document['seconds']:,.1f} s" + (f", {rate:,.0f} tokens/s" if rate else "")),
        ("device", f"{document['device']}, {document['precision']}, {document['mode']}"),
        ("model", str(out / "model") if not diverged else "none"),
    ]
    return _pairs(rows)


def _scores(found: Mapping[str, Any], metric: Mapping[str, Any]) -> str:
    """The metric of one split, and the other scores under their names."""
    others = [one for one in found["scores"] if one["key"] != metric["name"]]
    first = metric["format"].format(found["figures"][metric["name"]])
    return f"{first}; " + ", ".join(f"{one['name']} {one['value']:.2f}" for one in others)


def _matched(matched: Mapping[str, Any] | None) -> str:
    """What an equal-cost twin was matched to, in one line."""
    from .studies.wording import label

    if matched is None:
        return "the reference itself"
    return f"{matched['by']} of {label(matched['reference'])}, difference {matched['difference']:+.3%}"


def _pairs(rows: Sequence[tuple[str, str]]) -> RenderableType:
    """Two columns, names and values."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(*map(Text, row))
    return table


Beams = Annotated[
    int | None, typer.Option("--beams", help="Of a translator's search; 1 is greedy. Else as the recipe says.")
]
Penalty = Annotated[
    float | None,
    typer.Option("--length-penalty", help="The power of the length that scores are divided by. Else the recipe's."),
]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="A directory that `splitstep train` wrote.")]


def _beside(run: Path, as_json: bool, out: Path | None) -> Output:
    """The output of a verb that reads a run, which must not overwrite the run's own result."""
    if out is not None and out.resolve() == run.resolve():
        raise ValueError(f"--out {out} is the run itself, which keeps its own result: name another directory.")
    return Output(as_json, out).open()


@app.command()
def evaluate(
    run: Run,
    split: Annotated[str, typer.Option("--split", help="train, valid or test, as the task has them.")] = "test",
    beams: Beams = None,
    length_penalty: Penalty = None,
    data: Data = None,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Print the figures of a run's model; of a translator, its BLEUs and chrF on translations too.

    \b
    Example:
      splitstep evaluate runs/digits
      splitstep evaluate runs/digits --split valid --json
      splitstep evaluate runs/m30k --split test2016
    """
    from .studies.trained import Wanted, evaluate_run

    output = _beside(run, as_json, out)
    result = evaluate_run(run, split, data, Wanted(beams, length_penalty), _counting("translated"))
    named = result.translated.scores if result.translated else ()
    scored = {one.key for one in named}
    rows = [(k.replace("_", " "), f"{v:.6g}") for k, v in result.figures.items() if k not in scored]
    rows += [(one.name, f"{one.value:.2f}  {one.signature}{_remark(one.comparable)}") for one in named]
    output.emit(result.document(), lambda: _pairs(rows))


def _remark(comparable: bool) -> str:
    return "" if comparable else "  (not comparable: the references are no published text)"


@app.command()
def translate(
    run: Run,
    beams: Beams = None,
    length_penalty: Penalty = None,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Translate standard input line by line with a run's model; needs none of its data.

    \b
    Example:
      splitstep translate runs/mine < in.txt > out.txt
      echo "forty-two" | splitstep translate runs/numbers --beams 1
    """
    if sys.stdin.isatty():
        raise ValueError(f"translate reads lines from standard input: splitstep translate {run} < in.txt > out.txt")
    from .imports import lean, uncollected

    with uncollected(), lean():
        from .studies.trained import Wanted, translate_run
        from .tasks.text_pairs.lines import lines_of

    output = _beside(run, as_json, out)
    lines = lines_of(sys.stdin.buffer.read(), "standard input")
    found, longer, search = translate_run(run, lines, Wanted(beams, length_penalty), _counting("translated"))
    if longer:
        print(f"{len(longer)} lines are longer than any in training, line {longer[0]} first.", file=sys.stderr)
    how = {"beams": search.beams, "length_penalty": search.length_penalty}
    output.emit({"run": str(run), **how, "lines": found, "longer": longer}, lambda: "".join(f"{x}\n" for x in found))


def _counting(done: str) -> Callable[[int, int], None]:
    """Progress on standard error: one line that counts up on a terminal, a line now and then elsewhere."""
    import time

    last = time.monotonic()

    def show(number: int, total: int) -> None:
        nonlocal last
        if sys.stderr.isatty():
            print(f"\r{done} {number}/{total} lines", end="\n" if number == total else "", file=sys.stderr, flush=True)
        elif time.monotonic() - last > 10:
            last = time.monotonic()
            print(f"{done} {number}/{total} lines", file=sys.stderr, flush=True)

    return show


@app.command()
def generate(
    run: Run,
    prompt: Annotated[str, typer.Option("--prompt", help="The text to go on from.")] = "The ",
    tokens: Annotated[int, typer.Option("--tokens", help="How many to write.")] = 200,
    temperature: Annotated[float, typer.Option("--temperature", help="0 takes the likeliest each time.")] = 1.0,
    seed: Annotated[int, typer.Option("--seed", help="Of the random numbers.")] = 0,
    data: Data = None,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Let the language model of a run go on from a prompt.

    \b
    Example:
      splitstep generate runs/e8 --prompt "The "
      splitstep generate runs/e8 --prompt "The " --tokens 500 --temperature 0.8 --seed 1
    """
    from .studies.trained import generate as write

    output = _beside(run, as_json, out)
    result = write(run, prompt, tokens, temperature, seed, data)
    output.emit(result.document(), lambda: f"{result.prompt}{result.text}\n")


@app.command()
def compare(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RECIPE] [KEY=VALUE]...", help="A YAML file, and entries of it to change."),
    ] = None,
    *,
    context: typer.Context,
    task: Annotated[
        str | None, typer.Option("--task", help="A task by name, with the recipe that it comes with.")
    ] = None,
    schemes: Annotated[str, typer.Option("--schemes", help="Rows' names or notations, with commas between.")],
    seeds: Annotated[int, typer.Option("--seeds", help="How many: 5 means seeds 0 to 4.")] = 5,
    out: NewDirectory,
    match: Annotated[str | None, typer.Option("--match", help="What is equal: parameters, flops or none.")] = None,
    sweep: Annotated[
        list[str] | None,
        typer.Option("--sweep", metavar="KEY=VALUE,...", help="Values to try for each scheme, chosen on validation."),
    ] = None,
    engine: Annotated[str, typer.Option("--engine", help="local, local=N or dask=ADDRESS.")] = "local",
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Train schemes at equal cost with several seeds: a table with intervals, and DIR/report.html.

    \b
    Example:
      splitstep compare --task digits --schemes lie,macaron,strang-midpoint --seeds 5 --out runs/digits
      splitstep compare recipes/stdlib.yaml train.steps=500 --schemes "lie,F/2 A F/2" --match flops --out runs/lm
      splitstep compare --task digits --schemes lie,macaron --sweep train.lr=1e-3,3e-3 --out runs/sweep

    The recipe's model is the shape of its reference scheme; every scheme is a twin of it at equal cost. Differences
    are to the first scheme. Started again, it goes on: finished runs are kept.
    """
    from .studies.compare import compare as study
    from .studies.plan import read_sweep, split_schemes

    recipe = _recipe_of(list(words or []), task, match)
    if seeds < 1:
        raise ValueError(f"--seeds {seeds}: give at least 1.")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError("compare starts its own processes: run it without torchrun, with --engine local=N.")
    output = Output(as_json, out).check()  # the first run makes it, once all that was asked for is known to be right
    result = study(
        recipe,
        split_schemes(schemes),
        range(seeds),
        out,
        sweep=read_sweep(sweep or []),
        engine=engine,
        data=data,
        command=shlex.join(context.obj),
    )
    output.emit(result.document(), lambda: _comparison_table(result))
    _draw(result, out)


def _recipe_of(words: list[str], task: str | None, match: str | None) -> Recipe:
    """The recipe that the words name, or the one that comes with the task."""
    from .tasks import TASKS
    from .training import load_recipe

    file = words.pop(0) if words and "=" not in words[0] else None
    if match is not None:
        words.append(f"match={match}")
    if file is None and task is None:
        raise ValueError("Missing task: give --task digits, or a recipe such as recipes/digits.yaml.")
    if file is None and task not in TASKS:
        raise ValueError(f"Unknown task {task!r}.{_nearest(str(task), list(TASKS))}")
    recipe = load_recipe(file or _recipe_file(str(task)), words)
    if task is not None and recipe.task != task:
        raise ValueError(f"--task {task}, and the recipe {file} is for {recipe.task}: leave one of the two out.")
    return recipe


def _recipe_file(task: str) -> str:
    """The recipe that comes with a task: in ./recipes, else in the package's checkout."""
    places = [Path("recipes"), Path(__file__).resolve().parents[1] / "recipes"]
    found = next((place / f"{task}.yaml" for place in places if (place / f"{task}.yaml").is_file()), None)
    if found is None:
        raise ValueError(f"There is no recipes/{task}.yaml here: give a recipe, as in `splitstep compare my.yaml ...`.")
    return str(found)


def _draw(result: Comparison, out: Path) -> None:
    """Write report.html; the result is safe already, so that a missing package is only a remark."""
    from .report import MissingPackage, write_report

    try:
        print(f"Report: {write_report(result, out)}", file=sys.stderr)
    except MissingPackage as error:
        print(f"No report.html: {error}", file=sys.stderr)


@app.command()
def report(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR...", help="What `splitstep compare` wrote.")],
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print one Markdown table; draw nothing.")] = False,
    as_json: Json = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Write result and page there, not where they were.")
    ] = None,
) -> None:
    """Draw report.html again from result.json; nothing is computed.

    \b
    Example:
      splitstep report runs/digits
      splitstep report runs/digits runs/listops --markdown
    """
    from .report import markdown, write_report

    if as_markdown and (as_json or out):
        raise ValueError("--markdown prints a table and nothing else: leave out --json and --out.")
    found = [(directory, *_read_comparison(directory)) for directory in directories]
    if as_markdown:
        sys.stdout.write(markdown([result for _, _, result in found]))
        return
    if len(found) > 1 and (as_json or out):
        raise ValueError(f"{len(found)} directories at once have no single document: leave out --json and --out.")
    output = Output(as_json, out).open()
    for directory, document, result in found:
        page = write_report(result, out or directory)
        output.emit(document, lambda result=result: _comparison_table(result))
        print(f"Report: {page}", file=sys.stderr)


def _read_comparison(directory: Path) -> tuple[Any, Comparison]:
    """The document in a directory that a comparison wrote, and what it says."""
    from .studies.comparison import read_comparison

    file = directory / "result.json"
    if not file.is_file():
        raise ValueError(f"{directory} has no result.json: name a directory that `splitstep compare` wrote.")
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        raise ValueError(f"{file} is damaged: run `splitstep compare` again; finished runs are kept.") from None
    return document, read_comparison(document, str(file))


def _comparison_table(result: Comparison) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    from .tasks.task import title_of

    metric, first = _narrow(title_of(result.metric)), result.rows[0].name
    heads = [f"{metric}, test\n\u00b1 95%", f"against {first}\n\u00b1 95%", "valid", "parameters\nFLOPs/token"]
    table = _table(["scheme"], [*heads, "seconds\ntokens/s"])
    for row in result.rows:
        rate = "-" if row.tokens_per_second is None else f"{row.tokens_per_second:,.0f}"
        cells = [
            "\n".join(filter(None, [_shortened(row.name), *row.setting, _diverged(row)])),
            result.plus_minus(row.test),
            result.plus_minus(row.difference, signed=True) if row is not result.rows[0] else "",
            "-" if row.valid is None else result.shown(row.valid.mean),
            f"{row.cost['parameters']:,}\n{row.cost['flops']:,}",
            f"{row.seconds:,.1f}\n{rate}",
        ]
        table.add_row(*map(Text, cells))
    parts: list[RenderableType] = [table, Text(result.note())]
    if result.scored():
        parts += [Text("\nTest sets\n"), _test_sets_table(result), Text(result.test_note())]
    return Group(*parts)


def _table(texts: Sequence[str], numbers: Sequence[str]) -> Table:
    """An empty table with columns of text and of numbers."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for head in texts:
        table.add_column(head, min_width=8)
    for head in numbers:
        table.add_column(head, justify="right", no_wrap=True)
    return table


def _narrow(head: str) -> str:
    """A head of several short lines."""
    import textwrap

    return textwrap.fill(head, 13)


def _test_sets_table(result: Comparison) -> RenderableType:
    """Every test split: scores over seeds, and differences with their intervals."""
    from rich.text import Text

    from .studies.wording import label

    metric, *rest = result.scored()
    others = [one for one in rest if one.key != "exact_match"]
    heads = [f"{_narrow(metric.name)}\n\u00b1 95%", f"against {result.rows[0].name}\n95%", "seeds\np < 0.05"]
    table = _table(["test set", "scheme"], [*heads, *(one.name for one in others)])
    for one in result.tests:
        cells = [
            f"{one.split}\n{one.lines:,} lines",
            _shortened(label(one.scheme)),
            result.score_text(one.score(metric.key)),
            result.test_difference(one),
            result.told_apart(one),
            *(result.score_text(one.score(other.key)) for other in others),
        ]
        table.add_row(*map(Text, cells))
    return table


def _diverged(row: Row) -> str:
    return f"{row.diverged} of {row.diverged + row.finished} diverged" if row.diverged else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb and return the exit code; what goes wrong becomes one line on standard error."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        atexit.register(gc.freeze)  # else Python looks for garbage among all of transformers as it ends: a second
    try:
        _run(words.copy())
        sys.stdout.flush()
    except typer.Exit as end:
        return end.exit_code
    except _click.UsageError as error:
        return _fail(_explained(error, words))
    except BrokenPipeError:
        _abandon_stdout()
        return PIPE_CLOSED
    except OSError as error:
        if error.filename is None:
            _abandon_stdout()
        return _fail(f"{error.filename or 'standard output'}: {error.strerror or error}.")
    except ValueError as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        return _fail("interrupted.", INTERRUPTED)
    return 0


def _run(words: list[str]) -> None:
    command: Any = get_command(app)
    verbs = sorted(command.commands)
    if not words:
        raise ValueError(f"Missing verb, such as `splitstep schemes`. Verbs: {', '.join(verbs)}. See splitstep --help.")
    if not words[0].startswith("-") and words[0] not in verbs:
        raise ValueError(f"Unknown verb {words[0]!r}.{_nearest(words[0], verbs)} See splitstep --help.")
    with command.make_context("splitstep", words, obj=["splitstep", *words]) as context:
        command.invoke(context)


def _explained(error: Any, words: Sequence[str]) -> str:
    """The usage error, the nearest right option and where to read more."""
    see = f"See {' '.join(['splitstep', *(w for w in words[:1] if not w.startswith('-'))])} --help."
    if not isinstance(error, _click.NoSuchOption):
        return f"{error.format_message()} {see}"
    options = [name for parameter in error.ctx.command.params for name in parameter.opts if name.startswith("--")]
    return f"Unknown option {error.option_name}.{_nearest(error.option_name, [*options, '--help'])} {see}"


def _nearest(word: str, known: Sequence[str]) -> str:
    near = get_close_matches(word, known, 1, 0.5)
    return f" Did you mean {near[0]}?" if near else f" Known: {', '.join(known)}."


def _fail(message: str, code: int = WRONG_INPUT) -> int:
    print("Error:", " ".join(message.splitlines()), file=sys.stderr)
    return code


def _abandon_stdout() -> None:
    """Let nothing more be written where writing failed: the interpreter flushes again on its way out."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
