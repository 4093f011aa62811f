"""What an inspection found, as records that are read back as they were written.

A change is that of the loss in nats for each prediction or, of a model without a loss, |y' - y| / |y| of its output.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal, NamedTuple

from ...experiments.result import Result
from ...support.provenance import Provenance
from ...support.typed import Figure, Inlined

Figures = tuple[Figure, ...]  # one of each text
Along = Literal["state", "layer", "pair", "number"]
"""What a series runs along: the L + 1 states, the L layers, the L - 1 pairs of layers, or something else."""


class Series(NamedTuple):
    """A probe's figures, text by text: figures[text][i] belongs to number[i] of what it runs along."""

    probe: str
    name: str
    along: Along
    numbers: tuple[int, ...]  # of states or layers from 0
    t: tuple[Figure, ...]  # in [0, 1]: the share of the depth
    figures: tuple[tuple[Figure, ...], ...]

    @property
    def columns(self) -> list[list[float]]:
        """The finite figures of all texts at each place."""
        return [[row[i] for row in self.figures if math.isfinite(row[i])] for i in range(len(self.numbers))]

    @property
    def mean(self) -> list[float]:
        return [fmean(one) if one else math.nan for one in self.columns]

    @property
    def spread(self) -> list[float]:
        """The standard deviation over texts; not a number if there are fewer than two."""
        return [stdev(one) if len(one) > 1 else math.nan for one in self.columns]

    @property
    def pairs(self) -> list[tuple[int, float]]:
        """The numbers of layers or states with their means."""
        return list(zip(self.numbers, self.mean, strict=True))

    @property
    def texts(self) -> int:
        return len(self.figures)


class Matrix(NamedTuple):
    """A matrix of figures between states, or between tokens of a text."""

    probe: str
    name: str
    labels: tuple[str, ...]
    values: tuple[tuple[Figure, ...], ...]


class Spectrum(NamedTuple):
    """Eigenvalues of a layer's Jacobian at the last token of the first text."""

    layer: int
    real: tuple[Figure, ...]
    imaginary: tuple[Figure, ...]


class TokenPaths(NamedTuple):
    """The tokens of a text, and of each in every state its place, its cluster and its norm: x[state][token]."""

    name: str
    tokens: tuple[str, ...]
    x: tuple[tuple[Figure, ...], ...]
    y: tuple[tuple[Figure, ...], ...]
    cluster: tuple[tuple[int, ...], ...]
    norm: tuple[tuple[Figure, ...], ...]


class Skipped(NamedTuple):
    """What leaving out a layer, or replacing it, changes text by text."""

    layer: int
    changes: Figures

    @property
    def mean(self) -> float:
        return fmean(self.changes)


class Health(NamedTuple):
    """`not_finite`: tensors and states with entries that are not finite; `idle`: layers that change no state; `guess`:
    the loss of a uniform guess, if there is such a guess; `bits`: bits for each byte of a text, if it is text."""

    not_finite: tuple[str, ...]
    idle: tuple[int, ...]
    guess: Figure | None
    bits: Figures


class Half(NamedTuple):
    """A half-step that was left out: the field `letter` of a layer."""

    layer: int
    letter: str
    changes: Figures


class CutList(NamedTuple):
    """Layers that were left out together: in the order in which they were chosen, the texts that chose them, and what
    leaving out the first k of them costs on other texts: changes[k - 1][text]. `ties`: numbers k at which another
    layer could have been chosen as well."""

    how: Literal["greedy", "single"]  # one after the other, or by what each costs alone
    layers: tuple[int, ...]
    chosen_on: int  # texts
    changes: tuple[Figures, ...]
    ties: tuple[int, ...] = ()


class Coordinate(NamedTuple):
    """A coordinate of the state that holds much of the squared norm: its share in the state where that is largest, with
    and without the first token, text by text."""

    coordinate: int
    state: int
    shares: Figures
    without_first: Figures


class Held(NamedTuple):
    """Coordinates that were held still in every state: at their mean over other texts, or at zero."""

    coordinates: tuple[int, ...]
    at: Literal["mean", "zero"]
    changes: Figures


class Evidence(NamedTuple):
    """All of it for one model. What was not measured is empty."""

    health: Health | None = None
    halves: tuple[Half, ...] = ()
    cuts: tuple[CutList, ...] = ()
    coordinates: tuple[Coordinate, ...] = ()
    held: tuple[Held, ...] = ()
    swapped: tuple[Skipped, ...] = ()  # here by the same layer of the other model
    divergence: Figures = ()  # KL of the other model's predictions from this one's, in nats for each token


NO_EVIDENCE = Evidence()


class Missing(NamedTuple):
    """A probe without figures, and why."""

    probe: str
    why: str


@dataclass(frozen=True)
class ModelFindings:
    """What was found in one model."""

    model: str
    scheme: str
    stack: str
    layers: int
    width: int
    parameters: int
    random: bool  # fresh weights by the architecture's own initialisation
    notes: tuple[str, ...]
    losses: tuple[Figure, ...]  # nats for each prediction, text by text; empty: it has none
    series: tuple[Series, ...]
    matrices: tuple[Matrix, ...]
    spectra: tuple[Spectrum, ...]
    paths: tuple[TokenPaths, ...]
    skipped: tuple[Skipped, ...]
    missing: tuple[Missing, ...]
    evidence: Evidence = NO_EVIDENCE

    def find(self, probe: str, name: str) -> Series | None:
        return next((one for one in self.series if (one.probe, one.name) == (probe, name)), None)

    def matrix(self, probe: str) -> Matrix | None:
        return next((one for one in self.matrices if one.probe == probe), None)

    @property
    def label(self) -> str:
        """What charts call the model."""
        return "random weights" if self.random else Path(self.model).name.removesuffix(".gguf") or self.model


@dataclass(frozen=True)
class Inspection(Result):
    """A model and, beside it, its null model or another one, on the same texts."""

    study = "inspect"

    model: ModelFindings
    other: ModelFindings | None
    seed: int | None  # of the null model
    texts: int
    tokens: int  # the most in a text
    source: str  # of the texts
    probes: tuple[str, ...]
    differentiated: int  # texts of the probes with derivatives
    listed: tuple[int, ...]  # layers
    made: Inlined[Provenance]
    unfinished: str = ""  # how far it came before it was interrupted

    @property
    def null(self) -> ModelFindings | None:
        """The same architecture at random initialisation."""
        return self.other if self.other is not None and self.other.random else None

    @property
    def models(self) -> list[ModelFindings]:
        return [self.model] if self.other is None else [self.model, self.other]

    @property
    def layers(self) -> Any:
        """A row for each layer that is listed: a DataFrame or, without pandas, a list of records."""
        rows = [layer_record(self, layer) for layer in self.listed]
        try:
            from pandas import DataFrame
        except ImportError:
            return rows
        return DataFrame(rows)

    def records(self) -> list[dict[str, Any]]:
        """Every figure of a probe in a row of its own."""
        return [
            {"model": found.model, "random": found.random, "probe": one.probe, "name": one.name, "text": text,
             "along": one.along, "number": number, "figure": figure}
            for found in self.models
            for one in found.series
            for text, figures in enumerate(one.figures)
            for number, figure in zip(one.numbers, figures, strict=True)
        ]  # fmt: skip


def layer_record(result: Inspection, layer: int) -> dict[str, Any]:
    """What was found of a layer, in the mean over texts; of the other model's, too."""
    row: dict[str, Any] = {"layer": layer}
    for found, start in zip(result.models, ("", "other "), strict=False):
        row |= {
            f"{start}{one.probe} {one.name}": dict(one.pairs)[layer]
            for one in found.series
            if one.along == "layer" and layer in one.numbers
        }
        row |= {f"{start}left out": one.mean for one in found.skipped if one.layer == layer}
        row |= {
            f"{start}{one.letter} left out": fmean(one.changes) for one in found.evidence.halves if one.layer == layer
        }
    return row


def converted(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The JSON of a result; before version 0.3 the layers that are listed were called its layers, and models had
    outliers, which coordinates say better."""
    found = {key: without_outliers(one) if key in ("model", "other") else one for key, one in document.items()}
    return found if "listed" in found or "layers" not in found else {**found, "listed": found["layers"]}


def without_outliers(model: Any) -> Any:
    return {key: one for key, one in model.items() if key != "outliers"} if isinstance(model, Mapping) else model
