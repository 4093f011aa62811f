"""The runs of an ablation, in two stages: each arm at every rate with one seed, then every seed at two rates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

from ...experiments.experiment import Setting
from ...experiments.plan import Planned, file_name
from ...tasks import Task
from ...training import Recipe

FACTORS = (1 / 3, 1.0, 3.0)  # of the recipe's rate, where no rates are given


def setting_of(rate: float) -> Setting:
    return (f"train.lr={rate:.6g}",)


def rate_of(setting: Setting) -> float:
    return float(setting[0].partition("=")[2])


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


def run_of(arm: str, recipe: Recipe, rate: float, seed: int) -> Planned:
    """One run of an arm."""
    setting = setting_of(rate)
    own = replace(recipe, train=replace(recipe.train, lr=rate_of(setting), seed=seed))
    return Planned(recipe.scheme, setting, seed, own, f"runs/{arm}-{file_name(setting[0])}-seed{seed}", arm)


def rate_stage(recipes: Mapping[str, Recipe], rates: Sequence[float], seeds: Sequence[int]) -> list[Planned]:
    """Every arm at every rate with the first seed."""
    return [run_of(arm, recipe, rate, seeds[0]) for arm, recipe in recipes.items() for rate in rates]


def seed_stage(recipes: Mapping[str, Recipe], own: Mapping[str, float], seeds: Sequence[int]) -> list[Planned]:
    """Every arm with every seed at its own rate, and at that of the first arm; a run that serves both is there once."""
    shared = next(iter(own.values()))
    return [
        run_of(arm, recipes[arm], rate, seed)
        for arm in recipes
        for rate in dict.fromkeys((own[arm], shared))
        for seed in seeds
    ]


def possible_runs(recipes: Mapping[str, Recipe], rates: Sequence[float], seeds: Sequence[int]) -> list[Planned]:
    """All runs that may be needed, whatever the best rates are."""
    return [run_of(arm, recipe, rate, seed) for (arm, recipe), rate, seed in product(recipes.items(), rates, seeds)]
