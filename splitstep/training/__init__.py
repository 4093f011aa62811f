"""Training: recipes, the loop, run directories."""

from .directory import RunDirectory
from .evaluate import evaluate
from .loop import train
from .recipe import Recipe, TrainOptions, load_recipe, override, read_recipe

__all__ = [
    "Recipe", "RunDirectory", "TrainOptions", "evaluate", "load_recipe", "override", "read_recipe", "train",
]  # fmt: skip
