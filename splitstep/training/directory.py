"""The run directory: resolved recipe, versions, metrics, checkpoints, model and result."""

import errno
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, final

import yaml
from torch import Tensor

from ..recipe import Recipe, load_recipe
from ..support.documents import first_difference, flat, parse_json, read_json, readable
from ..support.files import alone, fsync, is_leftover, naming, sweep, whole_file, write_atomically
from ..support.provenance import Provenance
from ..support.typed import Inlined, plain, read_as
from .checkpoint import contents
from .result import RunResult, Start


def refuse_other_files(path: Path, ours: Callable[[Path], bool] = is_leftover) -> None:
    """Refuse a directory for something new if it holds anything but what `ours` knows: what killed processes left."""
    if path.is_dir() and not all(map(ours, path.iterdir())):
        raise ValueError(f"{path} holds other files, not a run of splitstep: name a new directory with --out")


class Environment(NamedTuple):
    """What a run depends on besides its recipe: versions, data, and the weights that it started from."""

    made: Inlined[Provenance]
    start: Start | None = None

    @property
    def data(self) -> dict[str, Any]:
        """What the task says of its data."""
        return self.made.data or {}


@final
class RunDirectory:
    """One run on disk. Claiming it refuses a directory of another recipe; a run of the same recipe continues."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recipe_file = path / "recipe.yaml"
        self.result_file = path / "result.json"
        self.checkpoints = path / "checkpoints"
        self.environment_file = path / "environment.json"
        self.metrics = path / "metrics.jsonl"
        self.model = path / "model"
        self.translations = path / "translations"
        self.probes = path / "probes"

    def claim(self, recipe: Recipe) -> bool:
        """Take the directory for a run of this recipe, and return whether it extends the run that is there."""
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{self.path} is not a directory: name a new one with --out")
        extends = self.is_extended_by(recipe)
        if not extends and not self.holds(recipe):
            refuse_other_files(self.path)
            self.path.mkdir(parents=True, exist_ok=True)
            self.write_recipe(recipe)
        return extends

    def write_recipe(self, recipe: Recipe) -> None:
        write_atomically(self.recipe_file, yaml.safe_dump(recipe.document(), sort_keys=False))

    def is_extended_by(self, recipe: Recipe) -> bool:
        """Whether a finished run is here that can continue, of the same recipe with fewer steps."""
        if not any(self.checkpoints.glob("step-*")):
            return False
        stored, given = self.recipe().document(), recipe.document()
        longer = {**stored, "train": {**stored["train"], "steps": recipe.train.steps}}
        return self.extended_from() >= stored["train"]["steps"] < recipe.train.steps and longer == given

    def extended_from(self) -> int:
        """The steps of the finished run that the present one extends; 0 if there is none."""
        now = self.result()
        done = [now.steps] if now and now.status == "finished" else []
        return max([0, *done, *numbered(self.path, "result-", ".json")])

    def extend(self, recipe: Recipe) -> None:
        """Set the finished run's result aside, and take the recipe with more steps."""
        if self.result_file.is_file():
            os.replace(self.result_file, self.path / f"result-{self.extended_from()}.json")
        self.write_recipe(recipe)

    def release(self) -> None:
        """Release a directory that was claimed just now and holds no progress."""
        for file in (self.recipe_file, self.environment_file):
            file.unlink(missing_ok=True)
        with suppress(OSError):
            self.path.rmdir()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes out while this one trains, and clean up after one that was killed."""
        with alone(self.path, "being trained"):
            for folder in (self.checkpoints, self.probes):
                sweep(folder)
            yield

    def recipe(self) -> Recipe:
        self.refuse_comparison()
        if not self.recipe_file.is_file():
            raise ValueError(f"{self.path} is not a run of splitstep: it has no recipe.yaml")
        return load_recipe(str(self.recipe_file))

    def is_run(self) -> bool:
        """Whether a run is here; a comparison, which holds several, is refused."""
        self.refuse_comparison()
        return self.recipe_file.is_file()

    def finished_model(self) -> Path:
        """The folder of the model of a run that has finished."""
        result = self.result()
        if result is None:
            again = f"splitstep train {self.recipe_file} --out {self.path}"
            raise ValueError(f"{self.path} has not finished: continue it with `{again}`")
        if result.status != "finished" or not self.model.is_dir():
            raise ValueError(f"{self.path} has no model: the run {result.status} at step {result.steps}")
        if not any(self.model.glob("*.safetensors")):
            again = f"splitstep train {self.recipe_file} --out DIR"
            raise ValueError(f"{self.model} has no weights: put model.safetensors back, or train again with `{again}`")
        return self.model

    def refuse_comparison(self) -> None:
        """Refuse a directory that holds several runs instead of one."""
        runs = [] if self.recipe_file.is_file() else sorted(self.path.glob("runs/*/recipe.yaml"))
        if runs:
            raise ValueError(f"{self.path} holds several runs: name one of them, such as {runs[0].parent}")

    def holds(self, recipe: Recipe) -> bool:
        """Whether a run of this recipe is here; a run of another is refused. Entries that an older version did not
        write have their defaults."""
        file = self.recipe_file
        if not file.exists():
            return False
        if differs := first_difference(*(dict(flat(one.document())) for one in (self.recipe(), recipe))):
            raise ValueError(
                f"{self.path} belongs to another run with {differs} (see {file}): name a new directory with --out"
            )
        return True

    def result(self) -> RunResult | None:
        self.refuse_comparison()
        if not self.result_file.is_file():
            return None
        try:
            return read_as(RunResult, read_json(self.result_file, "anything"), "the result")
        except ValueError as error:
            raise ValueError(f"{self.result_file} is damaged ({error}): delete it and start the run again") from None

    def write_result(self, result: RunResult) -> None:
        write_atomically(self.result_file, json.dumps(result.document(), indent=2, allow_nan=False) + "\n")

    def keep_environment(self, now: Environment) -> None:
        """Record what the run depends on; if it is recorded already, refuse other data and another start."""
        file = self.environment_file
        if not file.exists():
            write_atomically(file, json.dumps(plain(now), indent=2) + "\n")
        before = self.environment()
        hashes = {"data": [one.data.get("sha256") for one in (before, now)]}
        hashes["weights to start from"] = [one.start and one.start.sha256 for one in (before, now)]
        for what, (old, new) in hashes.items():
            if old is not None and new is not None and old != new:
                raise ValueError(
                    f"{self.path} began with other {what}, by the hashes in {file.name}: restore those, or name a "
                    "new directory with --out"
                )

    def environment(self) -> Environment:
        try:
            return read_as(Environment, read_json(self.environment_file, "anything"), "it")
        except ValueError:
            raise ValueError(f"{self.environment_file} is damaged: name a new directory with --out") from None

    def log(self, record: Mapping[str, Any]) -> None:
        """Append one line, or nothing if the disk has no room for all of it."""
        line = (json.dumps(record, allow_nan=False) + "\n").encode()
        with naming(self.metrics), self.metrics.open("ab", buffering=0) as file:
            size = file.tell()
            try:
                if file.write(line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            except OSError:
                file.truncate(size)
                raise

    def logged(self) -> list[dict[str, Any]]:
        """The records so far, without a last line that a kill cut short."""
        lines = self.metrics.read_text(errors="replace").splitlines() if self.metrics.is_file() else []
        return [record for record in map(_read, lines) if record is not None]

    def tensors_file(self, step: int) -> Path:
        """Where the tensors are that probes found after this step."""
        return self.probes / f"step-{step:08d}.safetensors"

    def write_tensors(self, step: int, tensors: Mapping[str, Tensor]) -> None:
        """Write what probes found, by names of the form probe/stack/series."""
        path = self.tensors_file(step)
        with naming(path):
            self.probes.mkdir(exist_ok=True)
            with whole_file(path) as file:
                file.writelines(contents(tensors))

    def tensors(self, step: int) -> dict[str, Tensor]:
        """The tensors that probes found after this step."""
        from safetensors.torch import load_file

        if not self.tensors_file(step).is_file():
            known = ", ".join(map(str, self.tensor_steps())) or "none"
            raise ValueError(f"{self.path} has no tensors of probes at step {step}; the steps that have: {known}")
        with readable(self.tensors_file(step), "train again"):
            return load_file(self.tensors_file(step))

    def tensor_steps(self) -> list[int]:
        """The steps after which probes have found tensors, ascending."""
        return numbered(self.probes, "step-", ".safetensors")

    def rewind(self, step: int) -> None:
        """Drop what was logged after the checkpoint that a run continues from; without one, everything."""
        if self.metrics.is_file():
            kept = [json.dumps(record) for record in self.logged() if step and record["step"] <= step]
            write_atomically(self.metrics, "".join(f"{line}\n" for line in kept))
        for late in self.tensor_steps():
            if late > step or not step:
                self.tensors_file(late).unlink()

    def flush_metrics(self) -> None:
        """Flush the metrics to the disk, before a checkpoint relies on them."""
        if self.metrics.is_file():
            fsync(self.metrics)


def numbered(folder: Path, before: str, after: str) -> list[int]:
    """The numbers in the names of files, ascending."""
    names = [file.name.removeprefix(before).removesuffix(after) for file in folder.glob(f"{before}*{after}")]
    return sorted(int(name) for name in names if name.isdecimal())


def _read(line: str) -> dict[str, Any] | None:
    try:
        record = parse_json(line, "a line", "anything")
    except ValueError:
        return None
    return record if isinstance(record, dict) and "step" in record else None
