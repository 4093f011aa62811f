"""Inspect a model: load it, run texts through it with probes, and do the same with a null model or another one."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from itertools import count
from typing import Any

import torch

from ...models.base import silent
from ...opening import Opened, load, open_model
from ...probes import PROBES
from ...support.provenance import made
from ...training.progress import Counting
from .measuring import Plan, measure_model
from .result import Inspection, ModelFindings
from .sources import Source, TextChoice, source_of

RANDOM, NOTHING = "random", "none"
SEED = 16  # of the null model's weights


def inspection(
    name: str,
    choice: TextChoice = TextChoice(),  # noqa: B008 - it cannot change
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
    choice.check()
    place, opened = device_of(device), open_model(name, trust_remote_code)
    second = None if against in (RANDOM, NOTHING) else open_model(against, trust_remote_code)
    tokens = choice.length([opened] if second is None else [opened, second])
    source = source_of(opened, choice, tokens)
    beside = source if second is None else source_of(second, choice, tokens)
    done, total = count(1), len(source.texts) + (against != NOTHING) * len(beside.texts)

    def tick() -> None:
        if progress is not None:
            progress(next(done), total)

    look = partial(measured, place=place, tick=tick)
    make_null = maker_of(opened.model)
    first, rest, other = look(opened, source, plan), plan._replace(layers=None, states=None), None
    if second is not None:
        other = look(second, beside, rest)
    elif against == RANDOM:
        null = opened._replace(model=make_null())
        other = look(null, source, rest._replace(layers=plan.layers, skips=False), random=True)
    return Inspection(
        model=first, other=other, seed=SEED if against == RANDOM else None, texts=len(source.texts),
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


def maker_of(model: Any) -> Callable[[], Any]:
    """Makes the null model: this class and config with fresh weights. It does not hold the model itself."""
    kind, config = type(model), deepcopy(model.config)

    def make() -> Any:
        with silent(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(SEED)
            return kind._from_config(config)

    return make


def measured(
    opened: Opened,
    source: Source,
    plan: Plan,
    random: bool = False,
    *,
    place: torch.device,
    tick: Callable[[], None],
) -> ModelFindings:
    """What is found in a model in float32, since derivatives in half precision say little; what could not be taken
    apart is said in the result instead of a warning."""
    model = opened.model.float().to(place).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        flow = load(opened._replace(model=model))
    layers = len(flow.stacks[flow.main].layers)
    if wrong := [one for one in plan.layers or () if one >= layers]:
        raise ValueError(f"--layers: {opened.name} has no layer {wrong[0]}; its layers are 0 to {layers - 1}")
    return measure_model(flow, opened.name, source.texts, plan, random, tick)


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
