"""Equal cost for all arms: the width of feed-forward networks at which a network costs as much as the first arm's."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from ..models.block import block_of, takes_ffn, trust
from ..models.cost import MULTIPLE, TOLERANCE, By, Cost
from ..recipe import Recipe
from ..shape import LARGEST, Shape
from ..sources import BlockSource, ConfigSource
from ..tasks import Task
from ..training.networks import cost_of
from .configs import width_entry
from .others import adapted_config


class Fit(NamedTuple):
    """The width of feed-forward networks that makes costs equal, None if nothing does; what the network costs; and
    that as a multiple of the first arm's cost: of its parameters in the body, or of its FLOPs."""

    ffn: int | None
    cost: Cost
    ratio: float


def fitted(recipe: Recipe, goal: Cost, task: Task) -> tuple[Recipe, Fit]:
    """The recipe with the cost of the first arm, as nearly as a width can make it. `match` says which cost; without
    one, and without a width that changes it, the network stays as it is."""
    by: By = "parameters" if recipe.match == "parameters" else "flops"
    width = None if recipe.match == "none" else width_of(recipe, task)
    found = None
    if width is not None:  # of a scheme the reference's network has the same cost, by construction
        plain = recipe if recipe.source else recipe.changed({"scheme": str(recipe.reference)})
        cost_at = cache(lambda ffn: cost_of(with_width(plain, ffn), task).of(by))
        found = nearest_width(cost_at, width, goal.of(by), TOLERANCE[by])
    new = recipe if found in (None, width) else with_width(recipe, found)
    cost = cost_of(new, task)
    return new, Fit(found, cost, cost.of(by) / goal.of(by))


def width_of(recipe: Recipe, task: Task) -> int | None:
    """The width of a recipe's feed-forward networks; None if it has none that one number sets."""
    source = recipe.source
    if isinstance(source, ConfigSource):
        config = adapted_config(recipe, task).config
        key = None if source.kept else width_entry(config)
        return None if key is None else getattr(config, key) or 4 * config.hidden_size
    if isinstance(source, BlockSource) and not takes_ffn(block_of(trust(source))):
        return None
    width = recipe.model.get("ffn", Shape.ffn)
    return width if isinstance(width, int) else None


def with_width(recipe: Recipe, width: int | None) -> Recipe:
    """The recipe with this width of feed-forward networks."""
    if isinstance(recipe.source, ConfigSource):
        assert isinstance(recipe.network, dict)
        return recipe.changed({"network": {**recipe.network, "ffn": width}})
    return recipe.changed({"model.ffn": width})


def nearest_width(cost_at: Callable[[int], int], width: int, goal: int, tolerance: float) -> int | None:
    """The width whose cost is equal to the goal within a tolerance: the present one, else a multiple of 8, else the
    nearest to the goal; None if the cost does not rise with the width."""
    low, high = 1, max(width, 2)
    while cost_at(high) < goal and high < LARGEST and cost_at(high) > cost_at(low):
        low, high = high, 2 * high
    if cost_at(high) <= cost_at(low):
        return None
    while high - low > 1:
        steps = (goal - cost_at(low)) * (high - low) // max(1, cost_at(high) - cost_at(low))
        middle = min(max(low + steps, low + 1), high - 1)
        low, high = (middle, high) if cost_at(middle) <= goal else (low, middle)

    def miss(one: int) -> float:
        return abs(cost_at(one) / goal - 1)

    multiples = [max(MULTIPLE, MULTIPLE * n) for n in (low // MULTIPLE, -(-high // MULTIPLE))]
    ready = [one for one in (width, min(multiples, key=miss)) if miss(one) <= tolerance]
    return ready[0] if ready else min((low, high), key=miss)
