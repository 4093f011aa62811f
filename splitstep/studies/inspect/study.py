"""Inspect a model: load it, run texts through it with probes, and do the same with a null model or another one."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import torch

from ...flows import Flow
from ...models.base import silent
from ...opening import load, open_model
from ...probes import PROBES
from ...support.provenance import made
from ...training.progress import Counting
from .measuring import Plan, look
from .result import Inspection, Looked
from .sources import Source, Wanted, source_of

RANDOM, NOTHING = "random", "none"
SEED = 16  # of the null model's weights


def inspection(
    name: str,
    wanted: Wanted = Wanted(),  # noqa: B008 - it cannot change
    plan: Plan = Plan(),  # noqa: B008
    against: str = RANDOM,
    trust_remote_code: bool = False,
    device: str | None = None,
    command: str | None = None,
    progress: Counting | None = None,
) -> Inspection:
    """What the probes find in a model, beside its null model ("random"), another model, or nothing ("none").

    A null model has the same architecture with fresh weights by its own initialisation.
    """
    wanted.check()
    place = device_of(device)
    opened = open_model(name, trust_remote_code)
    second = None if against in (RANDOM, NOTHING) else open_model(against, trust_remote_code)
    tokens = wanted.length([opened] if second is None else [opened, second])
    source = source_of(opened, wanted, tokens)
    other_source = None if second is None else source_of(second, wanted, tokens)
    total = source.number * (1 + (against == RANDOM)) + (other_source.number if other_source else 0)
    tick = ticking(progress, total)
    make_null = maker_of(opened.model)
    first = measured(flow_of(opened._replace(model=prepared(opened.model, place))), name, source, plan, False, tick)
    other: Looked | None = None
    rest = plan._replace(layers=None, states=None)
    if second is not None and other_source is not None:
        flow = flow_of(second._replace(model=prepared(second.model, place)))
        other = measured(flow, against, other_source, rest, False, tick)
    elif against == RANDOM:
        null = opened._replace(model=prepared(make_null(), place))
        keeping = rest._replace(layers=plan.layers, skips=False)
        other = measured(flow_of(null), name, source, keeping, True, tick)
    return Inspection(
        model=first, other=other, seed=SEED if against == RANDOM else None, texts=source.number,
        tokens=tokens, source=source.name, probes=plan.probes, differentiated=plan.differentiated,
        layers=plan.layers or tuple(range(first.layers)), made=made(command),
    )  # fmt: skip


def device_of(name: str | None) -> torch.device:
    """The device of this name; by default the GPU, if there is one."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=name)
        return torch.device(name)
    except (RuntimeError, AssertionError) as error:
        instead = "leave --device out" if name == "cpu" or not torch.cuda.is_available() else "use cpu or cuda"
        raise ValueError(f"--device {name} is not here ({str(error).splitlines()[0]}): {instead}") from None


def ticking(progress: Counting | None, total: int) -> Callable[[], None]:
    """Counts texts."""
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    return tick


def prepared(model: Any, device: torch.device) -> Any:
    """The model in float32, since derivatives in half precision say little."""
    return model.float().to(device).eval()


def maker_of(model: Any) -> Callable[[], Any]:
    """Makes the null model: this class and config with fresh weights. It does not hold the model itself."""
    kind, config = type(model), deepcopy(model.config)

    def make() -> Any:
        with silent(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            return kind._from_config(config)

    return make


def flow_of(opened: Any) -> Flow:
    """The model as a flow; what could not be taken apart is said in the result instead of a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return load(opened)


def measured(flow: Flow, name: str, source: Source, plan: Plan, random: bool, tick: Callable[[], None]) -> Looked:
    check_layers(flow, name, plan)
    return look(flow, name, source.read(), plan, random, tick)


def check_layers(flow: Flow, name: str, plan: Plan) -> None:
    layers = len(flow.stacks[flow.main].layers)
    if wrong := [one for one in plan.layers or () if one >= layers]:
        raise ValueError(f"--layers: {name} has no layer {wrong[0]}; its layers are 0 to {layers - 1}")


def read_layers(text: str) -> tuple[int, ...]:
    """The numbers of layers in a list such as 0,4-7."""
    found = set[int]()
    for part in text.split(","):
        first, dash, last = (one.strip() for one in part.partition("-"))
        if not first.isdecimal() or (dash and not (last.isdecimal() and int(first) <= int(last))):
            raise ValueError(f"--layers {text!r}: {part.strip()!r} is not a layer; write numbers from 0, as in 0,4-7")
        found |= set(range(int(first), int(last if dash else first) + 1))
    return tuple(sorted(found))


def check_probes(given: Sequence[str]) -> tuple[str, ...]:
    """The names of probes, each once; all must be there, and work without a loss."""
    names = tuple(dict.fromkeys(given))
    for name in names:
        if PROBES.find(name)().gradients:
            raise ValueError(f'probe "{name}" differentiates the loss, which inspect does not do: leave it out')
    return names
