"""What residuals and norms do: arms x seeds as independent runs, each measured layer by layer along training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ...experiments.arms import FULL, PAPER, Assignments, find_arms, recipes_of
from ...experiments.plan import Planned, check_runs
from ...experiments.running import Workplace, made_by_runs
from ...experiments.trials import LOSS, Trial, experiment_of, thinned
from ...jobs import check_engine
from ...tasks.measures import Metric
from ...training import Recipe
from .outcomes import outcomes_of
from .plan import check_rates, default_rates, equal_shapes, possible_runs, rate_of, rate_stage, seed_stage, setting_of
from .records import PROBES, RECORDS
from .replay import replay
from .result import Ablation, ArmResult
from .verdict import claims_of

POINTS = 25  # of a curve in the result, at most


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
    command: str | None = None,
    quiet: bool = False,
) -> Ablation:
    """Train every arm at its own best rate and at the full arm's with every seed; finished runs in `out` are reused.

    The best rate is that of the best validation figure with the first seed. All arms have the shape of the recipe's
    own network. `own_arms` are arms besides the package's: what each assigns to entries of the recipe.
    """
    check_engine(engine)
    check_seeds(seeds)
    task = recipe.load_task(data)
    watched = with_probes(equal_shapes(recipe, task))
    chosen = find_arms(arms, watched, own_arms)
    recipes = recipes_of(watched, chosen)
    tried = check_rates(rates or default_rates(recipe))
    out = out.resolve()
    check_runs(possible_runs(recipes, tried, seeds), out, {"": task})

    def execute(runs: Sequence[Planned], stage: str) -> dict[str, Trial]:
        where = Workplace(f"ablate {task.name}, {stage}", out, data, engine, quiet)
        return {one.trial.folder: one.trial for one in where.execute(runs, {"": task})}

    found = execute(rate_stage(recipes, tried, seeds), "rates")
    own = {arm: best_rate(found.values(), arm, recipe, task.metric) for arm in recipes}
    found |= execute([run for run in seed_stage(recipes, own, seeds) if run.folder not in found], "seeds")
    trials = list(found.values())
    measured = outcomes_of(trials, own, task.metric, out)
    results = [ArmResult(a.name, recipes[a.name].scheme, dict(a.assignments), *measured[a.name]) for a in chosen]
    return Ablation(
        task=recipe.task,
        metric=task.metric,
        seeds=tuple(seeds),
        rates=tried,
        arms=tuple(results),
        claims=claims_of(results),
        replay=replay(watched, task, [t for t in trials if at_own_rate(t, own)], out),
        trials=tuple(map(thin, trials)),
        made=made_by_runs(watched.document(), task.describe(), engine, command),
    )


def check_seeds(seeds: Sequence[int]) -> None:
    if not seeds or len(set(seeds)) != len(seeds):
        raise ValueError(f"an ablation needs different seeds; got {list(seeds)}")


def with_probes(recipe: Recipe) -> Recipe:
    """The recipe with all probes, recording at least so often as the study needs."""
    train, probes = recipe.train, dict.fromkeys((*recipe.probes, *PROBES))
    every = max(1, train.steps // RECORDS)
    often = every if train.probe_every == 0 else min(every, train.probe_every)
    return replace(recipe, probes=tuple(probes), train=replace(train, probe_every=often))


def at_own_rate(trial: Trial, own: Mapping[str, float]) -> bool:
    """Whether a run is one of the full arm at its own rate."""
    return trial.arm == FULL and trial.setting == setting_of(own[FULL])


def best_rate(trials: Iterable[Trial], arm: str, recipe: Recipe, metric: Metric) -> float:
    """The rate at which an arm's validation figure is best, that by which runs keep their weights; the smallest rate if
    the arm diverges at each."""
    figure = metric if recipe.train.best == "metric" else LOSS
    experiment = experiment_of((trial for trial in trials if trial.arm == arm), figure)
    return rate_of(experiment.setting(experiment.observations[0].arm))


def thin(trial: Trial) -> Trial:
    """The run with fewer points in its curves, so results of many runs stay small."""
    curves = {name: getattr(trial, name) for name in ("train_loss", "valid_loss", "valid_metric")}
    fewer = {name: thinned(list(zip(*curve, strict=True)), len(curve.steps), POINTS) for name, curve in curves.items()}
    return replace(trial, **fewer)
