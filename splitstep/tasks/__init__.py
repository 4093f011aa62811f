"""Tasks by name: `task("digits")`, `task("enwik8", {"length": 512}, data=Path("data"))`. One file per task."""

from collections.abc import Mapping
from pathlib import Path

from ..options import read_options
from ..support.registry import Registry
from .measures import Metric
from .task import Batch, FreeRun, Task, TaskRow, as_row

__all__ = ["TASKS", "Batch", "FreeRun", "Metric", "Task", "TaskRow", "task"]

OWN = {
    "digits": "images:DIGITS", "listops": "listops:LISTOPS", "stdlib": "corpora:STDLIB", "text": "own_text:TEXT",
    "mnist": "images:MNIST", "newsgroups": "newsgroups:NEWSGROUPS", "enwik8": "corpora:ENWIK8",
    "wikitext2": "corpora:WIKITEXT2", "classify": "classify:CLASSIFY", "glue": "glue:GLUE", "mlm": "masked.mlm:MLM",
    "numbers": "pairs.corpora:NUMBERS", "parallel": "pairs.corpora:PARALLEL", "multi30k": "pairs.corpora:MULTI30K",
    "tatoeba": "pairs.corpora:TATOEBA", "ted": "pairs.corpora:TED", "europarl": "pairs.corpora:EUROPARL",
    "iwslt14": "pairs.macaron_corpora:IWSLT14", "wmt14": "pairs.macaron_corpora:WMT14", "instruct": "instruct:INSTRUCT",
    "images": "own_images:OWN_IMAGES",
}  # fmt: skip
TASKS: Registry[TaskRow] = Registry(
    "task", accept=as_row, paths={name: f"{__name__}.{path}" for name, path in OWN.items()}
)


def task(name: str, options: Mapping[str, object] = {}, data: Path | None = None) -> Task:
    """The named task with its data loaded: from the folder `data`, else `$SPLITSTEP_DATA`, else `./data`."""
    kind = TASKS.find(name)
    return kind(read_options(kind.Options, options, f'task "{name}"'), data)
