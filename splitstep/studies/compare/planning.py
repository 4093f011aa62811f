"""How a comparison is planned: short runs show the pace of its arms and their spread; its time, what there is time for,
and what it can detect follow from these.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from math import isfinite
from statistics import fmean
from types import MappingProxyType
from typing import Any, NamedTuple

from ...experiments.noise import Outlook, noise_floor, outlook
from ...experiments.plan import Entrant, Planned
from ...experiments.running import Job, Workplace, run_jobs
from ...experiments.statistics import FEWEST
from ...jobs import workers_of
from ...models.cost import cost
from ...opening.others import adapted_config
from ...recipe import Recipe
from ...sources import ConfigSource
from ...support.typed import json_text, plain
from ...tasks import Task
from ...training.progress import Progress, RunsProgress
from ...training.update import native_bfloat16
from .arms import Fitted
from .campaign import planned_stages
from .design import AT, MOST_SEEDS, TUNING, Design, compared_metric, looks_of
from .outline import Arm, Outline
from .pace import LONG, SHORT, Pace, makespan, pace_of

PILOTS = 4  # short runs of the first arm at least: before the comparison, their spread is all that is known of noise
SHARE = 0.15  # of the minutes, after which a short run is cut short
WORTH = 2  # times what it takes to time bfloat16: shorter comparisons do without
FASTER = 1.2  # times as fast as in float32, from which on bfloat16 is taken
START = 6.0  # seconds of each stage until workers have begun, or for the page at the end
SIZES = ((2, 64, 2), (4, 128, 4), (6, 256, 8), (6, 384, 6), (8, 512, 8), (12, 768, 12))  # layers, width, heads
SEEDS = 5
SIZE = {"model.layers", "model.width", "model.heads", "model.ffn"}
FEWEST_STEPS, SMALLEST_BATCH = 200, 4  # a batch is halved until the text has enough of them


Paces = Mapping[str, Sequence[Pace]]  # by arm, the first one first


class Question(NamedTuple):
    """What a comparison is asked for: its recipe, its arms at equal cost as a function of it, and how they are
    compared; later also the paces of its arms, and how many times as fast bfloat16 is, if that was timed."""

    recipe: Recipe
    fitted: Callable[[Recipe], Sequence[Fitted]]
    task: Task
    text: int | None  # tokens of the training text, if the task has one
    seeds: Sequence[int]
    design: Design
    minutes: float | None = None
    typed: frozenset[str] = frozenset()  # entries of the recipe, and "seeds", that were typed, so they stay
    paces: Paces = MappingProxyType({})
    faster: float | None = None

    @property
    def entrants(self) -> list[Entrant]:
        """The arms of the recipe."""
        return [one.entrant for one in self.fitted(self.recipe)]

    @property
    def stages(self) -> list[list[Planned]]:
        """All runs that may be needed, stage by stage."""
        return planned_stages(self.entrants, self.seeds, self.design)

    def hash(self) -> str:
        """A hash of all that is asked for."""
        arms = [(one.arm, one.recipe.document()) for one in self.entrants]
        own = self.recipe.document(), arms, list(self.seeds), self.design, self.minutes, *sorted(self.typed)
        return hashlib.sha256(json_text(plain(own)).encode()).hexdigest()


def measured(question: Question, place: Workplace) -> Question:
    """With the paces of all arms. The first one has several seeds, so workers are busy and its spread is seen."""
    return question._replace(paces=timed(question, question.entrants, place, PILOTS))


def timed(question: Question, entrants: Sequence[Entrant], place: Workplace, pilots: int = 1) -> Paces:
    """The paces of these arms; of the first one those of so many seeds at least, and of as many more as keep all
    workers busy to the end."""
    start, workers = question.seeds[0] + TUNING, workers_of(place.engine)
    more = pilots - 1 + -(len(entrants) + pilots - 1) % workers
    runs = [run for one in entrants for run in one.runs([start])]
    runs += [run for one in entrants[:1] for run in one.runs(range(start + 1, start + 1 + more))]
    share = None if question.minutes is None else SHARE * 60 * question.minutes / -(-len(runs) // workers)
    jobs = [Job(run.folder, SHORT + LONG, pace_of, (run.recipe, place.data, share)) for run in runs]
    arms, found = {run.folder: run for run in runs}, dict[str, list[Pace]]()
    precision = question.recipe.train.precision
    title = "short runs" if precision == "auto" else f"short runs, {precision}"
    what = f"{len(jobs)} of {SHORT + LONG} updates"
    place.say(f"{title}: {what} measure how fast this machine is, before the plan and the training")
    with Progress(title, len(jobs) * (SHORT + LONG), place.quiet) as bar:
        watch = RunsProgress(bar, len(jobs))
        for job, pace in run_jobs(jobs, place.out, place.engine, watch):
            run = arms[job.folder]
            watch.done(f"{run.arm}, seed {run.seed}", pace.summary())
            found.setdefault(run.arm, []).append(pace)
    return {one.arm: found[one.arm] for one in entrants}


def with_precision(question: Question, place: Workplace) -> Question:
    """With the precision that pays, for all arms alike, if the recipe leaves it open, the runs are on this machine and
    it multiplies in bfloat16 itself: the first arm is timed in both."""
    leaves_open = all(one.recipe.train.precision == "auto" for one in question.entrants)
    if not (place.is_here and native_bfloat16() and leaves_open and pays(question, workers_of(place.engine))):
        return question
    half = question._replace(recipe=question.recipe.changed({"train.precision": "bfloat16"}))
    (first, *others), paces = half.entrants, question.paces
    found = timed(half, [first], place)
    faster = fmean(one.step for one in paces[first.arm]) / fmean(one.step for one in found[first.arm])
    if faster < FASTER:
        return question._replace(faster=faster)
    halves = zip(paces[first.arm], cycle(found[first.arm]), strict=False)
    own = {first.arm: [new._replace(figure=old.figure) for old, new in halves]}
    return half._replace(paces={**own, **timed(half, others, place)}, faster=faster)


def pays(question: Question, workers: int) -> bool:
    """Whether the comparison takes so long that timing bfloat16, for all arms in the end, is worth it."""
    timing = 2 * START + sum(own[0].short for own in question.paces.values())
    minutes = question.minutes
    return (60 * minutes if minutes else seconds_of(question.stages, question.paces, workers)) >= WORTH * timing


def seconds_of(stages: Sequence[Sequence[Planned]], paces: Paces, workers: int) -> float:
    """How long the runs take, one stage after another, by the mean pace of each arm."""
    return sum(
        START + makespan((fmean(pace.seconds(run.recipe.train) for pace in paces[run.arm]) for run in own), workers)
        for own in stages
    )


def sized(question: Question, place: Workplace) -> Question:
    """With a network of the size that its minutes have room for, and the paces there: the largest one that sees at
    least as many tokens as it has parameters. A size that was typed stays, and that of a recipe that is not of one's
    own text."""
    recipe, chosen = question.recipe, question
    if recipe.task != "text" or question.text is None:
        return question
    if "train.batch" not in question.typed:
        chosen = question._replace(recipe=smaller_batches(recipe, question.text))
    if not SIZE & question.typed:
        chosen = with_size(chosen, workers_of(place.engine))
    return chosen if chosen.recipe == recipe else measured(chosen, place)


def filled(question: Question, workers: int) -> Question:
    """With the steps and seeds that its minutes have room for, unless they were typed. No token of the text is seen
    more than once; time that is left then goes into seeds."""
    chosen = question._replace(seeds=first_seeds(question))
    if "train.steps" not in question.typed:
        chosen = with_steps(chosen, steps_for(chosen, workers))
    return chosen._replace(seeds=more_seeds(chosen, workers))


def within_text(question: Question) -> Question:
    """With fewer steps, if its largest budget has more tokens than the text. Steps that were typed stay, and those of a
    recipe that itself goes over its text more than once."""
    text, steps = question.text, question.recipe.train.steps
    if text is None or "train.steps" in question.typed:
        return question
    most, once = most_steps(question, text), text // tokens_of_step(question)
    if steps <= most or (question.recipe.task != "text" and steps > once):
        return question
    return with_steps(question, most)


def tokens_of_step(question: Question) -> int:
    """The tokens of an update."""
    return next(iter(question.paces.values()))[0].tokens


def most_steps(question: Question, text: int) -> int:
    """As many steps as the text has tokens for at the largest budget."""
    return max(1, int(text / tokens_of_step(question) / question.design.largest))


def first_seeds(question: Question) -> Sequence[int]:
    """The seeds that a comparison has at least."""
    if "seeds" in question.typed:
        return question.seeds
    return seeds_from(question, AT[-1] if question.design.until_decided else SEEDS)


def seeds_from(question: Question, count: int) -> range:
    return range(question.seeds[0], question.seeds[0] + count)


def with_steps(question: Question, steps: int) -> Question:
    """With so many steps, of which a tenth warms up."""
    train = question.recipe.train
    train = replace(train, steps=steps, warmup=min(train.warmup, max(1, steps // 10)))
    return question._replace(recipe=replace(question.recipe, train=train))


def smaller_batches(recipe: Recipe, text: int) -> Recipe:
    """The recipe with a batch of which the text has enough."""
    batch, length = recipe.train.batch, recipe.options.length
    while batch > SMALLEST_BATCH and text < FEWEST_STEPS * batch * length:
        batch //= 2
    return replace(recipe, train=replace(recipe.train, batch=batch))


def with_size(question: Question, workers: int) -> Question:
    """With the largest network that there is time for, by its FLOPs; the smallest, if there is none."""
    task = question.task
    now = cost(question.recipe.config(task), task.length).flops
    for layers, width, heads in reversed(SIZES):
        entries: dict[str, Any] = {"layers": layers, "width": width, "heads": heads, "ffn": 4 * width}
        other = question.recipe.changed({f"model.{key}": value for key, value in entries.items()})
        found = cost(other.config(task), task.length)
        slower = {name: [pace.scaled(found.flops / now) for pace in own] for name, own in question.paces.items()}
        tried = question._replace(recipe=other, seeds=first_seeds(question), paces=slower)
        tokens = steps_for(tried, workers) * other.train.batch * task.length
        if tokens >= found.parameters or (layers, width, heads) == SIZES[0]:
            return question._replace(recipe=other)
    raise AssertionError("there is a smallest size")


def fits(question: Question, workers: int) -> bool:
    """Whether there is time for the comparison."""
    assert question.minutes is not None
    return seconds_of(question.stages, question.paces, workers) <= 60 * question.minutes


def steps_for(question: Question, workers: int) -> int:
    """The most steps for which there is time, and text."""
    low, high = 1, 10**6 if question.text is None else most_steps(question, question.text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(with_steps(question, middle), workers) else (low, middle - 1)
    return low


def more_seeds(question: Question, workers: int) -> Sequence[int]:
    """The most seeds for which there is time. Those that were typed stay, and those of looks."""
    if "seeds" in question.typed or question.design.until_decided:
        return question.seeds
    count = len(question.seeds)
    while count < MOST_SEEDS and fits(question._replace(seeds=seeds_from(question, count + 1)), workers):
        count += 1
    return seeds_from(question, count)


def plan_of(asked: str, question: Question, place: Workplace) -> Outline:
    """The plan of what was asked, as its hash says, with what was chosen."""
    stages, paces = question.stages, question.paces
    runs = [run for own in stages for run in own]
    workers = min(workers_of(place.engine), len(runs))
    return Outline(
        asked=asked,
        recipe=question.recipe.document(),
        metric=compared_metric(question.task.metric),
        seeds=tuple(question.seeds),
        arms=tuple(arm_of(one, paces[one.entrant.arm][0], question.task) for one in question.fitted(question.recipe)),
        runs=len(runs),
        steps=max(run.recipe.train.steps for run in runs),
        tokens=sum(run.recipe.train.steps * paces[run.arm][0].tokens for run in runs),
        seconds=seconds_of(stages, paces, workers),
        bytes=sum(paces[run.arm][0].bytes for run in runs),
        workers=workers,
        text=question.text,
        detectable=detects(question),
        faster=question.faster,
    )


def arm_of(one: Fitted, pace: Pace, task: Task) -> Arm:
    """An arm as the plan shows it."""
    recipe, remarks = one.entrant.recipe, list[str]()
    if isinstance(recipe.source, ConfigSource):
        found = adapted_config(recipe, task)
        remarks = [f"{key} {value} (was {old})" for key, (old, value) in found.changed.items()]
        remarks += [f"{key} {value:g}" for key, value in found.dropouts.items()]
    return Arm(one.entrant.arm, pace, one.fit.ffn, one.fit.ratio, tuple(remarks))


def detects(question: Question) -> Outlook | None:
    """The difference that the seeds detect with 80% power, if longer runs differ as much as the short ones do."""
    (first, *others), seeds, design = question.paces, len(question.seeds), question.design
    found = noise_floor(dict(enumerate(pace.figure for pace in question.paces[first] if isfinite(pace.figure))))
    if found is None or not others or seeds < FEWEST:
        return None
    return outlook(found, seeds, len(others), looks_of(design, seeds, len(others)) if design.until_decided else None)
