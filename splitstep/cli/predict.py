"""The verb that labels texts and images with a run's model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..support.words import counted
from .options import Data, Json, Out
from .output import Output
from .runs import Run, beside


def predict(
    run: Run,
    submission: Annotated[
        Path | None,
        typer.Option("--submission", metavar="DIR", help="Of a GLUE task: write the official submission's files here."),
    ] = None,
    data: Data = None,
    as_json: Json = False,
    out: Out = None,
) -> None:
    """Label each line from standard input with a run's model: a text, two with a tab between them, or an image's path.

    Prints label and probability, or the number if numbers were learnt. The training data is not needed.

    \b
    Example:
      splitstep predict runs/mine < lines.txt
      ls photos/*.jpg | splitstep predict runs/photos --json
      splitstep predict runs/mrpc --submission glue-submission --data data
    """
    if submission is None and sys.stdin.isatty():
        raise ValueError(f"predict reads lines from standard input: splitstep predict {run} < lines.txt")
    from ..inference.predict import predict_run, submit_run
    from ..text.lines import lines_of
    from ..training.progress import counting

    output: Output = beside(run, as_json, out)
    if submission is not None:
        written = [str(path) for path in submit_run(run, submission, data, counting("predicted"))]
        output.emit({"run": str(run), "written": written}, lambda: "".join(f"{path}\n" for path in written))
        return
    lines = lines_of(sys.stdin.buffer.read(), "standard input")
    found = predict_run(run, lines, counting("predicted"))
    if found.cut:
        many = counted(len(found.cut), "line")
        print(f"Too long for the model, so cut: {many}, line {found.cut[0]} first.", file=sys.stderr)
    output.emit(found.document(), lambda: "".join(f"{line}\n" for line in found.lines()))
