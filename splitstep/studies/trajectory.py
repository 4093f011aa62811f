"""Tokens as particles: the states of a text through the depth of a model, in one plane."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from ..flows.examples import positions
from ..opening import Opened, load, open_model
from ..opening.texts import batches_of
from ..probes.watching import watch_flow
from ..report.charts import Axis, ParticleChart, Particles
from ..report.document import Document
from ..report.result import Report
from ..support.typed import plain
from ..training.progress import Counting
from .inspect.own_probes import KeptStates, token_paths
from .inspect.sources import spelled

AXES = (
    Axis("first principal direction of x / |x| at all depths", "{:.2f}"),
    Axis("second principal direction", "{:.2f}"),
)
COLUMNS = ("text", "state", "t", "position", "token", "x", "y", "cluster", "norm")


@dataclass(frozen=True)
class Trajectory(Report):
    """The states of texts at the start, after each layer: `states[i][l]` are those [tokens, width] of text i after l
    layers, and `particles` are their places in the plane of the two leading directions."""

    model: str
    particles: tuple[Particles, ...]
    states: tuple[Tensor, ...] = field(repr=False, compare=False)

    @property
    def depths(self) -> list[tuple[str, float]]:
        """What each state is called, and its time, from 0 to 1."""
        last = len(self.particles[0].x) - 1
        return [(f"layer {i - 1}" if i else "embedding", i / last) for i in range(last + 1)]

    def json(self) -> dict[str, Any]:
        """The particles as JSON values."""
        return {"model": self.model, "depths": plain(self.depths), "particles": plain(self.particles)}

    def records(self) -> Sequence[Mapping[str, Any]]:
        """A row for each token in each state."""
        return [dict(zip(COLUMNS, row, strict=True)) for text in self.particles for row in self.rows(text)]

    def rows(self, text: Particles) -> Iterator[tuple[Any, ...]]:
        """The rows of one text."""
        for i, (state, t) in enumerate(self.depths):
            columns = (text.x[i], text.y[i], text.cluster[i], text.norm[i])
            for k, (token, *values) in enumerate(zip(text.tokens, *columns, strict=True)):
                yield text.name, state, t, k, token, *values

    def document(self) -> Document:
        """The particles, which move on a page."""
        chart = ParticleChart("Tokens through depth", *AXES, self.depths, self.particles, "particles")
        return Document(f"Tokens through the depth of {self.model}", [chart])


def trajectory(opened: Opened, texts: Sequence[str], tokens: int, did: Counting | None = None) -> Trajectory:
    """The states of texts, each cut after so many tokens, as the model's own layers move them."""
    reads, most = opened.needs_tokenizer(), positions(opened.model) or tokens
    flow, states, named = load(opened), list[Tensor](), list[tuple[str, Sequence[str]]]()
    for i, batch in enumerate(batches_of(texts, reads, min(tokens, most), 1)):
        ids = batch["input_ids"]
        inputs = {**batch, "decoder_input_ids": ids} if opened.model.config.is_encoder_decoder else batch
        found = watch_flow(flow, inputs, {"paths": KeptStates()})["paths"][flow.main]["states"]
        assert isinstance(found, Tensor)
        states.append(found)
        named.append((f"text {i + 1}", spelled(reads, ids[0].tolist())))
        if did is not None:
            did(i + 1, len(texts))
    particles = tuple(Particles(*path) for path in token_paths(states, named))
    return Trajectory(opened.name, particles, tuple(states))


def opened_of(model: str | Path | nn.Module | Opened, tokenizer: Any) -> Opened:
    """The model with its tokenizer; one that is open already is taken as it is."""
    if isinstance(model, nn.Module):
        return Opened(model.eval(), tokenizer, None, type(model).__name__, "folder")
    opened = model if isinstance(model, Opened) else open_model(model)
    return opened if tokenizer is None else opened._replace(tokenizer=tokenizer)
