"""Tasks by name: `task("digits")`, `task("enwik8", {"length": 512}, data=Path("data"))`. One file per task."""

from collections.abc import Mapping
from pathlib import Path

from ..options import read_options
from ..support.registry import Registry
from .task import Batch, FreeRun, Metric, Task

__all__ = ["TASKS", "Batch", "FreeRun", "Metric", "Task", "task"]

OWN = {
    "digits": "digits:Digits", "listops": "listops:ListOps", "stdlib": "stdlib:Stdlib", "text": "text:Text",
    "mnist": "mnist:Mnist", "newsgroups": "newsgroups:Newsgroups", "enwik8": "enwik8:Enwik8",
    "wikitext2": "wikitext2:Wikitext2", "classify": "classify:Classify", "glue": "glue:Glue", "mlm": "masked.mlm:Mlm",
    "numbers": "pairs.numbers:Numbers", "parallel": "pairs.parallel:Parallel", "multi30k": "pairs.multi30k:Multi30k",
    "tatoeba": "pairs.tatoeba:Tatoeba", "ted": "pairs.ted:Ted", "europarl": "pairs.europarl:Europarl",
    "iwslt14": "pairs.iwslt14:Iwslt14", "wmt14": "pairs.wmt14:Wmt14", "instruct": "instruct:Instruct",
    "images": "own_images:OwnImages",
}  # fmt: skip
TASKS: Registry[type[Task]] = Registry("task", paths={name: f"{__name__}.{path}" for name, path in OWN.items()})


def task(name: str, options: Mapping[str, object] = {}, data: Path | None = None) -> Task:
    """The named task with its data loaded: from the folder `data`, else `$SPLITSTEP_DATA`, else `./data`."""
    kind = TASKS.find(name)
    return kind(read_options(kind.Options, options, f'task "{name}"'), data)
