"""The study of networks that are built: what is certified, what it costs, and what training finds at the same size."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import count
from math import exp
from typing import Any, Literal

import numpy as np
import torch

from ..approximation import BUDGET, Built, Say, approximate, nothing, target_within
from ..approximation.certificate import BoundTerm, outputs, sampled_error
from ..approximation.targets import samples
from ..experiments.result import Result
from ..experiments.sections import reproduced
from ..experiments.statistics import Slope, fitted_slope
from ..experiments.study import Study
from ..models.vectors import SplitstepVectorsModel
from ..report.charts import Axis, HeatMap, Line, LineChart, SliderChart, SmallMultiples
from ..report.document import Beside, Document, Evidence, Note, Verdict, folded
from ..report.heat import on_one_scale
from ..report.tables import Column, Table
from ..support.provenance import Provenance, made_by_study
from ..support.typed import Inlined
from ..support.words import counted
from ..training.progress import Counting

SIDE = 21  # points of a surface in each direction
STOPS = (0.0, 0.25, 0.5, 0.75, 1.0)  # where a slider holds one of the other variables; the rest stays in the middle
MIDDLE = 0.5
TRAIN_STEPS = 2000
BETAS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
BATCH, RATES = 512, (1e-2, 3e-3, 1e-3)  # of training; the best rate is shown
ROWS_NOTE = (
    "Certified: proved for the whole domain [0, 1]^(n d), if the Lipschitz constant is right. Sampled: the largest "
    "that was found at a point; it proves nothing."
)
STEPS_NOTE = "The certified error is the sum of gathering, cells and rounding, each the largest over the positions."
SURFACES_NOTE = (
    "The first coordinate at each position, over the first coordinates of the first and the last token. Target and "
    "network share one scale of colours on the whole page, and the differences have another."
)
HEADLINES = {
    "settled": "Certified: the network is as close to the target as was asked.",
    "open": "Not certified: the proof does not reach the error that was asked for.",
    "too few": "No certificate: the error of the network is sampled, not proved.",
}
SLIDERS_NOTE = "A slider moves one of the other variables, from 0.5; the rest stays at 0.5."
TICKS = [f"{i / (SIDE - 1):g}" for i in range(SIDE)]


@dataclass(frozen=True)
class Row:
    """A network at one eps."""

    eps: float
    error: float | None
    sampled: float
    met: bool
    heads: int
    units: int
    parameters: int
    cells: int
    sentence: str


@dataclass(frozen=True)
class Surface:
    """An output over the first coordinates of the first and the last token; positions with equal ones share it.

    Another variable, `moved`, has the value `at`; the rest is in the middle. With two variables there is no other.
    """

    positions: list[int]
    coordinate: int
    moved: int | None
    at: float | None
    target: list[list[float]]
    network: list[list[float]]


@dataclass(frozen=True)
class Attention:
    """How much a head looks at its own token, and the bound of what the others add, at a sharpness."""

    beta: float
    weight: float
    bound: float

    @property
    def rest(self) -> float:
        """The others' weight by the softmax. 1 - weight is 0 in float64 from about beta = 37."""
        return self.bound / (1 + self.bound)


@dataclass(frozen=True)
class Trained:
    """A network of the same shape, trained from a random start, at the best of several rates; errors are sampled."""

    steps: int
    batch: int
    rates: list[float]
    rate: float
    sampled: float
    mean: float
    built_mean: float


@dataclass(frozen=True)
class Approximation(Result):
    """What was built for a target, and what is known about it."""

    study = "approximate"
    format = 2

    target: str
    tokens: int
    dim: int
    lipschitz: float | None
    positions: str
    beta: float
    rows: list[Row]
    steps: list[BoundTerm]
    how: list[str]
    surfaces: list[Surface]
    attention: list[Attention]
    trained: Trained | None
    exponent: Slope | None
    made: Inlined[Provenance]

    @property
    def best(self) -> Row:
        return self.rows[-1]


def approximation(
    f: Any,
    tokens: int,
    dim: int,
    many_eps: Sequence[float],
    lipschitz: float | None = None,
    train_steps: int = TRAIN_STEPS,
    positions: Literal["learned", "none"] = "learned",
    say: Say = nothing,
    progress: Counting | None = None,
) -> tuple[Approximation, Built]:
    """Build a network for each eps, the largest first; the last one is returned, drawn and compared with training.

    `say` is told what begins, and `progress` counts the steps of training.
    """
    ordered = sorted(many_eps, reverse=True)
    target_within(f, tokens, dim, ordered, lipschitz, BUDGET, positions)  # refuses the smallest before the first
    every = [approximate(f, tokens, dim, eps, lipschitz, positions=positions, say=say) for eps in ordered]
    built, rows = every[-1], [row_of(one) for one in every]
    return Approximation(
        built.target.name, tokens, dim, built.target.lipschitz, positions, built.beta, rows, built.certificate.steps,
        [one.how for one in built.fits], surfaces_of(built), attention_of(tokens),
        train(built, train_steps, progress) if train_steps else None, exponent_of(rows), made_by_study(),
    ), built  # fmt: skip


def exponent_of(rows: Sequence[Row]) -> Slope | None:
    """The power of eps with which units grow; None if they do not."""
    return fitted_slope((0, row.eps, row.units) for row in rows) if len({row.units for row in rows}) > 1 else None


def row_of(built: Built) -> Row:
    one = built.certificate
    return Row(
        one.eps, one.error, one.sampled, one.met, built.model.config.heads, built.units, built.parameters, one.cells,
        one.sentence,
    )  # fmt: skip


def across(tokens: int, dim: int) -> int:
    """The variable that a surface shows beside variable 0: the last token's first; of one token, its last."""
    return (tokens - 1) * dim if tokens > 1 else dim - 1


def surfaces_of(built: Built) -> list[Surface]:
    """The first coordinate at every position, over those of the first and the last token, at each stop of a slider."""
    n, d, m = built.target.tokens, built.target.dim, built.target.variables
    axes, groups, found = (0, across(n, d)), equal_positions(built), list[Surface]()
    others = [(j, at) for j in range(m) if j not in axes for at in STOPS]
    for moved, at in others or [(None, None)]:
        x, side = np.full((SIDE, SIDE, m), MIDDLE), np.linspace(0, 1, SIDE)
        if moved is not None:
            x[..., moved] = at
        x[..., 0], x[..., axes[1]] = np.meshgrid(side, side, indexing="ij")
        points = x.reshape(-1, m)
        both = (y.reshape(SIDE, SIDE, n, d) for y in (built.target(points), outputs(built.model, points, n)))
        wanted, made = (y[..., 0] for y in both)
        number = None if moved is None else moved + 1
        for same in groups:
            i = same[0] - 1
            found.append(Surface(same, 1, number, at, wanted[:, :, i].tolist(), made[:, :, i].tolist()))
    return found


def equal_positions(built: Built) -> list[list[int]]:
    """Positions, from 1, in groups whose first coordinates are the same, target and network, at samples."""
    x, n = samples(built.target, 256), built.target.tokens
    both = np.stack([built.target(x), outputs(built.model, x, n)]).reshape(2, len(x), n, -1)[..., 0]
    groups = dict[bytes, list[int]]()
    for i in range(n):
        groups.setdefault(both[:, :, i].tobytes(), []).append(i + 1)
    return list(groups.values())


def attention_of(tokens: int) -> list[Attention]:
    """A head's weight on its own token by the softmax, and (n - 1) exp(-beta)."""
    others = tokens - 1
    return [Attention(beta, 1 / (1 + others * exp(-beta)), others * exp(-beta)) for beta in BETAS]


def train(built: Built, steps: int, progress: Counting | None = None) -> Trained:
    """The best of several rates, by the largest sampled error: Adam on random batches, in the built network's shape."""
    target, done = built.target, count(1)

    def tick() -> None:
        if progress is not None:
            progress(next(done), len(RATES) * steps)

    found = {rate: train_at(built, steps, rate, tick) for rate in RATES}
    largest = {rate: sampled_error(model, target)[0] for rate, model in found.items()}
    best = min(RATES, key=lambda rate: largest[rate])
    x = np.random.default_rng(1).random((10_000, target.variables))
    both = (found[best], built.model)
    means = [float(np.abs(outputs(one, x, target.tokens) - target(x)).mean()) for one in both]
    return Trained(steps, BATCH, list(RATES), best, largest[best], *means)


def train_at(built: Built, steps: int, rate: float, tick: Callable[[], None] = lambda: None) -> SplitstepVectorsModel:
    """A network that was trained at one rate, from the random start that all rates share."""
    target, rng, config = built.target, np.random.default_rng(0), deepcopy(built.model.config)
    config.init = "xavier"
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(0)
        model = SplitstepVectorsModel(config).double()
        optimiser = torch.optim.Adam(model.parameters(), rate)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=steps + 1)
        for _ in range(steps):
            x = rng.random((BATCH, target.variables))
            given, wanted = (torch.from_numpy(one.reshape(BATCH, target.tokens, -1)) for one in (x, target(x)))
            optimiser.zero_grad()
            model(given, labels=wanted).loss.backward()
            optimiser.step()
            schedule.step()
            tick()
    return model.eval()


def tables(result: Approximation) -> list[Table]:
    """Networks by eps, the steps of the certificate, and the trained network."""
    rows = [
        {
            Column("eps"): f"{row.eps:g}",
            Column("certified"): "not proved" if row.error is None else f"{row.error:.3g}",
            Column("sampled"): f"{row.sampled:.3g}",
            Column("heads"): str(row.heads),
            Column("units"): f"{row.units:,}",
            Column("parameters"): f"{row.parameters:,}",
            Column("cells"): f"{row.cells:,}",
        }
        for row in result.rows
    ]
    steps = [
        {Column("step", text=True): s.name, Column("figure"): f"{s.bound:.3g}", Column("how", text=True): s.text}
        for s in result.steps
    ]
    exponent = [] if result.exponent is None else [f"Units grow like eps^{result.exponent.text()}, a regression."]
    proved = result.best.error is not None
    known = Table.of(steps, "The certificate" if proved else "No certificate", [STEPS_NOTE] if proved else [])
    return [Table.of(rows, "Networks", [ROWS_NOTE, *exponent]), known, *trained_table(result)]


def trained_table(result: Approximation) -> list[Table]:
    one = result.trained
    if one is None:
        return []
    names = Column("network", text=True), Column("largest error, sampled"), Column("mean error, sampled")
    built = ["built", f"{result.best.sampled:.3g}", f"{one.built_mean:.3g}"]
    trained = ["trained", f"{one.sampled:.3g}", f"{one.mean:.3g}"]
    note = (
        f"The same shape, trained from a random start: {one.steps:,} steps of Adam on {one.batch} random points, one "
        f"seed; the best of the rates {', '.join(map('{:g}'.format, one.rates))}, which is {one.rate:g}."
    )
    return [Table(names, [built, trained], "Built and trained", [note])]


def surface_charts(result: Approximation) -> Iterator[SmallMultiples | SliderChart]:
    """For each group of positions a row of charts, or a slider for each of the other variables."""
    rows = dict[tuple[str, int | None], list[SmallMultiples]]()
    for one, maps in zip(result.surfaces, heat_maps(result), strict=True):
        where = f"{'Position' if len(one.positions) == 1 else 'Positions'} {', '.join(map(str, one.positions))}"
        at = "" if one.at is None else f"variable {one.moved} = {one.at:g}"
        rows.setdefault((where, one.moved), []).append(SmallMultiples(at, maps))
    for (where, moved), charts in sorted(rows.items(), key=lambda item: item[0][0]):
        if moved is None:
            yield replace(charts[0], title=where)
        else:
            yield SliderChart(f"{where}:", f"variable {moved}", charts, start=STOPS.index(MIDDLE))


def heat_maps(result: Approximation) -> Iterable[tuple[HeatMap, ...]]:
    """Target, network and difference of each surface; on the whole page equal colours are equal values."""
    axes = f"variable {across(result.tokens, result.dim) + 1}", "variable 1", TICKS, TICKS
    both = ((title, one) for s in result.surfaces for title, one in (("target", s.target), ("network", s.network)))
    apart = [np.subtract(one.network, one.target).tolist() for one in result.surfaces]
    outputs = on_one_scale([HeatMap(title, *axes, values, "{:.3f}", what="output") for title, values in both])
    gaps = on_one_scale([HeatMap("network - target", *axes, own, "{:+.4f}", what="difference") for own in apart])
    return zip(outputs[::2], outputs[1::2], gaps, strict=True)


def attention(result: Approximation) -> str:
    """What the heads do, in words."""
    if result.positions == "learned":
        return f"One head for each position, of sharpness {result.beta:g}."
    if result.tokens == 2:
        return "No positions: one head computes the mean of both tokens."
    return f"No positions: heads compute exponential means of the tokens, of sharpness 0 and ±{result.beta:g}."


def line_charts(result: Approximation) -> Iterator[LineChart]:
    """The leak of a head that copies one of several tokens, which heads without positions do not; what eps costs."""
    if result.positions == "learned" and result.tokens > 1:
        betas = [one.beta for one in result.attention]
        bound = Line("(n - 1) exp(-beta)", betas, [one.bound for one in result.attention])
        lost = Line("weight on the other tokens", betas, [one.rest for one in result.attention])
        yield LineChart(
            "What the other tokens add to a head, against its sharpness", Axis("beta", "{:g}", log=True),
            Axis("weight", "{:.1e}", log=True), [bound, lost], name="chart-attention",
        )  # fmt: skip
    if len(result.rows) > 1:
        eps = [row.eps for row in result.rows]
        units = Line("units", eps, [float(row.units) for row in result.rows])
        parameters = Line("parameters", eps, [float(row.parameters) for row in result.rows])
        axes = Axis("eps", "{:g}", log=True), Axis("how many", "{:,.0f}", log=True)
        yield LineChart("Units and parameters against eps", *axes, [units, parameters], name="chart-cost")


def document(result: Approximation) -> Document:
    """The tables, the surfaces, the charts, how to reproduce them."""
    constant = "unknown" if result.lipschitz is None else f"{result.lipschitz:g}, an assumption"
    about = f"One layer, scheme A F, no norm, float64. Lipschitz constant in the sup norm: {constant}."
    made = [("fits", "; ".join(result.how)), *result.made.entries("commit", "date")]
    charts, lines = list(surface_charts(result)), list(line_charts(result))
    parts = [
        *charts[:1],
        Note(f"{SURFACES_NOTE} {SLIDERS_NOTE}" if result.tokens * result.dim > 2 else SURFACES_NOTE),
        *([Evidence("The other positions", charts[1:])] if charts[1:] else []),
        *folded(tables(result)),
        *([Evidence("What sharpness and eps cost", [Beside(lines)])] if lines else []),
        Evidence("How it is built", [Note(f"{about} {attention(result)}")]),
        *reproduced(result.made, "splitstep.approximate(...)", made),
    ]
    title = f"{result.target}: {counted(result.tokens, 'token')} of dimension {result.dim}"
    kind = "settled" if result.best.met else "too few" if result.best.error is None else "open"
    return Document(title, parts, Verdict(kind, result.best.sentence), HEADLINES[kind])


STUDY = Study(Approximation, document)
