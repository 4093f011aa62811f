"""What was found in a model, as the record that is stored: made of the units that are there, and of nothing else."""

from collections.abc import Collection, Iterator, Mapping
from itertools import count, takewhile
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...probes import PROBES, Figures
from ...support.typed import read_as
from .groups import coordinates_of
from .own_probes import rounded, rounded_rows, token_paths
from .plan import DEEP, DEFAULT
from .result import (
    Along,
    CutList,
    Evidence,
    Half,
    Health,
    Held,
    Matrix,
    Missing,
    ModelFindings,
    Series,
    Skipped,
    Spectrum,
)
from .units import Store

EIGENVALUES = 256  # of a layer that are kept for the page
ORDER = {name: i for i, name in enumerate((*DEFAULT, *DEEP))}  # of series, in whatever order units were found
LISTED = {("products", "exponents")}  # series that do not run along the depth
SHIFT = {"state": 0.0, "layer": 0.5, "pair": 1.0}  # layers from a number to the place that it stands for
SERIES = ("sizes", "task lens", "beside")  # units that are series, beside those of registered probes


class Units(NamedTuple):
    """The units of one model by name: of each its figures, text by text. A text is there if all before it are."""

    layers: int
    figures: Mapping[str, list[Figures]]
    missing: Mapping[str, str]


def units_of(store: Store, role: str) -> Units:
    """What was measured of a model, its batches put together."""
    names = dict[str, dict[int, Figures]]()
    missing = dict[str, str]()
    for name, one in store.of(f"{role}/").items():
        kind = name.rpartition("/")[0] or name
        names.setdefault(kind, {}).update(one.rows)
        if one.why:
            missing.setdefault(kind, one.why)
    ordered = sorted(names.items(), key=lambda one: (ORDER.get(one[0], len(ORDER)), one[0]))
    figures = {name: [rows[i] for i in takewhile(rows.__contains__, count())] for name, rows in ordered}
    return Units(store[f"{role}/about"].about["layers"], figures, missing)


def findings(store: Store, role: str, listed: Collection[int] | None = None) -> ModelFindings | None:
    """The record of a model, with the spectra of the layers that are listed; None before anything was measured."""
    if f"{role}/about" not in store or not (found := units_of(store, role)).figures.get("sizes"):
        return None
    about: dict[str, Any] = dict(store[f"{role}/about"].about)
    texts = [(name, tuple(tokens)) for name, tokens in about.pop("texts")]
    states = [one["states"] for one in found.figures.get("paths", []) if isinstance(one["states"], Tensor)]
    [shares, *_] = tensors(found, "sizes", "shares")
    circles = tuple(one for one in spectra(found) if listed is None or one.layer in listed)
    about["notes"] = tuple(about["notes"])
    return ModelFindings(
        **about, width=shares.shape[-1],
        losses=tuple(rounded(value) for value in numbers(found, "loss", "loss")), series=tuple(series(found)),
        matrices=tuple(matrices(found, texts[0][1])), spectra=circles,
        paths=tuple(token_paths(states, texts[: len(states)])),
        skipped=skipped(found), missing=tuple(Missing(*one) for one in sorted(found.missing.items())),
        evidence=evidence(store, role, found),
    )  # fmt: skip


def numbers(found: Units, name: str, key: str) -> list[float]:
    """A single figure of each text."""
    return [float(row[key][0]) for row in found.figures.get(name, []) if key in row]


def tensors(found: Units, name: str, key: str) -> list[Tensor]:
    return [x for row in found.figures.get(name, []) if isinstance(x := row.get(key), Tensor)]


def series(found: Units) -> Iterator[Series]:
    """The series of all probes, each number with the share of the depth where it stands."""
    kinds: dict[int, Along] = {found.layers + 1: "state", found.layers: "layer", found.layers - 1: "pair"}
    for probe, rows in found.figures.items():
        if (probe not in PROBES and probe not in SERIES) or not rows:
            continue
        for name in (key for key, value in rows[0].items() if not isinstance(value, Tensor)):
            values = [row[name] for row in rows if name in row]
            n = len(values[0])
            along = "number" if (probe, name) in LISTED else kinds.get(n, "number")
            if n and all(len(row) == n for row in values):
                t = tuple((i + SHIFT[along]) / found.layers if along in SHIFT else float(i) for i in range(n))
                figures = tuple(tuple(rounded(float(x)) for x in row) for row in values)
                yield Series(probe, name, along, tuple(range(n)), t, figures)


def matrices(found: Units, tokens: tuple[str, ...]) -> Iterator[Matrix]:
    """Those that charts show; `tokens` are those of the first text."""
    if alike := tensors(found, "cka_layers", "matrix"):
        mean = torch.stack([one.double() for one in alike]).mean(0)
        yield Matrix("cka_layers", "matrix", tuple(map(str, range(len(mean)))), rounded_rows(mean))
    for weights in tensors(found, "rollout", "weights"):
        n = min(len(tokens), weights.shape[-1])
        yield Matrix("rollout", "weights", tokens[:n], rounded_rows(weights[0].float()[:n, :n]))


def spectra(found: Units) -> Iterator[Spectrum]:
    """The eigenvalues of each layer; of a wide model, evenly chosen ones in the order of their size."""
    for eigenvalues in tensors(found, "jacobian", "J eigenvalues"):
        for layer, values in enumerate(eigenvalues[:, 0]):
            order = torch.linalg.vector_norm(values, dim=-1).argsort(descending=True)
            places = torch.linspace(0, len(order) - 1, min(len(order), EIGENVALUES)).round().long()
            yield Spectrum(layer, *rounded_rows(values[order[places]].T, 3))


def cut_units(found: Units, kind: str) -> Iterator[tuple[list[str], tuple[float, ...]]]:
    """What cuts of a kind changed: the words of their names, such as the layer, and the figures text by text."""
    for name, rows in found.figures.items():
        if name.startswith(f"{kind} ") and rows:
            yield name.split()[1:], tuple(rounded(float(row["change"][0])) for row in rows)


def skipped(found: Units, kind: str = "out") -> tuple[Skipped, ...]:
    return tuple(sorted(Skipped(int(words[0]), changes) for words, changes in cut_units(found, kind)))


def evidence(store: Store, role: str, found: Units) -> Evidence:
    """What sentences rest on."""
    halves = sorted(Half(int(words[0]), words[1], changes) for words, changes in cut_units(found, "half"))
    whole = store.get(f"{role}/whole health/0")
    held = [one for unit in store.of(f"{role}/held ").values() for one in unit.about["held"]]
    return Evidence(
        None if whole is None else read_as(Health, whole.about, "health"),
        tuple(halves),
        evidence_of_cuts(store, role),
        coordinates_of(store, role),
        tuple(read_as(Held, one, "what is held") for one in held),
        skipped(found, "swap"),
        tuple(map(rounded, numbers(found, "divergence", "divergence"))),
    )


def evidence_of_cuts(store: Store, role: str) -> tuple[CutList, ...]:
    """The longest list of layers that go together, if one was chosen."""
    lists = [read_as(CutList, one.about["cut"], "a list") for one in store.of(f"{role}/list ").values()]
    return tuple(sorted(lists, key=lambda one: -len(one.layers))[:1])
