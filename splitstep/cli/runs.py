"""The verbs for a single run: train, evaluate, translate, generate."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..recipes import find_recipe
from .options import Data, Json, Out
from .output import Output

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..recipe import Recipe
    from ..tasks.measures import Metric
    from ..training.result import Divergence, RunResult, SplitResult

DIVERGED = 1  # the exit code: the input was right, and yet there is no model

Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Recipe entries to change, such as train.steps=2000."),
]
RunOut = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", help="A new directory for the run, or an interrupted one. Default: runs/RECIPE."
    ),
]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="The directory of a finished run.")]
Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="A finished run, a model's folder, a GGUF file, or a model's name on the Hub."
    ),
]
Beams = Annotated[
    int | None,
    typer.Option("--beams", help="The number of beams to translate with; 1 is greedy. Default: as in the recipe."),
]
Penalty = Annotated[
    float | None,
    typer.Option(
        "--length-penalty", help="Divide a beam's score by its length to this power. Default: as in the recipe."
    ),
]


def train(
    context: typer.Context,
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="A recipe by name, such as digits, or a YAML file.")],
    overrides: Overrides = None,
    out: RunOut = None,
    data: Data = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also log to DIR/tensorboard.")] = False,
    as_json: Json = False,
) -> None:
    """Train the model of a recipe. If the run is stopped or killed, the same command continues it.

    \b
    Example:
      splitstep train digits
      splitstep train enwik8 scheme=macaron train.steps=20000 --out runs/e8
      accelerate launch -m splitstep train enwik8 --out runs/e8

    Ctrl-C saves a checkpoint before it stops. If the run diverges, the result says at which step; the exit code is 1.
    """
    file = find_recipe(recipe)  # refuses a wrong name before torch is imported
    out = out or default_out(file)
    from ..recipe import load_recipe

    run_and_tell(context, load_recipe(recipe, overrides or []), out, data, tensorboard, as_json)


def run_and_tell(
    context: typer.Context, recipe: Recipe, out: Path, data: Path | None, tensorboard: bool, as_json: bool
) -> None:
    """Train a recipe, or continue it, and print its result."""
    from ..training import train as run
    from ..training.processes import Stop, Stopped

    prints = os.environ.get("RANK", "0") == "0"  # one of several processes
    stop = Stop(signal.SIGINT, signal.SIGTERM)
    try:
        result = run(recipe, out, data, tensorboard=tensorboard, stop=stop)
    except Stopped as stopped:
        if prints:
            print(f"The run {stopped}. To continue: {shlex.join(context.obj)}", file=sys.stderr)
        raise typer.Exit(128 + stopped.number) from None
    if prints:
        Output(as_json, None).emit(result.document(), lambda: _run_table(result, out))
    if result.diverged:
        if prints:
            sys.stdout.flush()
            told = (
                f"The run diverged at step {result.diverged.step} (loss {result.diverged.loss}), so there is no model"
            )
            print(f"{told}: lower train.lr, or raise train.warmup, with another --out.", file=sys.stderr)
        raise typer.Exit(DIVERGED)


def default_out(recipe: Path) -> Path:
    """Where a run goes if nobody says so: the run's own directory if the recipe lies there, else runs/NAME."""
    run = recipe.parent
    return run if (run / "environment.json").is_file() else Path("runs") / recipe.stem


def _run_table(result: RunResult, out: Path) -> RenderableType:
    from ..schemes import label
    from ..studies.compare.tables import kept_text, widths
    from ..support.words import counted
    from ..tasks.measures import title_of

    metric, cost, shape, diverged = result.metric, result.cost, result.shape, result.diverged
    name, notation = label(result.scheme.notation), result.scheme.notation
    scheme = name + ("" if name == notation else f", {notation}")
    rate, splits = result.tokens_per_second, result.splits or {}

    def figure(values: Mapping[str, float] | None) -> str:
        return metric.format.format(values[metric.name]) if values else "-"

    rows = [
        ("status", _status(diverged)),
        ("kind", f"{result.kind}, its layers read as {notation}") if result.kind else ("scheme", scheme),
        (title_of(metric), f"test {figure(result.test)}, valid {figure(result.valid)}"),
        *((f"  {split}", f"{figure(one.figures)}; {_scores(one, metric)}") for split, one in splits.items()),
        ("weights", kept_text(result.kept, result.best_step, result.steps)),
        ("parameters", f"{cost.parameters:,} ({cost.body:,} without embeddings and head)"),
        ("FLOPs per token", f"{cost.flops:,} at length {cost.length:,}"),
        ("shape", f"{counted(shape.layers, 'layer')}, width {shape.width}, ffn {widths(notation, shape)}"),
        *_made(result),
        *([("start", result.start.path)] if result.start else []),
        ("time", f"{result.seconds:,.1f} s" + (f", {rate:,.0f} tokens/s" if rate else "")),
        ("device", f"{result.device}, {result.precision}, {result.mode}"),
        ("model", str(out / "model") if not diverged else "none"),
    ]
    return _pairs(rows)


def _status(diverged: Divergence | None) -> str:
    if diverged is None:
        return "finished"
    return f"diverged at step {diverged.step}, loss {diverged.loss}{diverged.reason and f'; {diverged.reason}'}"


def _scores(found: SplitResult, metric: Metric) -> str:
    """The scores of one split that are not the metric, under their names."""
    return ", ".join(f"{one.name} {one.value:.2f}" for one in found.scores if one.key != metric.name)


def _made(result: RunResult) -> list[tuple[str, str]]:
    """What a network of a scheme was matched to, and what a run learnt from if not from its task alone."""
    from ..recipe import objective_text

    recipe, objective = result.recipe, objective_text(result.recipe.get("objective", "task"))
    rows = [("matched", _matched(result))] if recipe.get("network", "scheme") == "scheme" else []
    return rows + ([("objective", objective)] if objective != "task" else [])


def _matched(result: RunResult) -> str:
    """What the model's cost was matched to, in one line."""
    from ..schemes import label

    if result.matched is None:
        return "the reference itself" if result.recipe["scheme"] == result.recipe["reference"] else "nothing"
    return f"{result.matched.by} of {label(result.matched.reference)}, difference {result.matched.difference:+.3%}"


def _pairs(rows: Sequence[tuple[str, str]]) -> RenderableType:
    """Two columns, names and values."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")  # nothing is cut on a narrow terminal
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def evaluate(
    model: Model,
    options: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="With --task: options of the task, such as data.length=64."),
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", metavar="NAME", help="The task of a model that is not a run.")
    ] = None,
    split: Annotated[str, typer.Option("--split", help="The split to evaluate on, such as valid or test.")] = "test",
    beams: Beams = None,
    length_penalty: Penalty = None,
    data: Data = None,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Evaluate a run's model on a split of its data. Translators are also scored by BLEU and chrF.

    A model that is not a run needs a --task with the same tokens or classes.

    \b
    Example:
      splitstep evaluate runs/digits
      splitstep evaluate runs/digits --split valid --json
      splitstep evaluate runs/m30k --split test2016
      splitstep evaluate runs/digits/model --task digits
      splitstep evaluate my-model --task text data.path=notes.txt
    """
    from ..inference.evaluate import evaluate_model, evaluate_run
    from ..inference.translate import SearchOverrides
    from ..support.words import counted
    from ..training.progress import counting

    output = beside(Path(model), as_json, out)
    evaluated, translated = counting("evaluated", unit="batches"), counting("translated")
    wanted = SearchOverrides(beams, length_penalty)
    if task is None:
        result = evaluate_run(_a_run(model, options), split, data, wanted, evaluated, translated)
    else:
        wanted.refuse_for(task)
        result = evaluate_model(model, task, options or [], split, data, evaluated)
    named = result.translated.scores if result.translated else ()
    scored = {one.key for one in named}
    lines = f", {counted(result.translated.lines, 'line')}" if result.translated else ""
    rows = [("split", f"{result.split}{lines}")]
    rows += [(k.replace("_", " "), f"{v:,.6g}") for k, v in result.figures.items() if k not in scored]
    remark = {True: "", False: "  (not comparable: the references are not published text)"}
    rows += [(one.name, f"{one.value:.2f}  {one.signature}{remark[one.comparable]}") for one in named]
    output.emit(result.document(), lambda: _pairs(rows))


def _a_run(model: str, options: Sequence[str] | None) -> Path:
    """The path of a run, whose recipe names its task and the options; other models are refused."""
    from ..training.directory import RunDirectory

    path = Path(model).expanduser()
    if not RunDirectory(path).is_run():
        raise ValueError(
            f"{model} is not a run of splitstep (it has no recipe.yaml): name a run, or say on what to evaluate the "
            "model, such as --task stdlib"
        )
    if options:
        raise ValueError(f"{model} is a run, which has its own data: leave out {options[0]}")
    return path


def translate(
    run: Run, beams: Beams = None, length_penalty: Penalty = None, as_json: Json = False, out: Out = None
) -> None:
    """Translate lines from standard input with a run's model. The training data is not needed.

    \b
    Example:
      splitstep translate runs/mine < in.txt > out.txt
      echo "forty-two" | splitstep translate runs/numbers --beams 1
    """
    if sys.stdin.isatty():
        raise ValueError(f"translate reads lines from standard input: splitstep translate {run} < in.txt > out.txt")
    from ..support.imports import lean, uncollected

    with uncollected(), lean():
        from ..inference.translate import SearchOverrides, translate_run
        from ..text.lines import lines_of
        from ..training.progress import counting

    output = beside(run, as_json, out)
    lines = lines_of(sys.stdin.buffer.read(), "standard input")
    found, longer, search = translate_run(run, lines, SearchOverrides(beams, length_penalty), counting("translated"))
    if longer:
        many = "1 line is" if len(longer) == 1 else f"{len(longer):,} lines are"
        print(f"{many} more than twice as long as any in training, line {longer[0]} first.", file=sys.stderr)
    how = {"beams": search.beams, "length_penalty": search.length_penalty}
    output.emit({"run": str(run), **how, "lines": found, "longer": longer}, lambda: "".join(f"{x}\n" for x in found))


def generate(
    model: Model,
    prompt: Annotated[str, typer.Option("--prompt", help="The text to continue.")] = "The ",
    tokens: Annotated[int, typer.Option("--tokens", help="The number of tokens to write.")] = 200,
    temperature: Annotated[
        float, typer.Option("--temperature", help="The sampling temperature; 0 always takes the likeliest token.")
    ] = 1.0,
    top_k: Annotated[int | None, typer.Option("--top-k", help="Draw only from this many likeliest tokens.")] = None,
    top_p: Annotated[
        float | None,
        typer.Option("--top-p", help="Draw only from the likeliest tokens that together have this probability."),
    ] = None,
    stop: Annotated[
        list[str] | None,
        typer.Option("--stop", metavar="WORD", help="End before this text. Several --stop end before the first."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="The seed for sampling.")] = 0,
    data: Data = None,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Continue a prompt with a language model. The text is printed as it comes.

    \b
    Example:
      splitstep generate runs/e8 --prompt "The "
      splitstep generate runs/e8 --prompt "The " --tokens 500 --temperature 0.8 --top-p 0.9 --seed 1
      splitstep generate runs/code --prompt "def " --top-k 40 --stop "def " --stop "class "
      splitstep generate model.gguf --prompt "A splitting method is" --tokens 30 --temperature 0
    """
    from ..inference.generate import generate as write
    from ..inference.sampling import Sampling

    output = beside(Path(model), as_json, out)
    how = Sampling(temperature, top_k, top_p, seed)
    result = write(model, prompt, tokens, how, stop or [], data, (lambda piece: None) if as_json else _print_at_once)
    output.emit(result.document(), lambda: "\n")  # all but the end of the line is there already


def _print_at_once(piece: str) -> None:
    sys.stdout.write(piece)
    sys.stdout.flush()


def beside(run: Path, as_json: bool, out: Path | None) -> Output:
    """The output of a verb that reads a run; it must not overwrite the run's own result."""
    if out is not None and out.resolve() == run.resolve():
        raise ValueError(f"--out {out} is the run's own directory, with its own result: name another one.")
    return Output(as_json, out).open()
