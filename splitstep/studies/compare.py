"""Schemes against each other at equal cost: schemes x seeds as independent runs, with intervals over the seeds."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from ..models.cost import cost, span
from ..scheme import Project, Scheme
from ..schemes import name_of, scheme
from ..tasks import Task
from ..tasks.fetch import data_root
from ..tasks.task import title_of
from ..tasks.translation import Translation
from ..training import Recipe, override, read_recipe
from ..training.directory import RunDirectory, git_hash, versions
from .engines import Engine, check_engine, open_engine, threads_per_job
from .progress import Watch
from .statistics import Estimate, estimate, paired_difference
from .test_sets import OnTestSet, Pair, Scored, System, Written, on_test_sets

FORMAT = 1  # of result.json; a reader refuses a newer one
STUDY = "compare"
POINTS = 200  # of a loss curve, at most

Setting = tuple[str, ...]  # the assignments of one point of a sweep, such as ("train.lr=1e-3",)


class Curve(NamedTuple):
    """A figure against the step."""

    steps: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class Trial:
    """One run: a scheme with a setting of the sweep and a seed."""

    scheme: str
    setting: Setting
    seed: int
    folder: str  # under the study's own
    status: str  # "finished" or "diverged"
    valid: dict[str, float] | None
    test: dict[str, float] | None
    best_step: int | None
    steps: int
    tokens: int
    seconds: float
    tokens_per_second: float | None
    cost: dict[str, int]
    matched: dict[str, Any] | None
    shape: dict[str, Any]
    device: str
    precision: str
    mode: str
    commit: str | None
    diverged: dict[str, Any] | None
    train_loss: Curve
    valid_loss: Curve
    valid_metric: Curve
    kept: dict[str, Any] | None = None  # which weights the run ended with
    splits: dict[str, Any] = field(default_factory=dict)  # scores of what was written for each split, by split


@dataclass(frozen=True)
class Row:
    """One scheme over all seeds, at the setting that its validation figures chose."""

    name: str
    scheme: str
    setting: Setting
    finished: int
    diverged: int
    test: Estimate | None
    valid: Estimate | None
    difference: Estimate | None  # to the first row, of the test metric, seed by seed
    cost: dict[str, int]
    matched: dict[str, Any] | None
    shape: dict[str, Any]
    evaluations: int
    order: int | None
    seconds: float
    tokens_per_second: float | None
    structure: list[dict[str, Any]]


@dataclass(frozen=True)
class Comparison:
    """The result of the study; rows are the schemes in the order given, and differences are to the first."""

    task: str
    metric: dict[str, Any]
    match: str
    reference: str
    seeds: tuple[int, ...]
    sweep: tuple[Setting, ...]
    rows: tuple[Row, ...]
    trials: tuple[Trial, ...]
    recipe: dict[str, Any]
    data: dict[str, Any]
    engine: str
    threads: int
    command: str | None
    versions: dict[str, str]
    commit: str | None
    date: str
    tests: tuple[OnTestSet, ...] = ()  # of tasks whose models write, such as translation

    def document(self) -> dict[str, Any]:
        """The result as JSON values."""
        return {"study": STUDY, "format": FORMAT, **_plain(self)}

    @property
    def devices(self) -> list[str]:
        return sorted({trial.device for trial in self.trials})

    def shown(self, value: float) -> str:
        """A figure of the metric as a table prints it."""
        return self.metric["format"].format(value)

    def interval(self, value: Estimate | None, signed: bool = False) -> str:
        """A mean with its interval in brackets below it; "-" where there is none."""
        if value is None:
            return "-"
        show = self.shown_difference if signed else self.shown
        interval = "one seed" if value.low is None or value.high is None else f"[{show(value.low)}, {show(value.high)}]"
        return f"{show(value.mean)}\n{interval}"

    def plus_minus(self, value: Estimate | None, signed: bool = False) -> str:
        """A mean with half its interval below it."""
        if value is None:
            return "-"
        show = self.shown_difference if signed else self.shown
        half = "one seed" if value.high is None else f"\u00b1 {self.shown(value.high - value.mean)}"
        return f"{show(value.mean)}\n{half}"

    def shown_difference(self, value: float) -> str:
        return self.metric["format"].replace("{:", "{:+").format(value)

    def note(self) -> str:
        """How to read the table."""
        first, seeds = self.rows[0], len(self.seeds)
        better = "higher" if self.metric["higher_is_better"] else "lower"
        what = {"parameters": "parameters of the body", "flops": "FLOPs per token", "none": "nothing"}[self.match]
        return (
            f"{title_of(self.metric)}: {better} is better; mean over {seeds} seed{'s'[: seeds > 1]}, each with "
            f"{self.kept}. Intervals: 95%, Student's t over seeds; differences to {first.name} are paired by seed. "
            f"Matched: {what}, to {label(self.reference)}."
        )

    @property
    def kept(self) -> str:
        """Which weights the runs ended with."""
        options = self.recipe.get("train", {})
        if options.get("keep") == "average":
            return f"the mean of its last {options['average']} snapshots"
        return "the weights of its best validation step"

    def scored(self) -> list[Scored]:
        """The scores of the test sets, the metric first."""
        found = next((one.scores for one in self.tests if one.scores), ())
        return sorted(found, key=lambda score: score.key != self.metric["name"])

    def score_text(self, score: Scored | None) -> str:
        """A score's mean, of the metric with half its interval; a star where published scores are no match for it."""
        if score is None:
            return "-"
        if score.key == self.metric["name"]:
            return self.plus_minus(score.mean)
        return f"{score.mean.mean:.2f}{'' if score.comparable else '*'}"

    def told_apart(self, one: OnTestSet, level: float = 0.05) -> str:
        """How many seeds differ from the first scheme's by sacrebleu's test, and to which side."""
        known = [pair for pair in one.pairs if pair.p is not None]
        sure = [pair.difference > 0 for pair in known if pair.p is not None and pair.p < level]
        return f"{sum(sure)} better\n{len(sure) - sum(sure)} worse of {len(known)}" if known else ""

    def test_difference(self, one: OnTestSet) -> str:
        """The difference to the first scheme with its interval below; one seed has an interval over sentences alone."""
        if one.difference is None:
            return "" if one.scheme == self.rows[0].scheme else "-"
        alone = "\nsentences alone" if one.difference.n == 1 else ""
        return f"{self.interval(one.difference, signed=True)}{alone}"

    def test_note(self) -> str:
        """How to read the table of test sets."""
        several = any(one.difference is not None and one.difference.n > 1 for one in self.tests)
        over = "sentences and seeds" if several else "sentences alone, for there is one seed"
        sentences = [
            "Scores are means over seeds, with Student's t intervals.",
            f"Differences to {self.rows[0].name} are of {title_of(self.metric)}, seed by seed; intervals: 95%, paired "
            f"bootstrap over {over}.",
        ]
        if any(pair.p is not None for one in self.tests for pair in one.pairs):
            sentences.append(f"p: sacrebleu's paired bootstrap test of each seed against {self.rows[0].name}'s.")
        if not all(score.comparable for score in self.scored()):
            sentences.append("*: not comparable with published scores, for the references are no published text.")
        return " ".join(sentences)

    def chosen(self, row: Row) -> list[Trial]:
        """The runs that the row is the mean of, diverged ones too."""
        return [t for t in self.trials if (t.scheme, t.setting) == (row.scheme, row.setting)]


def _plain(value: Any) -> Any:
    """A value for JSON: records and named tuples become objects."""
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Estimate | Curve | Scored | Pair):
        return {name: _plain(inner) for name, inner in value._asdict().items()}
    return [_plain(inner) for inner in value] if isinstance(value, tuple) else value


def read_comparison(document: Any, where: str) -> Comparison:
    """The comparison that a result.json holds."""
    if not isinstance(document, dict) or document.get("study") != STUDY:
        raise ValueError(f"{where} is not the result of a comparison: name a directory that `splitstep compare` wrote.")
    if document.get("format") != FORMAT:
        raise ValueError(f"{where} has format {document.get('format')}, and this version of splitstep reads {FORMAT}.")
    try:
        document = {"tests": [], **document}  # documents of older versions have none
        entries = {f.name: document[f.name] for f in dataclasses.fields(Comparison)}
        entries["rows"] = tuple(_row_from(row) for row in entries["rows"])
        entries["trials"] = tuple(_trial_from(trial) for trial in entries["trials"])
        entries["tests"] = tuple(_on_test_set_from(one) for one in entries["tests"])
        entries["seeds"] = tuple(entries["seeds"])
        entries["sweep"] = tuple(tuple(setting) for setting in entries["sweep"])
        return Comparison(**entries)
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"{where} is damaged (at {error}): run `splitstep compare` again; finished runs are kept."
        ) from None


def _row_from(row: Mapping[str, Any]) -> Row:
    estimates = {name: row[name] and Estimate(**row[name]) for name in ("test", "valid", "difference")}
    return Row(**{**row, **estimates, "setting": tuple(row["setting"])})


def _on_test_set_from(one: Mapping[str, Any]) -> OnTestSet:
    scores = tuple(Scored(**{**score, "mean": Estimate(**score["mean"])}) for score in one["scores"])
    found = one["difference"] and Estimate(**one["difference"])
    return OnTestSet(**{**one, "scores": scores, "difference": found, "pairs": tuple(Pair(**p) for p in one["pairs"])})


def _trial_from(trial: Mapping[str, Any]) -> Trial:
    curves = {
        name: Curve(*(tuple(trial[name][axis]) for axis in Curve._fields))
        for name in ("train_loss", "valid_loss", "valid_metric")
    }
    return Trial(**{**trial, **curves, "setting": tuple(trial["setting"])})


def label(notation: str) -> str:
    """A scheme for humans: its row's name, else its notation."""
    return name_of(scheme(notation)) or notation


def kept_text(kept: Mapping[str, Any] | None, best_step: int | None, steps: int) -> str:
    """Which weights a run ended with; older documents know the best step alone."""
    if kept is None or kept["by"] == "best":
        by = f", the best by {kept['figure'].replace('_', ' ')}" if kept else ""
        return "-" if best_step is None else f"{best_step:,} of {steps:,}{by}"
    chosen = kept["steps"]
    if not chosen:
        return "-"
    return f"the mean of {len(chosen)}, steps {chosen[0]:,} to {chosen[-1]:,}"


def widths(notation: str, shape: Mapping[str, Any]) -> str:
    """The feed-forward widths, half by half: "F 256" or "F0 128, F1 128"."""
    names = [name for name in scheme(notation).fields if name[0] == "F"]
    ffn = shape["ffn"]
    lists = [ffn[i :: len(names)] if isinstance(ffn, list) else [ffn] for i in range(len(names))]
    return ", ".join(f"{name} {span(found)}" for name, found in zip(names, lists, strict=True)) or "none"


# -- reading what is asked for ------------------------------------------------------------------------------------


def split_schemes(text: str) -> list[str]:
    """The schemes of a list, split at commas outside brackets."""
    found, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            found.append("")
        else:
            found[-1] += character
    if not all(part.strip() for part in found):
        raise ValueError(f"--schemes {text!r} names nothing between two commas: write --schemes lie,macaron")
    return [part.strip() for part in found]


def read_sweep(texts: Sequence[str]) -> list[Setting]:
    """Every combination of the swept values: ["train.lr=1e-3,3e-3"] has two settings."""
    axes = []
    for text in texts:
        key, equals, values = text.partition("=")
        if not equals or not all(value.strip() for value in values.split(",")):
            raise ValueError(f"--sweep {text!r} is not of the form key=value,value such as train.lr=1e-3,3e-3")
        if key in ("task", "scheme", "reference", "match", "train.seed"):
            raise ValueError(f"--sweep {key}: what is compared cannot be swept; sweep an entry such as train.lr")
        axes.append([f"{key}={value.strip()}" for value in values.split(",")])
    return [tuple(setting) for setting in product(*axes)] if axes else []


class Planned(NamedTuple):
    """A run to be done."""

    scheme: str
    setting: Setting
    seed: int
    recipe: Recipe
    folder: str


def plan(recipe: Recipe, schemes: Sequence[str], seeds: Sequence[int], sweep: Sequence[Setting]) -> list[Planned]:
    """All runs, every recipe of them checked."""
    notations = [str(scheme(text)) for text in schemes]
    for position, notation in enumerate(notations):
        if notation in notations[:position]:
            raise ValueError(f"{schemes[position]!r} is listed twice: name each scheme once")
    if len(notations) < 1 or len(set(seeds)) != len(seeds) or not seeds:
        raise ValueError(f"a comparison needs schemes and different seeds; got {list(schemes)} and {list(seeds)}")
    runs = []
    for notation, setting, seed in product(notations, sweep or [()], seeds):
        document = override({**recipe.document(), "scheme": notation}, [*setting, f"train.seed={seed}"])
        parts = [slug(notation), *(re.sub(r"[^\w.+-]", "", text) for text in _short(setting)), f"seed{seed}"]
        runs.append(Planned(notation, setting, seed, read_recipe(document, "the recipe"), f"runs/{'-'.join(parts)}"))
    return runs


def _short(setting: Setting) -> Iterator[str]:
    """The assignments without their sections."""
    for assignment in setting:
        key, _, value = assignment.partition("=")
        yield f"{key.rpartition('.')[2]}{value}"


def slug(notation: str) -> str:
    """A folder's name for the scheme: its row's name, else its letters and a hash that tells it from others."""
    name = name_of(scheme(notation))
    letters = re.sub(r"[^\w@+]+", "_", notation).strip("_")[:40]
    return name or f"{letters}-{hashlib.sha256(notation.encode()).hexdigest()[:8]}"


def check_runs(runs: Sequence[Planned], out: Path, task: Task) -> list[Planned]:
    """The runs, the dearest first, so that none is left over at the end.

    Refuses before anything is computed: schemes without an equal-cost twin, and folders of other runs.
    """
    work: dict[str, int] = {}
    if (out / "recipe.yaml").exists():
        raise ValueError(f"{out} belongs to a single run: name a new directory with --out")
    for run in runs:
        work[run.folder] = run.recipe.train.steps * cost(run.recipe.config(task), task.length).flops
        directory = RunDirectory(out / run.folder)
        if (directory.path / "recipe.yaml").exists() and not directory.belongs_to(run.recipe.document()):
            raise ValueError(
                f"{directory.path} belongs to another run (see its recipe.yaml): name a new directory with --out"
            )
    return sorted(runs, key=lambda run: -work[run.folder])


# -- running ------------------------------------------------------------------------------------------------------

_one_at_a_time = threading.Lock()  # a cluster's worker may have several threads, and torch's seed is the process's


def run_one(recipe: Mapping[str, Any], folder: str, data: str, threads: int) -> dict[str, Any]:
    """One run in a worker, plain data in and out: its result and its curves."""
    import torch

    from ..training import train

    with _one_at_a_time:
        torch.set_num_threads(threads)
        out = Path(folder)
        result = train(read_recipe(recipe, folder), out, Path(data), quiet=True)
        return output_of(RunDirectory(out), result)


def output_of(directory: RunDirectory, result: Mapping[str, Any]) -> dict[str, Any]:
    """What a study needs of a run that is over: its result, its curves and what its model wrote for the test splits."""
    splits = [split for split in result.get("splits", {}) if split != "valid"]
    written = {split: read_translations(directory, split) for split in splits}
    return {"result": result, "curves": read_curves(directory, result["metric"]["name"]), "written": written}


def read_translations(directory: RunDirectory, split: str) -> list[str]:
    file = directory.translations / f"{split}.txt"
    if not file.is_file():
        raise ValueError(f"{file} is missing: delete {directory.path}, so that the run is done again")
    return file.read_text(encoding="utf-8").split("\n")[:-1]


def read_curves(directory: RunDirectory, metric: str) -> dict[str, Curve]:
    logged = directory.logged()
    columns = {"train_loss": ("train", "loss"), "valid_loss": ("valid", "loss"), "valid_metric": ("valid", metric)}
    return {
        name: thinned(
            [(r["step"], r[key]) for r in logged if r["split"] == split and math.isfinite(r.get(key, math.nan))]
        )
        for name, (split, key) in columns.items()
    }


def is_number(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def thinned(points: Sequence[tuple[int, float]], most: int = POINTS) -> Curve:
    """The curve with neighbours averaged until there are few enough points."""
    size = max(1, math.ceil(len(points) / most))
    groups = [points[i : i + size] for i in range(0, len(points), size)]
    return Curve(
        tuple(group[-1][0] for group in groups), tuple(math.fsum(v for _, v in group) / len(group) for group in groups)
    )


def trial_of(run: Planned, output: Mapping[str, Any]) -> Trial:
    result, curves = output["result"], output["curves"]
    same = {
        name: result.get(name)
        for name in (
            "status", "valid", "test", "best_step", "steps", "tokens", "seconds", "tokens_per_second", "cost",
            "matched", "shape", "device", "precision", "mode", "commit", "diverged", "kept",
        )
    }  # fmt: skip
    same["splits"] = result.get("splits", {})
    return Trial(scheme=run.scheme, setting=run.setting, seed=run.seed, folder=run.folder, **same, **curves)


class Ended(NamedTuple):
    """A run that is over, and what its model wrote for each test split."""

    trial: Trial
    written: Mapping[str, Sequence[str]]


def run_all(runs: Sequence[Planned], out: Path, data: Path, engine_text: str, watch: Watch) -> Iterator[Ended]:
    """The runs as they end, those of an earlier call first."""
    open_runs = []
    for run in runs:
        directory = RunDirectory(out / run.folder)
        result = directory.result()
        if result is None:
            open_runs.append(run)
            continue
        output = output_of(directory, result)
        trial = trial_of(run, output)
        watch.done(run.folder, f"{told(trial, result['metric'])}, from an earlier call")
        yield Ended(trial, output["written"])
    if not open_runs:
        return
    with open_engine(engine_text, len(open_runs)) as engine:
        watch.note(f"{len(open_runs)} runs on {engine.name}, {engine.workers} at once")
        futures: dict[Future[dict[str, Any]], Planned] = {
            engine.executor.submit(
                run_one, run.recipe.document(), str(out / run.folder), str(data), threads_per_job()
            ): run
            for run in open_runs
        }
        while futures:
            ended, _ = wait(futures, timeout=1.0, return_when=FIRST_COMPLETED)
            watch.look([(out / run.folder, run.recipe.train.steps) for run in futures.values()])
            for future in ended:
                run = futures.pop(future)
                output = outcome(future, run, engine)
                trial = trial_of(run, output)
                watch.done(run.folder, told(trial, output["result"]["metric"]))
                yield Ended(trial, output["written"])


def outcome(future: Future[dict[str, Any]], run: Planned, engine: Engine) -> dict[str, Any]:
    try:
        return future.result()
    except engine.died:
        raise ValueError(
            f"{run.folder}: its process was killed twice (is there enough memory?), or the cluster went away. Start "
            "the same command again: finished runs are kept, and this one goes on from its checkpoint."
        ) from None
    except ImportError as error:
        raise ValueError(f"{run.folder}: the worker lacks a package ({error}): install splitstep there too.") from None


def told(trial: Trial, metric: Mapping[str, Any]) -> str:
    """A run in a few words."""
    if trial.test is None:
        return f"diverged at step {trial.steps}"
    figure = metric["format"].format(trial.test[metric["name"]])
    return f"{title_of(metric)} {figure}, {trial.seconds:,.0f} s"


# -- summing up ---------------------------------------------------------------------------------------------------


def figures(trials: Iterable[Trial], split: str, metric: str) -> dict[int, float]:
    """The metric of the finished runs by seed."""
    return {t.seed: getattr(t, split)[metric] for t in trials if t.status == "finished"}


def choose_setting(trials: Sequence[Trial], metric: Mapping[str, Any]) -> Setting:
    """The setting of the best mean validation figure; one that diverged less often goes before one that did more."""
    sign = -1.0 if metric["higher_is_better"] else 1.0

    def rank(setting: Setting) -> tuple[int, float]:
        own = [t for t in trials if t.setting == setting]
        valid = estimate(list(figures(own, "valid", metric["name"]).values()))
        return sum(t.status != "finished" for t in own), sign * valid.mean if valid else math.inf

    return min(dict.fromkeys(t.setting for t in trials), key=rank)


def rows_of(trials: Sequence[Trial], metric: Mapping[str, Any]) -> list[Row]:
    """A row per scheme, in order."""
    rows: list[Row] = []
    first: dict[int, float] = {}
    for notation in dict.fromkeys(t.scheme for t in trials):
        every = [t for t in trials if t.scheme == notation]
        setting = choose_setting(every, metric)
        own = [t for t in every if t.setting == setting]
        test = figures(own, "test", metric["name"])
        if not rows:
            first = test
        rates = [t.tokens_per_second for t in own if t.tokens_per_second]
        s = scheme(notation)
        rows.append(
            Row(
                name=label(notation),
                scheme=notation,
                setting=setting,
                finished=len(test),
                diverged=len(own) - len(test),
                test=estimate(list(test.values())),
                valid=estimate(list(figures(own, "valid", metric["name"]).values())),
                difference=paired_difference(test, first) if rows else None,
                cost=own[0].cost,
                matched=own[0].matched,
                shape=own[0].shape,
                evaluations=s.evaluations,
                order=s.order,
                seconds=math.fsum(t.seconds for t in own) / len(own),
                tokens_per_second=math.fsum(rates) / len(rates) if rates else None,
                structure=structure(s),
            )
        )
    return rows


def structure(s: Scheme) -> list[dict[str, Any]]:
    """The stages of one step for readers of the JSON: the averaged programs, part by part."""
    return [
        {
            "weight": str(weight),
            "parts": [
                {"projects": part.field}
                if isinstance(part, Project)
                else {
                    "fields": list(part.fields),
                    "fraction": str(part.fraction),
                    "tableau": part.tableau.name,
                    "replaces": part.replaces,
                    "half": part.half or None,
                }
                for part in program
            ],
        }
        for weight, program in s.branches
    ]


def compare(
    recipe: Recipe,
    schemes: Sequence[str],
    seeds: Sequence[int],
    out: Path,
    *,
    sweep: Sequence[Setting] = (),
    engine: str = "local",
    data: Path | None = None,
    command: str | None = None,
    quiet: bool = False,
) -> Comparison:
    """Train every scheme with every seed at the cost of the recipe's reference; finished runs in `out` are reused.

    With a sweep each scheme gets every setting, and its row is the one that is best on the validation split. The test
    figures of a row are means over the runs that finished; those that diverged are counted beside them.
    """
    check_engine(engine)
    runs = plan(recipe, schemes, seeds, sweep)
    task = recipe.load_task(data)  # a missing file shows here, once, and caches are made before workers want them
    out = out.resolve()
    ordered = check_runs(runs, out, task)
    with Watch(f"compare {recipe.task}", len(runs), sum(r.recipe.train.steps for r in runs), quiet) as watch:
        ended = {one.trial.folder: one for one in run_all(ordered, out, data_root(data).resolve(), engine, watch)}
    trials = [ended[run.folder].trial for run in runs]
    metric = task.metric._asdict()
    rows = rows_of(trials, metric)
    return Comparison(
        task=recipe.task,
        metric=metric,
        match=recipe.match,
        reference=str(scheme(recipe.reference)),
        seeds=tuple(seeds),
        sweep=tuple(sweep),
        rows=tuple(rows),
        trials=tuple(trials),
        recipe=recipe.document(),
        data=json.loads(json.dumps(task.describe())),
        engine=engine,
        threads=threads_per_job(),
        command=command,
        versions=versions(),
        commit=git_hash(),
        date=datetime.now(UTC).date().isoformat(),
        tests=tests_of(rows, runs, ended, data) if isinstance(task, Translation) else (),
    )


def tests_of(
    rows: Sequence[Row], runs: Sequence[Planned], ended: Mapping[str, Ended], data: Path | None
) -> tuple[OnTestSet, ...]:
    """The rows on each test split; a swept data option gives a row a task of its own."""
    tasks: dict[str, Task] = {}
    systems = []
    for row in rows:
        own = [run for run in runs if (run.scheme, run.setting) == (row.scheme, row.setting)]
        asked = json.dumps(own[0].recipe.data, sort_keys=True)
        if asked not in tasks:
            tasks[asked] = own[0].recipe.load_task(data)
        task = tasks[asked]
        assert isinstance(task, Translation)
        found = {
            run.seed: Written(
                ended[run.folder].written,
                {split: one["scores"] for split, one in ended[run.folder].trial.splits.items()},
            )
            for run in own
            if ended[run.folder].trial.status == "finished"
        }
        systems.append(System(row.scheme, task, found))
    return on_test_sets(systems)
