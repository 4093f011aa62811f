"""The verb that builds a Transformer of one layer for a function."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from .options import Json
from .output import Output

Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="sort, max, convolution, polynomial, shift or product; or an expression of Python, such as "
        '"lambda x: x[::-1]", of one sequence [n, d], with numpy as np. It is run because you typed it here; '
        "expressions are never read from a file.",
    ),
]
Tokens = Annotated[int, typer.Option("--tokens", help="The length n of the sequence.")]
Dim = Annotated[int, typer.Option("--dim", help="The dimension d of a token.")]
Eps = Annotated[float, typer.Option("--eps", help="The largest error that is allowed on [0, 1]^(n d).")]
Lipschitz = Annotated[
    float | None,
    typer.Option("--lipschitz", help="The target's Lipschitz constant in the sup norm. Without it, nothing is proved."),
]
Sweep = Annotated[str | None, typer.Option("--sweep", help="Several eps, such as eps=0.2,0.1,0.05.")]
NoPositions = Annotated[
    bool,
    typer.Option(
        "--no-positions",
        help="Without positions: a permutation-equivariant target of 2 tokens (certified) or of 3 numbers (sampled).",
    ),
]
TrainSteps = Annotated[
    int,
    typer.Option("--train-steps", help="Steps at each of three rates that train a network of the same size; 0: none."),
]
OutOption = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Where the model, the result and the page go.")
]


def approximate(
    target: Target,
    *,
    context: typer.Context,
    tokens: Tokens = 2,
    dim: Dim = 1,
    eps: Eps = 0.05,
    lipschitz: Lipschitz = None,
    sweep: Sweep = None,
    no_positions: NoPositions = False,
    train_steps: TrainSteps = 2000,
    out: OutOption = None,
    as_json: Json = False,
) -> None:
    """Build a Transformer of one layer for a function, and certify its error.

    \b
    Example:
      splitstep approximate sort --tokens 3 --eps 0.05 --out runs/sort
      splitstep approximate "lambda x: x[::-1] * x.mean()" --tokens 2 --eps 0.02 --lipschitz 2
      splitstep approximate max --tokens 2 --sweep eps=0.2,0.1,0.05,0.02

    The network is built, not trained; beside it a network of the same size, its twin, is trained for comparison, which
    often takes most of the time (--train-steps 0 leaves it out). The certificate is a proof over the whole domain, if
    the Lipschitz constant is right. --out writes the weights (open them with AutoModel), the result and a page. The
    expression that you type is run.
    """
    many = [eps] if sweep is None else read_sweep(sweep)
    if train_steps < 0:
        raise ValueError(f"--train-steps {train_steps} must be 0 or a positive number.")
    output = Output(as_json, out).check()
    from ..studies.approximate import approximation
    from ..training.progress import counting

    positions = "none" if no_positions else "learned"
    command, progress = shlex.join(context.obj), counting("approximate  training the twin", True, "steps")
    result, built = approximation(target, tokens, dim, many, lipschitz, train_steps, positions, command, say, progress)
    output.open()
    if out is not None:
        from ..models.base import silent

        with silent():
            built.model.save_pretrained(out / "model")
    output.emit_result(result)


def say(text: str) -> None:
    print(f"approximate  {text}", file=sys.stderr, flush=True)


def read_sweep(text: str) -> list[float]:
    """The numbers of eps=0.2,0.1."""
    name, _, values = text.partition("=")
    try:
        found = [float(one) for one in values.split(",")]
    except ValueError:
        found = []
    if name != "eps" or not found:
        raise ValueError(f"--sweep {text}: give several eps, such as --sweep eps=0.2,0.1,0.05.")
    return found
