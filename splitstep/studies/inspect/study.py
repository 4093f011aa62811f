"""Inspect a model: run texts through it with probes, leave layers out, and look at a null model or another one beside.

What is found is kept unit by unit, so that what was interrupted continues, and a deeper look adds to what is there.
"""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, final

import torch
from torch import nn

from ...opening import Opened, open_model
from ...probes import PROBES
from ...support.auto_classes import silent
from ...support.files import alone
from ...support.provenance import made_by_study
from ...support.words import counted, duration, listed
from ...training.progress import Line, Progress
from .cuts import save_without
from .findings import evidence_of_cuts, findings
from .groups import Group, beside, groups_of
from .plan import Plan, read_plan
from .result import Inspection
from .sources import Source, TextChoice, source_of, text_choice
from .subject import Subject
from .units import Found, Store, digest

__all__ = ["Wish", "Work", "inspection", "read_plan", "text_choice"]

RANDOM, NOTHING = "random", "none"
SEED = 16  # of the null model's weights
TRUSTED = 0.1  # of the whole: after so much, what is measured counts as much as what was estimated


@final
class Clock:
    """How long it takes: an estimate before it begins, and what is left while it runs. Silent unless it tells."""

    def __init__(self, tells: bool, title: str = "inspect") -> None:
        self.tells, self.title, self.line = tells, title, Line()
        self.costs: dict[str, float] = {}
        self.all = self.begun = 0.0

    def say(self, text: str) -> None:
        """A line of its own."""
        Progress(self.title, 0, not self.tells).say(text)

    def begin(self, what: str, costs: Mapping[str, float]) -> None:
        """Say what is to be done; the costs of units are in seconds, about."""
        self.costs, self.all, self.begun = dict(costs), sum(costs.values()), time.monotonic()
        if costs:
            self.say(f"{what}: {duration(self.all)}")

    @property
    def left(self) -> float:
        """How many seconds are left: by the estimate at first, then by what the units so far have taken."""
        rest, trusted = sum(self.costs.values()), TRUSTED * self.all
        if not rest:
            return 0.0
        return rest * (time.monotonic() - self.begun + trusted) / (self.all - rest + trusted)

    def did(self, unit: str, what: str) -> None:
        """A unit is done; `what` says how far its kind is."""
        self.costs.pop(unit, None)
        if self.tells:
            self.line.show(f"{self.title}  {what}, {duration(self.left)} left", not self.costs)


class Wish(NamedTuple):
    """What a person asked for beside the model."""

    choice: TextChoice = TextChoice()
    plan: Plan = Plan()
    against: str = RANDOM
    trust_remote_code: bool = False
    device: str | None = None
    tokenizer: Any = None  # of a model that is open
    smaller: Path | None = None  # where the model without the layers of the list is saved


@dataclass
class Work:
    """An inspection that is under way: the models, the units, and what is still to be done."""

    wish: Wish
    tokens: int
    source: Source
    key: dict[str, Any]
    subjects: list[Subject]
    store: Store
    groups: list[Group]

    @property
    def model(self) -> Subject:
        return self.subjects[0]

    def missing(self) -> dict[str, float]:
        """The units that are not there, with their costs."""
        return {unit: cost for one in self.groups for unit, cost in one.costs.items() if unit not in self.store}

    def run(self, clock: Clock) -> None:
        """Measure what is missing. A model is let go before a null model is made."""
        for group in self.groups:
            if group.subject.random and self.wish.smaller is None:
                self.model.close()
            if left := [unit for unit in group.costs if unit not in self.store]:
                group.do(left, partial(self.keep, clock, group.what))

    def save_smaller(self, clock: Clock) -> None:
        """Save the model without the layers that go together."""
        if (folder := self.wish.smaller) is None:
            return
        [cut] = evidence_of_cuts(self.store, "model")
        layers, model = cut.layers[: self.wish.plan.cut], self.model
        one = model.passed(model.batches()[0])
        with silent():
            save_without(model.opened, one, layers, folder)
        clock.say(f"saved without layers {listed([*map(str, sorted(layers))])}: {folder}")

    def keep(self, clock: Clock, what: str, unit: str, found: Found) -> None:
        if unit not in self.store:  # of a group, some may have been there
            self.store.keep(unit, found)
        clock.did(unit, self.done(what))

    def done(self, what: str) -> str:
        """How many groups of a kind are done, if it has several: 19 of 30 layers left out."""
        alike = [one for one in self.groups if one.what == what]
        done = sum(all(unit in self.store for unit in one.costs) for one in alike)
        return f"{done} of {len(alike)} {what}" if len(alike) > 1 else what

    def unfinished(self) -> str:
        """What is done of the kinds of work that are not finished; empty if all is."""
        kinds = dict.fromkeys(one.what for one in self.groups if any(unit not in self.store for unit in one.costs))
        return listed([self.done(what) for what in kinds])

    def result(self) -> Inspection | None:
        """What has been found so far; None before the first probes."""
        if (first := findings(self.store, "model", self.wish.plan.layers)) is None:
            return None
        other = findings(self.store, "other") if self.wish.against != NOTHING else None
        measured = (one.probe for one in first.series if one.probe in PROBES)
        probes = tuple(dict.fromkeys((*self.wish.plan.named, *measured)))
        closer = first.find("jacobian", "complex")
        return Inspection(
            model=first, other=other, seed=SEED if self.wish.against == RANDOM else None, texts=len(self.source.texts),
            tokens=self.tokens, source=self.source.name, probes=probes,
            differentiated=self.wish.plan.differentiated if closer is None else closer.texts,
            listed=self.wish.plan.layers or tuple(range(first.layers)), made=made_by_study(),
            unfinished=self.unfinished(),
        )  # fmt: skip


def inspection(
    given: str | nn.Module,
    wish: Wish = Wish(),  # noqa: B008 - it cannot change
    folder: Path | None = None,
    progress: bool = False,
) -> Inspection:
    """What the probes find in a model, beside its null model ("random"), another model, or nothing ("none").

    A null model has the same architecture with fresh weights by its own initialisation. In a folder, units that are
    there are not measured again; after Ctrl-C it has a result and a page with what was found until then.
    """
    clock = Clock(progress)
    with ExitStack() as held:
        work = prepared(given, wish, clock, held)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(alone(folder, "written"))
            work.store.open(folder, work.key)
        try:
            texts = f"{counted(len(work.source.texts), 'text')} of at most {counted(work.tokens, 'token')}"
            clock.begin(texts, work.missing())
            work.run(clock)
            work.save_smaller(clock)
        except KeyboardInterrupt:
            if folder is not None and (found := work.result()) is not None:
                page = found.save(folder)
                clock.say(f"interrupted; not finished: {found.unfinished}; page: {page}")
            raise
        result = work.result()
    assert result is not None
    return result


def prepared(given: str | nn.Module, wish: Wish, clock: Clock, held: ExitStack) -> Work:
    """The work that is to be done for a wish."""
    place = device_of(wish.device)
    opened = opened_of(given, wish, place, clock, held)
    second = None if wish.against in (RANDOM, NOTHING) else opened_of(wish.against, wish, place, clock, held)
    tokens = wish.choice.length([opened] if second is None else [opened, second])
    source = source_of(opened, wish.choice, tokens)
    store, key = Store(), key_of(wish, opened, second, source)
    model = Subject("model", partial(Opened, *opened), source, wish.plan, store, place)
    subjects, rest = [model], replace(wish.plan, layers=None, states=None, cut=0)
    if second is not None:
        texts = source_of(second, wish.choice, tokens)
        subjects.append(Subject("other", partial(Opened, *second), texts, rest, store, place))
    elif wish.against == RANDOM:
        null = partial(null_of, opened._replace(model=None), type(opened.model), deepcopy(opened.model.config))
        subjects.append(Subject("other", null, source, rest, store, place))
        subjects[1].random, subjects[1].together = True, model.together
        subjects[1].pace = model.pace
    groups = [one for subject in subjects for one in groups_of(subject)]
    groups += [] if second is None else beside(*subjects)
    return Work(wish, tokens, source, key, subjects, store, groups)


def opened_of(given: str | nn.Module, wish: Wish, place: torch.device, clock: Clock, held: ExitStack) -> Opened:
    """The model; one that is open already is copied if it would have to change, and keeps its mode."""
    if isinstance(given, str):
        clock.say(f"loading {given}")
        return open_model(given, wish.trust_remote_code)
    weights = [*given.parameters(), *given.buffers()]
    if any(x.device != place or (x.is_floating_point() and x.dtype != torch.float32) for x in weights) or wish.smaller:
        given = deepcopy(given)
    held.callback(given.train, given.training)
    if wish.tokenizer is None and getattr(given, "main_input_name", "") == "input_ids":
        raise ValueError("a model that is open needs its tokenizer: ss.inspect(model, texts, tokenizer=tokenizer)")
    return Opened(given, wish.tokenizer, None, type(given).__name__, "folder")


def key_of(wish: Wish, opened: Opened, second: Opened | None, source: Source) -> dict[str, Any]:
    """What must be the same if units are to be used again."""
    inputs = ((f"{i} {name}", x) for i, text in enumerate(source.texts) for name, x in text.inputs.items())
    return {
        "version": version("splitstep"),
        "model": model_digest(opened),
        "other": f"{wish.against} {SEED}" if second is None else model_digest(second),
        "texts": digest(inputs),
        "probes": list(wish.plan.probes),
        "layers": None if wish.plan.layers is None else list(wish.plan.layers),
    }


def model_digest(opened: Opened) -> str:
    """A short text that changes with any weight, and with the config."""
    config = opened.model.config.to_dict()
    return digest([*opened.model.state_dict().items(), *((k, config[k]) for k in sorted(config) if k[0] != "_")])


def device_of(name: str | None) -> torch.device:
    """The device of this name; by default the GPU, if there is one."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=name)
        return torch.device(name)
    except (RuntimeError, AssertionError) as error:
        if name.startswith("cuda") and not torch.cuda.is_available():
            raise ValueError("CUDA is not available: leave --device out, or use --device cpu") from None
        raise ValueError(f"--device {name} is not available ({str(error).splitlines()[0]}): use cpu or cuda") from None


def null_of(opened: Opened, kind: Any, config: Any) -> Opened:
    """A model of this class and config with fresh weights."""
    with silent(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        return opened._replace(model=kind._from_config(config))
