"""Probes: measurements of a running network, one in each file, each a pure function of events."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..flows import Flow
from ..stack import Stack
from ..support.registry import Registry
from .attention import AttentionWeights
from .gradients import Gradients
from .information import Information
from .movement import Drift, IncrementNorms, StateNorms
from .probe import Figures, Pass, Probe
from .sensitivity import Sensitivity
from .similarity import States
from .watching import watch, watch_flow

__all__ = ["PROBES", "Figures", "Pass", "Probe", "observe"]


def accept(given: Any) -> Callable[[], Probe]:
    """A class of another package, if it is a probe."""
    if not (isinstance(given, type) and issubclass(given, Probe)):
        raise ValueError("it must be a subclass of splitstep.probes.Probe")
    return given


LOOKING_CLOSELY = {
    "trajectory": "movement:Trajectory",
    "clustering": "clusters:Clustering",
    "rank": "clusters:Rank",
    "cka_layers": "similarity:LayerSimilarity",
    "rollout": "attention:AttentionRollout",
    "commutator": "commutator:Commutators",
    "jacobian": "jacobians:JacobianSpectra",
    "products": "jacobians:JacobianProducts",
    "communities": "communities:CoordinateCommunities",
    "leading": "low_rank:LeadingSingular",
    "lens": "lens:LogitLens",
}
"""Probes that look at a trained model once rather than at every evaluation; they are imported on demand."""

PROBES: Registry[Callable[[], Probe]] = Registry(
    "probe",
    {
        "state_norms": StateNorms,
        "increment_norms": IncrementNorms,
        "drift": Drift,
        "gradients": Gradients,
        "states": States,
        "attention": AttentionWeights,
        "sensitivity": Sensitivity,
        "information": Information,
    },
    accept=accept,
    paths={name: f"splitstep.probes.{path}" for name, path in LOOKING_CLOSELY.items()},
)


def observe(model: Any, batch: Mapping[str, Any], probes: Sequence[str]) -> dict[str, dict[str, Figures]]:
    """What the probes measure in one pass of a batch through the model, by the names of probe and stack.

    The model keeps its mode (training or evaluation) and must pass `observe` on to its stacks. A flow of
    `splitstep.flows` is observed in its last stack.
    """
    if isinstance(model, Flow):
        return watch_flow(model, batch, {name: PROBES.find(name)() for name in probes})
    stacks = {name: module for name, module in model.named_modules() if isinstance(module, Stack)}
    return watch(model, batch, {name: {stack: PROBES.find(name)() for stack in stacks} for name in probes}, stacks)
