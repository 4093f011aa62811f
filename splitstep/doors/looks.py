"""Doors that look at networks or build one: orders, closeness to an equation, a look inside, construction."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..hints import network_meant
from .common import check_new, default_folder, kept, recipe_asked
from .door import door

if TYPE_CHECKING:
    from ..approximation import Built
    from ..experiments.result import Result
    from ..studies.approximate import Approximation
    from ..studies.inspect.result import Inspection
    from ..studies.inspect.study import Wish
    from ..studies.orders import Orders
    from .common import Asked
    from .results import Construction


@door
def schemes(
    *notations: str,
    measure: bool = False,
    check: bool = False,
    svg: Path | None = None,
    out: Path | None = None,
    letters: tuple[Path, ...] = (),
) -> Orders:
    """Show the cost and the computed orders of schemes.

    Example:
      splitstep schemes
      splitstep schemes "F/2 A F/2 @midpoint" "A+F @rk4" --measure
      splitstep schemes --measure --json --out results/schemes
      splitstep schemes "A F" "A F D@exact" --check
      splitstep schemes lie macaron --svg picture.svg

    A notation that starts with a minus sign goes after `--`. With --check the exit code is 1 if a promise is broken.

    Parameters:
    notations SCHEME: Names or notations of schemes. Default: all named schemes.
    measure: Also measure the orders numerically, in float64.
    check: Also try whether small models of each kind keep what models promise, such as to see no later token.
    svg FILE: Also draw one step of each.
    out DIR: Also write the result to DIR/result.json, and DIR/report.html.
    """
    from ..schemes import scheme

    texts = [str(scheme(text)) for text in notations]  # refuses a wrong one before torch is imported
    check_new(out)
    from ..studies.orders import orders

    result = orders(texts)
    if measure:
        from ..studies.slopes import with_slopes

        result = with_slopes(result)
    if check:
        from ..studies.promises import with_promises

        result = with_promises(result)
    if svg is not None:
        from ..report.diagram import picture
        from ..support.files import write_atomically

        svg.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(svg, picture([(row.name or row.notation, scheme(row.notation)) for row in result.rows]))
    return kept(result, out)


class Grid(NamedTuple):
    """What is tried of a network: schemes of its fields, sub-steps of a layer, factors of its step."""

    schemes: tuple[str, ...] = ()
    substeps: tuple[int, ...] = ()
    steps: tuple[float, ...] = ()


@door
def converge(
    network: str | None = None,
    *changes: str,
    task: str | None = None,
    depths: tuple[int, ...] = (),
    seeds: int | None = None,
    out: Path | None = None,
    schemes: tuple[str, ...] = (),
    substeps: tuple[int, ...] = (),
    steps: tuple[float, ...] = (),
    examples: int | None = None,
    text: Path | None = None,
    tokens: int | None = None,
    engine: str = "local",
    data: Path | None = None,
    letters: tuple[Path, ...] = (),
) -> Result:
    """Ask whether a network is close to an equation.

    Example:
      splitstep converge runs/digits --schemes lie,strang,rk4 --substeps 1,2,4,8 --steps 0.5,1,2,4
      splitstep converge some-org/some-model --text prompts.txt
      splitstep converge --task digits --depths 3,6,12,24,48

    Of a run: how its output and accuracy change with the scheme, the sub-steps and the step length, and how close it is
    to its continuous limit. Of a pretrained model: how its loss changes with them and with layers merged. With
    --depths: whether deeper networks over the same time approach a limit.

    Parameters:
    network RUN|MODEL|RECIPE: A run; a model's folder, a GGUF file or its name on the Hub; with --depths a recipe.
    changes KEY=VALUE: With --depths: recipe entries to change, such as train.steps=100.
    task NAME: With --depths: use the recipe of this task, if no recipe is named.
    depths LIST: Train networks of these numbers of layers over the same time.
    seeds N: With --depths: the number of seeds. Default: 1.
    schemes LIST: Of a run or a model: schemes of its own fields, separated by commas.
    substeps LIST: Of a run or a model: sub-steps of each layer. Default: 1,2,4,8.
    steps LIST: Of a run or a model: factors of the step. Default: from 0.25 to 4 by the root of 2.
    examples N: Of a run: validation examples. Default: 256.
    text FILE: Of a model: texts, one a line; in a .jsonl file objects with "text". Default: eight that come along.
    tokens N: Of a model: tokens of each text. Default: 64.
    """
    grid, of_models = Grid(schemes, substeps, steps), {"text": text, "tokens": tokens}
    if depths:
        refuse({**grid._asdict(), "examples": examples, **of_models}, "is for a run or a model", "--depths")
        return deepen(recipe_asked("converge", network, changes, task), depths, seeds, out, engine, data)
    if (Path(name := one_network(network, *changes, task, seeds)) / "recipe.yaml").is_file():
        refuse(of_models, "is for a pretrained model", "the run")
        return discretise(Path(name), out, grid, examples, data)
    refuse({"examples": examples, "data": data}, "is for a run of splitstep", "the model")
    return discretise_model(name, out, grid, text, tokens)


def one_network(name: str | None, *others: object) -> str:
    """The network that is named, unless none is or something else is there."""
    if name is None or any(other is not None for other in others):
        raise ValueError(
            "converge takes one run or model, as in `splitstep converge runs/digits`, or --depths, as in `splitstep "
            "converge --task digits --depths 3,6,12,24`."
        )
    if meant := network_meant(name):
        raise ValueError(f"{meant}; or train deeper and deeper networks of a recipe: add --depths 3,6,12")
    return name


def refuse(options: Mapping[str, object], why: str, instead: str) -> None:
    """Refuse options that do not go with something else."""
    for name, value in options.items():
        if value not in (None, ()):
            raise ValueError(f"--{name} {why}: leave it out, or leave out {instead}.")


def deepen(
    asked: Asked, depths: tuple[int, ...], seeds: int | None, out: Path | None, engine: str, data: Path | None
) -> Result:
    """The study of growing depth."""
    numbers = asked.seeds(1 if seeds is None else seeds)
    out = default_folder("converge", f"{asked.recipe.task}-depths", out, "limit")
    from ..studies.converge.limit import check_depths, continuous_limit

    result = continuous_limit(asked.recipe, check_depths(depths), numbers, out, engine=engine, data=data)
    return kept(result, out)


def discretise(run: Path, out: Path | None, grid: Grid, examples: int | None, data: Path | None) -> Result:
    """The study of a trained network."""
    out = default_folder("converge", run.name or run.resolve().name, out, "discretisation")  # "." has no name
    from ..studies.converge import discretisation as study
    from ..studies.converge.ways import check_factors, check_substeps
    from ..training.progress import counting

    result = study.discretisation(
        run, grid.schemes, substeps=check_substeps(grid.substeps), factors=check_factors(grid.steps), data=data,
        examples=study.EXAMPLES if examples is None else examples, progress=counting("converge", unit="passes"),
    )  # fmt: skip
    return kept(result, out)


def discretise_model(name: str, out: Path | None, grid: Grid, text: Path | None, tokens: int | None) -> Result:
    """The study of a pretrained model."""
    out = default_folder("converge", Path(name).resolve().stem, out, "discretised-flow")
    from ..opening import open_model
    from ..opening.texts import default_texts, read_texts
    from ..studies.converge import discretised_flow as study
    from ..studies.converge.ways import check_factors, check_substeps
    from ..training.progress import counting

    texts = default_texts() if text is None else read_texts(text)
    many = study.TOKENS if tokens is None else tokens
    counts, factors = check_substeps(grid.substeps), check_factors(grid.steps)
    shown = [counting(f"converge{what}", unit=unit) for what, unit in (("", "ways"), (", local errors", "layers"))]
    opened = open_model(name)
    result = study.discretised_flow(opened, texts, many, grid.schemes, counts, factors, *shown)
    return kept(result, out)


@door
def inspect(
    model: str | Path | Callable[..., Any],
    texts: int | Sequence[str] = 8,
    *,
    text: Path | None = None,
    tokens: int | None = None,
    chat: bool = False,
    cut: int | None = None,
    deep: bool = False,
    against: str = "random",
    layers: str | None = None,
    probes: tuple[str, ...] = (),
    spectra: int | None = None,
    save: Path | None = None,
    out: Path | None = None,
    trust_remote_code: bool = False,
    device: str | None = None,
    data: Path | None = None,
    letters: tuple[Path, ...] = (),
    tokenizer: Any = None,
    progress: Any = None,
) -> Inspection:
    """Look inside a pretrained Transformer: what its layers do to tokens, and which of them it can do without.

    Example:
      splitstep inspect path/to/model --text prompts.txt --out runs/look
      splitstep inspect path/to/model --cut 6
      splitstep inspect runs/digits --deep

    Any Hugging Face Transformer is taken apart into steps of a scheme and measured on a few texts, beside the same
    architecture with random weights. A run of this package sees validation examples of its task. What was interrupted
    continues; --cut and --deep add to what DIR has.

    Parameters:
    text FILE: A text on each line, a .jsonl with "text", a folder of texts, or - for standard input. Default: built-in.
    layers LIST: Layers that are listed, saved and left out, such as 0,4-7. Default: all.
    tokens N: Cut each text after N tokens. Default: 64, or the model's positions.
    against MODEL: Another model, `random` (the same with fresh weights) or `none`.
    device NAME: cpu or cuda. Default: the GPU, if there is one.
    """
    model = str(model) if isinstance(model, Path) else model
    folder = default_folder("inspect", model, out, "inspect") if isinstance(model, str) else out
    states, smaller = saved_things(save, folder, cut)
    from ..studies.inspect import study

    plan = study.read_plan(probes, spectra, layers, cut, deep, states)
    choice = study.text_choice(texts, text, tokens, data, chat)
    wish = study.Wish(choice, plan, against, trust_remote_code, device, tokenizer, smaller)
    return looked(model, wish, folder, progress)


def looked(model: Any, wish: Wish, folder: Path | None, progress: bool | None) -> Inspection:
    """The inspection that was asked for; it tells of its progress in a shell, or if it is to."""
    from ..studies.inspect import inspection
    from ..support.provenance import COMMAND

    tells = COMMAND.get() is not None if progress is None else progress
    if tells and (unused := wish.choice.unused()):
        say("inspect", f"{wish.choice.file}{unused}")
    result = inspection(model, wish, folder, tells)
    if tells:
        return kept(result, folder)
    if folder is not None:
        result.save(folder)
    return result


def saved_things(save: Path | None, folder: Path | None, cut: int | None) -> tuple[Path | None, Path | None]:
    """The folders of states and of a smaller model, if one of them is to be saved."""
    if save is None:
        return None, None
    if str(save) == "states" and folder is not None:
        return folder / save, None
    if not cut:
        raise ValueError(f"--save {save}: write --save states, or say with --cut 6 how many layers that model lacks.")
    if save.exists():
        raise ValueError(f"--save {save}: it is there already, so name a new folder.")
    return None, save


@door
def approximate(
    target: str | Callable[..., Any],
    *,
    tokens: int = 2,
    dim: int = 1,
    eps: float = 0.05,
    lipschitz: float | None = None,
    sweep: str | None = None,
    no_positions: bool = False,
    train_steps: int = 2000,
    out: Path | None = None,
) -> Construction:
    """Build a Transformer of one layer for a function, and certify its error.

    Example:
      splitstep approximate sort --tokens 3 --eps 0.05 --out runs/sort
      splitstep approximate "lambda x: x[::-1] * x.mean()" --tokens 2 --eps 0.02 --lipschitz 2
      splitstep approximate max --tokens 2 --sweep eps=0.2,0.1,0.05,0.02

    The network is built, not trained; beside it a network of the same size, its twin, is trained for comparison, which
    often takes most of the time (--train-steps 0 leaves it out). The certificate is a proof over the whole domain, if
    the Lipschitz constant is right. The weights are written to DIR/model: open them with AutoModel.

    Parameters:
    target TARGET: sort, max, convolution, polynomial, shift or product; or an expression of Python, such as
      "lambda x: x[::-1]", of one sequence [n, d], with numpy as np. It is run because you typed it here; expressions
      are never read from a file.
    tokens N: The length n of the sequence.
    dim N: The dimension d of a token.
    eps X: The largest error that is allowed on [0, 1]^(n d).
    lipschitz X: The target's Lipschitz constant in the sup norm. Without it, nothing is proved.
    sweep eps=LIST: Several eps, such as eps=0.2,0.1,0.05.
    no_positions: Without positions: a permutation-equivariant target of 2 tokens (certified) or of 3 numbers (sampled).
    train_steps N: Steps at each of three rates that train a network of the same size; 0: none.
    """
    many = [eps] if sweep is None else read_sweep(sweep)
    if train_steps < 0:
        raise ValueError(f"--train-steps {train_steps} must be 0 or a positive number.")
    out = default_folder("approximate", target if isinstance(target, str) else target.__name__, out, "approximate")
    from ..studies.approximate import approximation
    from ..training.progress import counting

    progress = counting("approximate  training the twin", True, "steps")
    positions = "none" if no_positions else "learned"
    result, built = approximation(
        target, tokens, dim, many, lipschitz, train_steps, positions, partial(say, "approximate"), progress
    )
    return construction(result, built, out)


def construction(result: Approximation, built: Built, out: Path) -> Construction:
    """What was built, with its network saved beside the result."""
    from ..support.auto_classes import silent
    from ..support.files import alone, whole_folder
    from .results import Construction

    out.mkdir(parents=True, exist_ok=True)
    with alone(out, "written"), whole_folder(out / "model") as part, silent():
        built.model.save_pretrained(part)
    return Construction(kept(result, out), built)


def say(verb: str, text: str) -> None:
    """What a verb is at, or leaves out, on standard error."""
    print(f"{verb}  {text}", file=sys.stderr, flush=True)


def read_sweep(text: str) -> list[float]:
    """The numbers of eps=0.2,0.1."""
    name, _, values = text.partition("=")
    try:
        found = [float(one) for one in values.split(",")]
    except ValueError:
        found = []
    if name != "eps" or not found or len(set(found)) < len(found):
        raise ValueError(f"--sweep {text}: give several eps, each once, such as --sweep eps=0.2,0.1,0.05.")
    return found
