"""Tasks by name: `task("digits")`, `task("enwik8", {"length": 512}, data=Path("data"))`. One file per task."""

from collections.abc import Mapping
from pathlib import Path

from ..support.registry import Registry
from .options import read_options
from .task import Batch, FreeRun, Metric, Task

__all__ = ["TASKS", "Batch", "FreeRun", "Metric", "Task", "task"]

CLASSES = (
    *("Digits", "ListOps", "Stdlib", "Text", "Mnist", "Newsgroups", "Enwik8", "Wikitext2"),
    *("Classify", "Glue", "Mlm", "Numbers", "Parallel", "Multi30k", "Tatoeba", "Ted", "Europarl", "Iwslt14", "Wmt14"),
    "Instruct",
)
TASKS: Registry[type[Task]] = Registry(
    "task",
    paths={
        **{kind.lower(): f"{__name__}.{kind.lower()}:{kind}" for kind in CLASSES},
        "images": f"{__name__}.own_images:OwnImages",
    },
)


def task(name: str, options: Mapping[str, object] = {}, data: Path | None = None) -> Task:
    """The named task with its data loaded: from the folder `data`, else `$SPLITSTEP_DATA`, else `./data`."""
    kind = TASKS.find(name)
    return kind(read_options(kind.Options, options, f'task "{name}"'), data)
