"""Training: recipes, the loop, run directories."""

from .evaluate import evaluate
from .loop import train
from .recipe import Recipe, TrainOptions, load_recipe, override, read_recipe

__all__ = ["Recipe", "TrainOptions", "evaluate", "load_recipe", "override", "read_recipe", "train"]
