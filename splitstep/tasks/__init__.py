"""Tasks by name: `task("digits")`, `task("enwik8", {"length": 512}, data=Path("data"))`. One file a task."""

from collections.abc import Mapping
from pathlib import Path

from splitstep.support.typed import nearest
from splitstep.tasks.digits import Digits
from splitstep.tasks.enwik8 import Enwik8
from splitstep.tasks.europarl import Europarl
from splitstep.tasks.iwslt14 import Iwslt14
from splitstep.tasks.listops import ListOps
from splitstep.tasks.mnist import Mnist
from splitstep.tasks.multi30k import Multi30k
from splitstep.tasks.newsgroups import Newsgroups
from splitstep.tasks.numbers import Numbers
from splitstep.tasks.options import read_options
from splitstep.tasks.parallel import Parallel
from splitstep.tasks.stdlib import Stdlib
from splitstep.tasks.task import Batch, FreeRun, Metric, Task
from splitstep.tasks.tatoeba import Tatoeba
from splitstep.tasks.ted import Ted
from splitstep.tasks.text import Text
from splitstep.tasks.wikitext2 import Wikitext2
from splitstep.tasks.wmt14 import Wmt14

__all__ = ["TASKS", "Batch", "FreeRun", "Metric", "Task", "task"]

TASKS: dict[str, type[Task]] = {
    kind.name: kind
    for kind in (
        *(Digits, ListOps, Stdlib, Text, Mnist, Newsgroups, Enwik8, Wikitext2),
        *(Numbers, Parallel, Multi30k, Tatoeba, Ted, Europarl, Iwslt14, Wmt14),
    )
}


def task(name: str, options: Mapping[str, object] = {}, data: Path | None = None) -> Task:
    """The named task with its data loaded: from the folder `data`, else `$SPLITSTEP_DATA`, else `./data`."""
    if name not in TASKS:
        raise ValueError(f'there is no task "{name}"{nearest(str(name), TASKS)} the tasks are {", ".join(TASKS)}')
    kind = TASKS[name]
    return kind(read_options(kind.Options, options, f'task "{name}"'), data)
