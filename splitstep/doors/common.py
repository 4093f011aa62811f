"""What doors share: recipes by name, folders of results, numbers of seeds."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ..hints import exact_schemes, recipe_meant
from ..recipes import find_recipe, recipe_of_task
from ..support.documents import read_json
from ..support.files import is_leftover, write_atomically
from ..support.provenance import COMMAND
from ..support.typed import json_text

if TYPE_CHECKING:
    from ..experiments.result import Result
    from ..recipe import Recipe

R = TypeVar("R", bound="Result")
W = TypeVar("W")
RUNS = Path("runs")
WITH_RUNS = ("compare", "glue", "distil", "ablate")  # studies that look at the runs in a folder themselves
OURS = ("model", "states", "units")  # folders that a study that was killed may leave without its result
MOST_SEEDS = 10_000  # a run each


def default_folder(verb: str, name: str, out: Path | None, study: str | None = None) -> Path:
    """Where a verb's output goes: the folder that is named, else runs/COMMAND-NAME. If a study is named, the folder may
    hold a result of this study alone. What comes next may take long, so a person at a terminal is
    told at once; elsewhere an error is the only line."""
    folder = RUNS / f"{verb}-{slug(name)}" if out is None else out
    check_folder(folder)
    if study is not None:
        check_free(folder, study)
    if COMMAND.get() is not None and sys.stderr.isatty() and "torch" not in sys.modules:
        print(f"{verb}  to {folder}; loading PyTorch", file=sys.stderr, flush=True)
    return folder


def slug(name: str) -> str:
    """A name as that of a folder."""
    last = name.rstrip("/").rpartition("/")[2]
    return re.sub(r"[^\w.-]+", "-", last).strip(".-") or "model"


def checked_count(seeds: int) -> int:
    """The number of seeds, unless it is too small or too large."""
    if not 1 <= seeds <= MOST_SEEDS:
        raise ValueError(f"--seeds {seeds}: give at least 1 and at most {MOST_SEEDS:,}.")
    return seeds


class Asked(NamedTuple):
    """A recipe that a study was asked for: its name, its document, and what the document says."""

    name: str
    document: Any
    recipe: Recipe

    def seeds(self, count: int) -> range:
        """So many seeds, from the recipe's own on."""
        return range(self.recipe.train.seed, self.recipe.train.seed + checked_count(count))


def recipe_asked(
    verb: str, recipe: str | None, changes: Sequence[str], task: str | None, more: Sequence[str] = ()
) -> Asked:
    """The recipe that is named, or the task's, with its entries changed; an entry may stand in the recipe's place."""
    words = [*([] if recipe is None else [recipe]), *changes]
    named = bool(words) and "=" not in words[0]
    if not named and task is None:
        raise ValueError(f"Missing recipe: name one, as in `splitstep {verb} digits ...`, or give --task digits.")
    name, entries = (words[0], words[1:]) if named else (recipe_of_task(str(task)), words)
    if meant := recipe_meant(",".join([name, *(one for one in entries if "=" not in one)]), verb):
        raise ValueError(meant)
    find_recipe(name)  # refuses a wrong name before recipes are imported
    if verb == "compare":
        refuse_schemes(name, entries)
    refuse_launchers(verb)
    from ..recipe import load_document, read_recipe

    document = load_document(name, [*entries, *more])
    found = read_recipe(document, name)
    if task is not None and found.task != task:
        raise ValueError(f"--task {task}, but the recipe {name} is for {found.task}: leave one of the two out.")
    return Asked(name, document, found)


def refuse_schemes(name: str, entries: Sequence[str]) -> None:
    """Refuse names of schemes between recipe entries, where options list them."""
    words = [one for one in entries if "=" not in one]
    if known := exact_schemes(",".join(words)):
        raise ValueError(
            f"{' '.join(words)}: schemes follow an option: type splitstep compare {name} --schemes {known}"
        )


def refuse_launchers(verb: str) -> None:
    """Refuse to run under torchrun: a study starts its own processes."""
    if "WORLD_SIZE" not in os.environ:
        return
    from ..training.processes import launched

    if launched("WORLD_SIZE") > 1:
        raise ValueError(f"{verb} starts its own processes: run it without torchrun, with --engine local=N.")


def check_folder(out: Path | None) -> None:
    """Refuse a path that is not a directory, or where nothing can be written, before any work is done for it."""
    if out is None:
        return
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out} is not a directory: name one that is, or a new one.")
    there = next(folder for folder in (out, *out.absolute().parents) if folder.exists())
    if not there.is_dir():
        raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(out))
    if not os.access(there, os.W_OK | os.X_OK):
        number = errno.EROFS if os.statvfs(there).f_flag & os.ST_RDONLY else errno.EACCES
        raise OSError(number, os.strerror(number), str(out))


def check_new(out: Path | None) -> None:
    """As `check_folder`; refuse also the directory of a run or a comparison."""
    check_folder(out)
    if out is None:
        return
    for mark, owner in (("recipe.yaml", "belongs to a single run"), ("runs", "holds a comparison")):
        if (out / mark).exists():
            raise ValueError(f"{out} {owner}: name a new directory with --out")


def check_free(out: Path, study: str) -> None:
    """Refuse a directory that holds something else than a result of this study."""
    if (out / "recipe.yaml").exists():
        raise ValueError(f"{out} belongs to a single run: name a new directory with --out.")
    if not (out / "result.json").exists():
        if study in WITH_RUNS:
            return
        found = out.iterdir() if out.is_dir() else ()
        others = [one for one in found if not is_leftover(one) and one.name not in OURS]
        if others and not (out / "runs").is_dir():
            raise ValueError(f"{out} holds other files: name a new directory with --out.")
        return
    found = None
    with suppress(ValueError):
        found = read_json(out / "result.json").get("study")
    if found != study:
        raise ValueError(f"{out} holds the result of something else: name a new directory with --out.")


def kept(result: R, out: Path | None) -> R:
    """The result, which is written with its page if there is a folder for it."""
    if out is not None:
        print(f"Report: {result.save(out)}", file=sys.stderr)
    return result


def written(result: W, out: Path | None) -> W:
    """The result, whose JSON document is written if there is a folder for it."""
    if out is not None:
        document: Any = result
        out.mkdir(parents=True, exist_ok=True)
        write_atomically(out / "result.json", json_text(document.json()))
    return result
