"""The verb that looks inside a pretrained model."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Annotated

import typer

from .options import Data, Json
from .output import Output

Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="A run, a model's folder, a GGUF file, or a model's name on the Hub.")
]
TextFile = Annotated[
    Path | None,
    typer.Option(
        "--text",
        metavar="FILE",
        help='A text on each line, or a .jsonl with "text". Default: built-in texts.',
    ),
]
Texts = Annotated[int, typer.Option("--texts", metavar="N", help="Use at most N texts.")]
Tokens = Annotated[
    int | None,
    typer.Option("--tokens", metavar="N", help="Cut each text after N tokens. Default: 64, or the model's positions."),
]
Spectra = Annotated[
    int, typer.Option("--spectra", metavar="N", help="Texts for probes that differentiate layers; verdicts need 3.")
]
Layers = Annotated[
    str | None, typer.Option("--layers", metavar="LIST", help="Layers that are looked at, such as 0,4-7. Default: all.")
]
Probes = Annotated[str | None, typer.Option("--probes", metavar="LIST", help="Names of probes, separated by commas.")]
Save = Annotated[
    str | None,
    typer.Option("--save", metavar="states", help="Write the states of each text to DIR/states as safetensors."),
]
Against = Annotated[
    str,
    typer.Option("--against", metavar="MODEL", help="Another model, `random` (the same with fresh weights) or `none`."),
]
Trust = Annotated[
    bool, typer.Option("--trust-remote-code", help="Let Python code run that comes with the model. Read it first.")
]
Device = Annotated[str | None, typer.Option("--device", help="cpu or cuda. Default: the GPU, if there is one.")]
OutOption = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Where the result and the page go. Default: runs/inspect-MODEL."),
]


def inspect(
    model: Model,
    *,
    context: typer.Context,
    text: TextFile = None,
    texts: Texts = 8,
    tokens: Tokens = None,
    against: Against = "random",
    layers: Layers = None,
    probes: Probes = None,
    spectra: Spectra = 2,
    save: Save = None,
    out: OutOption = None,
    trust_remote_code: Trust = False,
    device: Device = None,
    data: Data = None,
    as_json: Json = False,
) -> None:
    """Look inside a pretrained Transformer: what its layers do to tokens.

    \b
    Example:
      splitstep inspect path/to/model --text prompts.txt --out runs/look
      splitstep inspect path/to/model --against path/to/another
      splitstep inspect runs/digits

    Any Hugging Face Transformer is taken apart into steps of a scheme, run on a few texts and measured: trajectories,
    clusters, ranks, attention, Jacobians. Beside it stands the same architecture with random weights. The result is one
    page, report.html, and result.json. A run of this package sees validation examples of its task.
    """
    from ..studies.inspect import inspection
    from ..studies.inspect.measuring import DEFAULT, Plan
    from ..studies.inspect.sources import Wanted
    from ..studies.inspect.study import read_layers, read_probes, states_folder
    from ..training.progress import counting
    from .converge import check_free

    if spectra < 1:
        raise ValueError(f"--spectra {spectra}: give at least 1")
    out = Path("runs") / f"inspect-{slug(model)}" if out is None else out
    check_free(out, "inspect")
    chosen = None if layers is None else read_layers(layers)
    names = DEFAULT if probes is None else read_probes(probes)
    plan = Plan(names, spectra, chosen, states_folder(save, out))
    wanted = Wanted(text, texts, tokens, data)
    command, progress = shlex.join(context.obj), counting("inspect", at_once=True, unit="texts")
    result = inspection(model, wanted, plan, against, trust_remote_code, device, command, progress)
    output = Output(as_json, out).open()
    output.emit_result(result)


def slug(model: str) -> str:
    """A model's name as that of a folder."""
    last = model.rstrip("/").rpartition("/")[2]
    return re.sub(r"[^\w.-]+", "-", last).strip(".-") or "model"
