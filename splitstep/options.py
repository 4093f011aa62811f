"""Options: the entries of a section of a recipe as a frozen record, and those of training. No torch here."""

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from math import cos, inf, pi, sqrt
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from .letters import LETTERS
from .support.typed import check_entries, plain, read_as, spell
from .support.words import counted

T = TypeVar("T")


def read_options(kind: type[T], given: Mapping[str, object], owner: str) -> T:
    """The record of type `kind` with the entries `given`; `owner` names it in errors."""
    hints, given = get_type_hints(kind), named_today(kind, given)
    names = entry_names(kind)
    known = ", ".join(f"{name} ({spell(hints[name])})" for name in names) or "none"
    check_entries(given, names, owner, f"its options are: {known}", "option")
    values = {key: read_option(hints[key], value, f"{owner}: option {key}") for key, value in given.items()}
    with errors_at(owner):
        return kind(**values)


def entry_names(kind: type) -> list[str]:
    """The names of the options in a record of this type."""
    return [field.name for field in dataclasses.fields(cast(Any, kind))]


BEFORE = {"path": "train"}  # an option of tasks over one's own text, and what it is called in all of them today


def named_today(kind: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """The options by the names that they have now."""
    names = entry_names(kind)
    new = {BEFORE[key] if key not in names and BEFORE.get(key) in names else key: one for key, one in given.items()}
    if len(new) < len(given):
        raise ValueError("path and train are two names of one option: give train alone.")
    return new


@contextmanager
def errors_at(where: str) -> Iterator[None]:
    """Put `where` in front of each `ValueError` that is raised inside."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def read_option(kind: Any, value: object, where: str) -> Any:
    """The value as this type. A single value is a list of one, so `path: notes.txt` needs no brackets."""
    if get_origin(kind) is tuple and not isinstance(value, list | tuple):
        return (read_as(get_args(kind)[0], value, where),)
    return read_as(kind, value, where)


FORMAT_1 = {
    "diffusion": ("D", "alpha"), "ends": ("D", "boundary"), "stabiliser": ("S", "gamma"),
    "rotary_bias": ("A", "bias_start"),
}  # fmt: skip  # entries of configs and recipes that became options of letters in format 2


def converted(entries: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of a config, or of a recipe's model, as they are named since format 2."""
    new = {name: value for name, value in entries.items() if name not in FORMAT_1}
    moved = {name: entries[name] for name in FORMAT_1 if name in entries and entries[name] != "upwind"}
    letters = read_as(dict[str, dict[str, Any]], new.get("letters", {}), "letters") if moved else {}
    for name, value in moved.items():
        letter, option = FORMAT_1[name]
        if letters.setdefault(letter, {}).setdefault(option, value) != value:
            raise ValueError(f"{name} and letters.{letter}.{option} are two names of one entry: give the second alone.")
    if new.get("norm_at") == "input":
        new["norm_at"] = None
    return {**new, "letters": letters} if moved else new


def options_of(name: str, letters: Mapping[str, Mapping[str, Any]]) -> Any:
    """The options of a field: those of its letter, and over them those of its own name."""
    given = {**letters.get(name[0], {}), **letters.get(name, {})}
    return read_options(LETTERS.find(name[0]).options, given, f"letters.{name}")


def complete(letters: Mapping[str, Mapping[str, Any]], fields: Iterable[str]) -> dict[str, dict[str, Any]]:
    """All options of the letters of these fields, those of other letters if they are not the usual ones, and what is
    given to single fields."""
    used, full = {name[0] for name in fields}, dict[str, dict[str, Any]]()
    for name in sorted({*letters, *used}):
        if not re.fullmatch("[A-Z][0-9]*", name):
            raise ValueError(f"letters.{name}: options belong to a letter such as A, or to a field such as F0.")
        options, usual = options_of(name, letters), LETTERS[name[0]].options()
        own = {key: plain(one) for key, one in vars(options).items() if (one, getattr(usual, key)) != (None, None)}
        if name[1:]:
            full[name] = {key: own.get(key) for key in letters[name]}
        elif own and (name in used or options != usual):
            full[name] = own
    return full


def at_least(name: str, value: int | None, low: int) -> None:
    """Refuse an option below its least value."""
    if value is not None and value < low:
        raise ValueError(f"option {name} is {value}, and needs at least {low}")


def at_most(name: str, value: int, high: int) -> None:
    """Refuse an option above its greatest value."""
    if value > high:
        raise ValueError(f"option {name} is {value}, and needs at most {high:,}")


def check_int64(name: str, value: int) -> None:
    """Refuse a whole number that neither PyTorch nor NumPy can hold."""
    if abs(value) >= 2**63:
        raise ValueError(f"{name} is {value}, and needs a number below 2^63")


INSIDE: dict[str, Callable[[float], bool]] = {
    "above 0 and finite": lambda x: 0 < x < inf,
    "at least 0 and finite": lambda x: 0 <= x < inf,
    "at least 0 and at most 1": lambda x: 0 <= x <= 1,
    "at least 0 and below 1": lambda x: 0 <= x < 1,
}


def check_range(name: str, value: float, words: str) -> None:
    """Refuse a number outside an interval, which is given in words."""
    if not INSIDE[words](value):
        raise ValueError(f"option {name} is {value}, and needs a number {words}")


LEAST = {
    "steps": 1, "batch": 1, "accumulate": 1, "log_every": 1, "warmup": 0, "seed": 0, "batch_seed": 0,
    "evaluate_every": 0, "evaluate_batch": 0, "average": 1, "average_every": 0, "keep_checkpoints": 0,
    "probe_every": 0, "probe_batch": 0,
}  # fmt: skip
MOST = {"steps": 10**15, "batch": 10**7, "average": 10**6}  # floats count to the first; the others are lists
RANGES = {
    "lr": "above 0 and finite", "eps": "above 0 and finite", "warmup_from": "at least 0 and finite",
    "weight_decay": "at least 0 and finite", "clip": "at least 0 and finite",
    "checkpoint_seconds": "at least 0 and finite", "final": "at least 0 and at most 1",
}  # fmt: skip


@dataclass(frozen=True)
class TrainOptions:
    """How to optimise. `batch` counts examples over all processes and accumulated parts."""

    steps: int = 1000
    batch: int = 64
    accumulate: int = 1
    lr: float = 1e-3
    schedule: Literal["cosine", "linear", "inverse-sqrt", "constant"] = "cosine"
    warmup: int = 100
    warmup_from: float = 0.0  # the learning rate at which the warm-up begins
    final: float = 0.0  # the share of lr that cosine and linear schedules end with
    weight_decay: float = 0.01
    betas: tuple[float, ...] = (0.9, 0.98)
    eps: float = 1e-8
    clip: float = 1.0  # the largest norm of a gradient; 0: no limit
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    mode: Literal["auto", "eager", "compile", "capture", "compile+capture"] = "auto"
    parallel: Literal["auto", "ddp", "fsdp"] = "auto"  # auto: fsdp under `accelerate launch --use_fsdp`, else ddp
    seed: int = 0  # of weights and dropout and, unless they have their own, of batches
    batch_seed: int | None = None
    log_every: int = 20
    evaluate_every: int = 0  # steps; 0: ten times a run
    evaluate_batch: int = 0  # examples; 0: as in training
    keep: Literal["best", "average"] = "best"  # which weights the run ends with
    best: Literal["metric", "loss"] = "metric"  # the validation figure that "best" goes by
    average: int = 10  # snapshots
    average_every: int = 0  # steps, counted back from the last; 0: at each evaluation
    probe_every: int = 0  # steps; 0: at each evaluation
    probe_batch: int = 0  # examples of the validation split that probes see; 0: 64
    checkpoint_seconds: float = 60.0
    keep_checkpoints: int = 2  # the newest, so a run survives if one is damaged; 0: all

    def __post_init__(self) -> None:
        for name, low in LEAST.items():
            at_least(name, getattr(self, name), low)
        for name, high in MOST.items():
            at_most(name, getattr(self, name), high)
        for name, words in RANGES.items():
            check_range(name, getattr(self, name), words)
        if len(self.betas) != 2:
            raise ValueError(f"option betas is {list(self.betas)}, and needs two numbers such as [0.9, 0.98]")
        for beta in self.betas:
            check_range("betas", beta, "at least 0 and below 1")
        if self.batch % self.accumulate:
            raise ValueError(f"option batch is {self.batch}, and must be divisible by accumulate, {self.accumulate}")
        if self.warmup_from > self.lr:
            raise ValueError(f"option warmup_from is {self.warmup_from}, and must be at most lr, {self.lr}")
        check_snapshots(self)

    @property
    def too_late(self) -> str:
        """What to say of a warm-up that is longer than the run; empty if it is not."""
        if self.warmup <= self.steps:
            return ""
        return (
            f"train.warmup={self.warmup} is longer than train.steps={self.steps}: the learning rate never reaches "
            f"train.lr; type train.warmup={max(1, self.steps // 10)}"
        )


def learning_rate(options: TrainOptions, step: int) -> float:
    """The learning rate of update number `step`, counted from 0: a linear warm-up, then the schedule."""
    if step < options.warmup:
        return options.warmup_from + (options.lr - options.warmup_from) * (step + 1) / options.warmup
    if options.schedule == "inverse-sqrt":
        return options.lr * sqrt(max(options.warmup, 1) / (step + 1))
    if options.schedule == "constant":
        return options.lr
    done = (step - options.warmup) / max(options.steps - options.warmup, 1)
    rest = 1 - done if options.schedule == "linear" else (1 + cos(pi * done)) / 2
    return options.lr * (options.final + (1 - options.final) * rest)


def evaluation_steps(options: TrainOptions) -> int:
    """The steps between two evaluations."""
    return options.evaluate_every or max(1, options.steps // 10)


def evaluates(options: TrainOptions, step: int) -> bool:
    """Whether a run is evaluated after this step: at regular intervals, and after the last."""
    return step == options.steps or step % evaluation_steps(options) == 0


def records(options: TrainOptions, step: int) -> bool:
    """Whether probes are recorded after this step: with each evaluation or, if `probe_every` is given, at such
    intervals, before the first update (step 0) and after the last."""
    if options.probe_every == 0:
        return step > 0 and evaluates(options, step)
    return step == options.steps or step % options.probe_every == 0


def snapshot_steps(options: TrainOptions) -> tuple[int, ...]:
    """The steps whose weights are averaged at the end of a run, ascending; none if it keeps the best."""
    if options.keep == "best":
        return ()
    if options.average_every == 0:
        every = evaluation_steps(options)
        back = chain([options.steps], range((options.steps - 1) // every * every, 0, -every))
    else:
        back = iter(range(options.steps, 0, -options.average_every))
    return tuple(reversed(list(islice(back, options.average))))


def check_snapshots(options: TrainOptions) -> None:
    """Refuse more snapshots than the run has; the error says what to add to the command."""
    fit = len(snapshot_steps(options))
    if options.keep == "average" and fit < options.average:
        apart = f"every {counted(options.average_every, 'step')}" if options.average_every else "at each evaluation"
        nearer = max(1, options.steps // (5 * options.average))  # in the last fifth of a run, much as in the recipes
        all_fit = f"train.average_every={nearer} (all {options.average} near the end) or "
        raise ValueError(
            f"option average is {options.average}, and {options.steps} steps hold only {counted(fit, 'snapshot')} "
            f"{apart}: add {all_fit if options.average <= options.steps else ''}train.average={fit}"
        )
