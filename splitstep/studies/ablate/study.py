"""What residuals and norms do: arms x seeds as independent runs, each measured layer by layer along training; and the
full network replayed without its parts.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...experiments.arms import ARMS, FULL, PAPER, Assignments, find_arms, recipes_of
from ...experiments.experiment import Sample, rate_of, sample, setting_of
from ...experiments.plan import Entrant, Planned, check_runs
from ...experiments.running import Workplace, made_by_runs
from ...experiments.statistics import Bounds
from ...experiments.trials import LOSS, Trial, experiment_of, figure_on, observed, thinned
from ...inference.runs import find_run
from ...jobs import check_engine
from ...models import rebuilt
from ...probes import observe
from ...tasks import Metric, Task
from ...training import Recipe, evaluate
from ...training.evaluate import evaluating
from ...training.objective import EXAMPLES, first_examples
from ...training.update import autocast
from . import watched
from .result import LACKING, Ablation, ArmResult, Lost, Outcome, Replayed, claims_of
from .watched import Values, Watched

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
    probed = with_probes(equal_shapes(recipe, task))
    chosen = find_arms(arms, probed, own_arms)
    recipes = recipes_of(probed, chosen)
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
    results = [
        ArmResult(arm, str(recipes[arm].scheme), dict(changes), *measured[arm]) for arm, changes in chosen.items()
    ]
    return Ablation(
        task=recipe.task,
        metric=task.metric,
        seeds=tuple(seeds),
        rates=tried,
        arms=tuple(results),
        claims=claims_of(results),
        replay=replay(probed, task, full, out),
        trials=tuple(map(thin, trials)),
        made=made_by_runs(probed.document(), task.describe(), engine),
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
    return [
        run
        for arm, recipe in recipes.items()
        for rate in rates[arm]
        for run in Entrant(recipe, arm, arm).runs(seeds, setting_of(rate))
    ]


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


def outcomes_of(
    trials: Sequence[Trial], own: Mapping[str, float], metric: Metric, out: Path
) -> dict[str, tuple[Outcome, Outcome]]:
    """Each arm at its own rate and at the full arm's. Differences are to the full arm at its own rate."""
    every = [watched.read_watched(trial, out) for trial in trials]

    def at_rate(arm: str, rate: float) -> list[Watched]:
        return [one for one in every if (one.trial.arm, one.trial.setting) == (arm, setting_of(rate))]

    full, found = at_rate(FULL, own[FULL]), dict[str, tuple[Outcome, Outcome]]()
    for arm, rate in own.items():
        runs, shared = at_rate(arm, rate), own[FULL]
        deciding = measured(runs, rate, full, metric)
        told = deciding if rate == shared else measured(at_rate(arm, shared), shared, full, metric)
        found[arm] = replace(deciding, series=watched.series(runs, full)), told
    return found


def measured(runs: Sequence[Watched], rate: float, full: Sequence[Watched], metric: Metric) -> Outcome:
    """One arm at one rate."""
    trials, test, alone = [run.trial for run in runs], figure_on("test", metric), list(runs) == list(full)
    own = observed(trials)
    tested = sample(own, test)
    cka, base, cosine = watched.CKA.of(runs, full), watched.CKA.of(full, full), watched.COSINE.of(runs, full)
    names = dict.fromkeys(name for run in runs for name in run.figures)
    profiles = {name: watched.profile_of(last for run in runs if (last := run.last(name))) for name in names}
    profiles |= {name: watched.profile_of(one.values()) for name, one in (("cka", cka), ("cosine", cosine))}
    return Outcome(
        rate=rate,
        finished=sum(trial.status == "finished" for trial in trials),
        lost=tuple(Lost(trial.seed, trial.diverged) for trial in trials if trial.diverged is not None),
        test=tested.mean(),
        valid=sample(own, figure_on("valid", metric)).mean(),
        difference=None if alone else tested.minus(sample(observed(one.trial for one in full), test)),
        drift=watched.over_seeds((run.last("drift")[-1] for run in runs if run.last("drift")), Bounds(-1.0, 1.0)),
        growth=watched.over_seeds(map(largest_growth, runs), Bounds(0.0)),
        not_finite=sum(not_finite(run.trial) or largest_growth(run) == math.inf for run in runs),
        alignment=None if alone else watched.over_seeds(alignments(cka, base)),
        profiles={name: found for name, found in profiles.items() if found},
        maps=watched.head_maps(runs, full),
    )


def largest_growth(run: Watched) -> float:
    """The growth of the gradient per layer, at the record where it is largest; NaN if there is none."""
    found = [value for values in run.figures.get("growth", {}).values() for value in values if not math.isnan(value)]
    return max(found, default=math.nan)


def not_finite(trial: Trial) -> bool:
    """Whether a run ended with a loss or a gradient that is not finite."""
    lost = trial.diverged
    return lost is not None and not (math.isfinite(lost.loss) and math.isfinite(lost.gradient_norm))


def alignments(cka: Mapping[int, Values], base: Mapping[int, Values]) -> Iterator[float]:
    """The mean over layers of CKA with the full arm minus that of two seeds of it; layer 0 is the input."""

    def mean(values: Values) -> float:
        return math.fsum(values[1:]) / len(values[1:]) if values[1:] else math.nan

    return (mean(values) - mean(base[seed]) for seed, values in cka.items() if seed in base)


def replay(recipe: Recipe, task: Task, full: Sequence[Trial], out: Path) -> tuple[Replayed, ...]:
    """The trained full network's own operators without its residuals, its norms or both, over the seeds that finished.
    What does not fit its scheme is left out."""
    runs, quantity = [trial for trial in full if trial.status == "finished"], figure_on("test", task.metric)
    whole, replayed = sample(observed(runs), quantity), list[Replayed]()
    by_seed = {trial.seed: dict(replay_run(recipe, task, trial, out)) for trial in runs}
    for name in LACKING:
        if own := {seed: found[name] for seed, found in by_seed.items() if name in found}:
            figures, cosine, cka = zip(*own.values(), strict=True)
            known = {seed: x for seed, x in zip(own, figures, strict=True) if x is not None and math.isfinite(x)}
            left = Sample(known, quantity.bounds)
            alike = watched.profile_of(cosine), watched.profile_of(cka)
            replayed.append(Replayed(name, left.mean(), left.minus(whole), *alike))
    return tuple(replayed)


def replay_run(
    recipe: Recipe, task: Task, trial: Trial, out: Path
) -> Iterator[tuple[str, tuple[float | None, Values, Values]]]:
    """One trained network without each of the structures: its test figure, and how alike its states and the full
    network's are, by cosine and by CKA."""
    model, precision = find_run(out / trial.folder).load_model()
    examples = first_examples(task, recipe.train.probe_batch or EXAMPLES)
    batch = {name: x.to(model.device) for name, x in examples.items()}
    states = states_of(model, batch, precision)
    size = recipe.train.evaluate_batch or recipe.train.batch
    for name in LACKING:
        try:
            changes = ARMS[name](recipe)
            other = rebuilt.replayed(model, scheme=changes.get("scheme"), norm=changes.get("model.norm")).eval()
        except ValueError:  # such weights cannot be run so
            continue
        theirs = states_of(other, batch, precision)
        test = evaluate(other, task, task.tests[0], size, precision).get(task.metric.name)
        yield name, (test, watched.cosine_layers(theirs, states), watched.cka_layers(theirs, states))


def states_of(model: Any, batch: Mapping[str, Tensor], precision: torch.dtype) -> Tensor:
    """The states of a fixed choice of tokens in each layer [L + 1, N, width]."""
    with evaluating(model), autocast(precision, model.device):
        found = observe(model, batch, ["states"])["states"]
    tokens = list(found.values())[-1]["tokens"]
    assert isinstance(tokens, Tensor)
    return tokens.float().cpu()
