"""Training: recipes, the loop, run directories."""

from ..options import TrainOptions
from ..recipe import Recipe, load_recipe, override, read_recipe
from .directory import RunDirectory
from .evaluate import evaluate
from .loop import train

__all__ = [
    "Recipe", "RunDirectory", "TrainOptions", "evaluate", "load_recipe", "override", "read_recipe", "train",
]  # fmt: skip
