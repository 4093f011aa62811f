"""A model on its texts: batches of one length, its passes, and the units that have been measured of it."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple, final

import torch
from torch import Tensor

from ...flows import Flow
from ...flows.examples import examples_of
from ...opening import Opened, load
from .cuts import Passed, passed
from .judge import Judge
from .plan import PATHS, Plan
from .sources import Source, Text
from .units import Found, Store

TOKENS = 256  # of a batch: more at once are hardly quicker on two cores, and the estimate comes later
ALIKE = 1e-4  # of the largest output: by how much other texts of a batch may change that of one
Role = Literal["model", "other"]


class Batch(NamedTuple):
    """Texts of one length: their numbers, and their inputs one below the other."""

    numbers: tuple[int, ...]
    inputs: dict[str, Any]


def batches_of(texts: Sequence[Text], numbers: Iterable[int], together: bool = True) -> list[Batch]:
    """Texts in batches of one length each; one by one if they cannot be together."""
    groups = dict[Any, list[int]]()
    for i in numbers:
        inputs = texts[i].inputs
        plain = together and all(isinstance(x, Tensor) and x.ndim and len(x) == 1 for x in inputs.values())
        form = tuple((name, tuple(x.shape[1:]), x.dtype) for name, x in inputs.items()) if plain else i
        groups.setdefault(form, []).append(i)
    return [batch for group in groups.values() for batch in parts_of(texts, group)]


def parts_of(texts: Sequence[Text], group: Sequence[int]) -> Iterator[Batch]:
    """Texts of one length in batches that are not too large."""
    length = max([1, *(x.shape[1] for x in texts[group[0]].inputs.values() if isinstance(x, Tensor) and x.ndim > 1)])
    size = max(1, TOKENS // length)
    for first in range(0, len(group), size):
        some = [texts[i].inputs for i in group[first : first + size]]
        inputs = {name: torch.cat([one[name] for one in some]) for name in some[0]} if len(some) > 1 else some[0]
        yield Batch(tuple(group[first : first + size]), dict(inputs))


@final
class Subject:
    """A model, its texts, and its units. The model is loaded when something asks for it."""

    def __init__(
        self, role: Role, make: Callable[[], Opened], source: Source, plan: Plan, store: Store, place: torch.device
    ) -> None:
        self.role: Role = role
        self.make, self.source, self.plan, self.store, self.place = make, source, plan, store, place
        self.random = False  # fresh weights
        self.pace, self.head = 0.0, 0.2  # seconds of a pass of the first batch; the head's share
        self.passes = dict[tuple[int, ...], Passed]()

    @cached_property
    def opened(self) -> Opened:
        opened = self.make()
        return opened._replace(model=opened.model.float().to(self.place))

    @cached_property
    def flow(self) -> Flow:
        """The model in float32, since derivatives in half precision say little; what could not be taken apart is said
        in the result instead of a warning."""
        opened = self.opened
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            flow = load(opened)
        if f"{self.role}/about" not in self.store:
            self.store.keep(f"{self.role}/about", Found(about=self.about(opened.name, flow)))
        return flow

    def about(self, name: str, flow: Flow) -> dict[str, Any]:
        """What is said of the model without a measurement."""
        stack, shown = flow.stacks[flow.main], self.source.texts[:PATHS]
        return {
            "model": name, "scheme": str(stack.scheme), "stack": flow.main, "layers": len(stack.layers),
            "parameters": sum(x.numel() for x in flow.model.parameters()), "random": self.random,
            "notes": list(flow.notes), "texts": [[one.name, list(one.tokens)] for one in shown],
        }  # fmt: skip

    @property
    def layers(self) -> int:
        return len(self.flow.stacks[self.flow.main].layers)

    @property
    def chosen(self) -> tuple[int, ...]:
        """The layers that are listed and left out."""
        found = tuple(range(self.layers)) if self.plan.layers is None else self.plan.layers
        if wrong := [one for one in found if one >= self.layers]:
            last = self.layers - 1
            name = self.store[f"{self.role}/about"].about["model"]
            raise ValueError(f"--layers: {name} has no layer {wrong[0]}; its layers are 0 to {last}")
        return found

    @cached_property
    def together(self) -> bool:
        """Whether texts of one length may be in one batch: then each has the output that it has alone."""
        batch = batches_of(self.source.texts, range(len(self.source.texts)))[0]
        first = examples_of(batch.inputs, len(batch.numbers), (0,))
        alone = self.judge.of_model(self.flow.model, self.judge.given(first))
        whole = passed(self.flow, self.judge, batch.inputs)
        self.pace = sum(whole.seconds)
        self.head, one = whole.seconds[1] / self.pace, whole.output[:1]
        if one.shape == alone.shape and bool((one - alone).abs().max() <= ALIKE * alone.abs().max()):
            self.keep(batch, whole)
            return True
        self.pace /= len(batch.numbers)
        return False

    def batches(self, numbers: Iterable[int] | None = None) -> list[Batch]:
        """All texts, or those of these numbers, in batches."""
        texts = self.source.every
        return batches_of(texts, range(len(self.source.texts)) if numbers is None else numbers, self.together)

    @cached_property
    def judge(self) -> Judge:
        return Judge.of(self.flow, self.source.texts[0].inputs)

    def passed(self, batch: Batch) -> Passed:
        """The batch after its pass, which is kept: cuts begin there."""
        if batch.numbers not in self.passes:
            self.keep(batch, passed(self.flow, self.judge, batch.inputs))
        return self.passes[batch.numbers]

    def keep(self, batch: Batch, one: Passed) -> None:
        """Keep a pass; of the output no more than what cuts are judged by, since logits are large."""
        self.passes[batch.numbers] = one if one.losses is None else one._replace(output=torch.empty(0))

    def close(self) -> None:
        """Let the model go."""
        self.passes.clear()
        for name in ("flow", "opened", "make"):
            vars(self).pop(name, None)
