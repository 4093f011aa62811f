"""What residuals and norms do: arms x seeds as independent runs, each measured layer by layer along training."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ...experiments.arms import FULL, PAPER, Assignments, find_arms, recipes_of
from ...experiments.plan import Planned, check_runs, file_name
from ...experiments.running import Workplace, made_by_runs
from ...experiments.trials import LOSS, Trial, experiment_of, thinned
from ...jobs import check_engine
from ...tasks import Metric, Task
from ...training import Recipe
from .measured import outcomes_of, replay
from .result import Ablation, ArmResult, claims_of, rate_of, setting_of

FACTORS = (1 / 3, 1.0, 3.0)  # of the recipe's rate, where no rates are given
POINTS = 25  # of a curve in the result, at most
PROBES = ("drift", "gradients", "information", "attention", "sensitivity", "states")
RECORDS = 20  # of each run, at least


def ablate(
    recipe: Recipe,
    out: Path,
    *,
    arms: Sequence[str] = PAPER,
    own_arms: Mapping[str, Assignments] | None = None,
    seeds: Sequence[int] = (0, 1, 2),
    rates: Sequence[float] = (),
    engine: str = "local",
    data: Path | None = None,
    quiet: bool = False,
) -> Ablation:
    """Train every arm at its own best rate and at the full arm's with every seed; finished runs in `out` are reused.

    The best rate is that of the best validation figure with the first seed. All arms have the shape of the recipe's
    own network. `own_arms` are arms besides the package's: what each assigns to entries of the recipe.
    """
    check_engine(engine)
    if not seeds or len(set(seeds)) != len(seeds):
        raise ValueError(f"an ablation needs different seeds; got {list(seeds)}")
    task = recipe.load_task(data)
    watched = with_probes(equal_shapes(recipe, task))
    chosen = find_arms(arms, watched, own_arms)
    recipes = recipes_of(watched, chosen)
    tried = check_rates(rates or default_rates(recipe))
    out = out.resolve()
    every = dict.fromkeys(recipes, tried)
    check_runs(runs_of(recipes, every, seeds), out, {"": task})
    where = Workplace(f"ablate {task.name}, rates", out, data, engine, quiet)
    found = execute(where, runs_of(recipes, every, seeds[:1]), task)
    own = {arm: best_rate(found.values(), arm, recipe, task.metric) for arm in recipes}
    left = [run for run in runs_of(recipes, own_and_shared(own), seeds) if run.folder not in found]
    found |= execute(where._replace(title=f"ablate {task.name}, seeds"), left, task)
    trials = list(found.values())
    full = [trial for trial in trials if (trial.arm, trial.setting) == (FULL, setting_of(own[FULL]))]
    measured = outcomes_of(trials, own, task.metric, out)
    results = [ArmResult(a.name, recipes[a.name].scheme, dict(a.assignments), *measured[a.name]) for a in chosen]
    return Ablation(
        task=recipe.task,
        metric=task.metric,
        seeds=tuple(seeds),
        rates=tried,
        arms=tuple(results),
        claims=claims_of(results),
        replay=replay(watched, task, full, out),
        trials=tuple(map(thin, trials)),
        made=made_by_runs(watched.document(), task.describe(), engine),
    )


def execute(where: Workplace, runs: Sequence[Planned], task: Task) -> dict[str, Trial]:
    """What the runs ended with, by folder."""
    return {one.trial.folder: one.trial for one in where.execute(runs, {"": task})}


def default_rates(recipe: Recipe) -> tuple[float, ...]:
    """A third of the recipe's rate, the rate, and three times it, to three digits."""
    return tuple(float(f"{factor * recipe.train.lr:.3g}") for factor in FACTORS)


def check_rates(rates: Sequence[float]) -> tuple[float, ...]:
    """The rates, each once, in ascending order."""
    for rate in rates:
        if not 0 < rate < math.inf:
            raise ValueError(f"--rates: {rate:g} is not a learning rate: give numbers above 0, such as 5e-4,1e-3")
    if len({setting_of(rate) for rate in rates}) < len(rates) or not rates:
        raise ValueError(f"--rates: give different learning rates, not {', '.join(f'{one:g}' for one in rates)}")
    return tuple(sorted(rates))


def equal_shapes(recipe: Recipe, task: Task) -> Recipe:
    """The recipe with the shape of its own network written out, so that all arms have the same one."""
    config = recipe.config(task)
    if config.matched is None:
        return replace(recipe, match="none")
    shape = {"layers": config.layers, "ffn": config.ffn, "step": config.step}
    return replace(recipe, match="none", model={**recipe.model, **shape})


def with_probes(recipe: Recipe) -> Recipe:
    """The recipe with all probes, recording at least so often as the study needs."""
    train, probes = recipe.train, dict.fromkeys((*recipe.probes, *PROBES))
    every = max(1, train.steps // RECORDS)
    often = every if train.probe_every == 0 else min(every, train.probe_every)
    return replace(recipe, probes=tuple(probes), train=replace(train, probe_every=often))


def runs_of(recipes: Mapping[str, Recipe], rates: Mapping[str, Iterable[float]], seeds: Sequence[int]) -> list[Planned]:
    """The runs of all arms, each with its rates and with every seed."""
    return [run_of(arm, recipes[arm], rate, seed) for arm in recipes for rate in rates[arm] for seed in seeds]


def run_of(arm: str, recipe: Recipe, rate: float, seed: int) -> Planned:
    """One run of an arm."""
    setting = setting_of(rate)
    own = replace(recipe, train=replace(recipe.train, lr=rate_of(setting), seed=seed))
    return Planned(recipe.scheme, setting, seed, own, f"runs/{arm}-{file_name(setting[0])}-seed{seed}", arm)


def best_rate(trials: Iterable[Trial], arm: str, recipe: Recipe, metric: Metric) -> float:
    """The rate at which an arm's validation figure is best, that by which runs keep their weights; the smallest rate if
    the arm diverges at each."""
    figure = metric if recipe.train.best == "metric" else LOSS
    experiment = experiment_of((trial for trial in trials if trial.arm == arm), figure)
    return rate_of(experiment.setting(experiment.observations[0].arm))


def own_and_shared(own: Mapping[str, float]) -> dict[str, list[float]]:
    """Each arm's own rate and that of the first arm; one that serves both is there once."""
    shared = next(iter(own.values()))
    return {arm: list(dict.fromkeys((rate, shared))) for arm, rate in own.items()}


def thin(trial: Trial) -> Trial:
    """The run with fewer points in its curves, so results of many runs stay small."""
    curves = {name: getattr(trial, name) for name in ("train_loss", "valid_loss", "valid_metric")}
    fewer = {name: thinned(list(zip(*curve, strict=True)), len(curve.steps), POINTS) for name, curve in curves.items()}
    return replace(trial, **fewer)
