"""splitstep: a Transformer is a splitting scheme."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from .integrate import Event, Field, Site, Step, integrate, refine, uniform
from .own_letters import letter
from .scheme import (
    Scheme,
    average,
    compose,
    decoder,
    unshare,
    with_diffusion,
    with_projections,
    with_tableau,
    without_residuals,
)
from .schemes import SCHEMES, scheme
from .support.auto_classes import register_by_name
from .tableau import TABLEAUX, Tableau

if TYPE_CHECKING:
    from . import flows, letters, opening
    from .doors.compare import compare
    from .doors.distil import compare_distil, distil
    from .doors.lists import arms, doctor
    from .doors.looks import approximate, converge, inspect
    from .doors.pictures import orders, trajectory
    from .doors.runs import evaluate, generate, predict, train, translate
    from .doors.studies import ablate, compare_glue
    from .inference.runs import load
    from .models import *  # noqa: F403
    from .probes import observe
    from .stack import Stack

    __version__: str

__all__ = [  # noqa: F405
    "SCHEMES", "TABLEAUX", "BlockConfig", "CausalConfig", "Event", "Field", "ImageConfig", "MaskedConfig", "Scheme",
    "SequenceConfig", "Site", "SplitstepBlockForCausalLM", "SplitstepCausalModel", "SplitstepForCausalLM",
    "SplitstepForImageClassification", "SplitstepForMaskedLM", "SplitstepForSequenceClassification",
    "SplitstepForTranslation", "SplitstepImageModel", "SplitstepMaskedModel", "SplitstepSequenceModel",
    "SplitstepTranslationModel", "SplitstepVectorsModel", "Stack", "Step", "Tableau", "TranslationConfig",
    "VectorsConfig", "__version__", "ablate", "approximate", "arms", "average", "compare", "compare_distil",
    "compare_glue", "compose", "converge", "cost", "decoder", "distil", "doctor", "evaluate", "flows", "generate",
    "inspect", "integrate", "letter", "letters", "load", "observe", "opening", "orders", "predict", "refine",
    "scheme", "train", "trajectory", "translate", "twin", "uniform", "unshare", "with_diffusion",
    "with_projections", "with_tableau", "without_residuals",
]  # fmt: skip
DOORS = {
    "compare": ("compare",),
    "distil": ("compare_distil", "distil"),
    "lists": ("arms", "doctor"),
    "looks": ("approximate", "converge", "inspect"),
    "pictures": ("orders", "trajectory"),
    "runs": ("evaluate", "generate", "predict", "train", "translate"),
    "studies": ("ablate", "compare_glue"),
}
ELSEWHERE = {
    "Stack": ".stack",
    "load": ".inference.runs",
    "observe": ".probes",
    **dict.fromkeys(("flows", "letters", "opening", "pretrained"), ""),
    **{name: f".doors.{module}" for module, names in DOORS.items() for name in names},
}
RENAMED = {"pretrained": "opening"}  # packages by the names that they had
LAZY = {name: ".models" for name in __all__ if name not in globals()} | ELSEWHERE  # most of them import torch

CONFIGS = [name for name in __all__ if name.endswith("Config")]
MODEL_TYPES = {f"splitstep-{name.removesuffix('Config').lower()}": name for name in CONFIGS}
# in config.json, and the config class of each; transformers' Auto classes find them from here on
register_by_name(f"{__name__}.models", MODEL_TYPES)


def __getattr__(name: str) -> Any:
    """The network, the models, and the doors to what is done with them, imported on first use."""
    if name == "__version__":
        return version(__name__)
    if name not in LAZY:
        raise AttributeError(f"module 'splitstep' has no attribute {name!r}")
    if not LAZY[name]:  # a package of its own
        return import_module(f".{RENAMED.get(name, name)}", __name__)
    return getattr(import_module(LAZY[name], __name__), name)


def __dir__() -> list[str]:
    return __all__
