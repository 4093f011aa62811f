"""The continuous limit: weights as functions of depth, fitted rates, and the study that trains every depth."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import read_back
from scipy import stats
from torch import Tensor

from splitstep import cli
from splitstep.experiments.statistics import Slope, fitted_slope
from splitstep.models import KINDS
from splitstep.studies.converge.limit import ContinuousLimit, Trend, interpolated, matrices, roughness
from splitstep.studies.converge.limit_document import limit_verdict
from splitstep.studies.converge.ways import problem_of
from splitstep.support.provenance import Provenance
from splitstep.tasks.measures import ACCURACY

SHAPE: dict[str, Any] = dict(width=16, heads=2, ffn=24, image_size=8, patch=4, num_labels=3, init_std=0.3)
OVERRIDES = [
    "model.layers=2", "model.width=16", "model.heads=2", "model.ffn=32", "train.steps=6", "train.warmup=1",
    "train.batch=16",
]  # fmt: skip


def image_model(layers: int, scheme: str = "A F", **more: Any) -> Any:
    torch.manual_seed(0)
    config = KINDS["image"].config(**SHAPE, layers=layers, step=3 / layers, scheme=scheme, **more)
    return KINDS["image"].model(config).eval().double()


def images() -> dict[str, Tensor]:
    return {"pixel_values": torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(1))}


def test_interpolated_weights_are_linear_between_the_middles_of_layers() -> None:
    model = image_model(3)
    w = torch.stack([layer["F"].up.weight for layer in model.body.stack.layers]).detach().numpy()
    for layers in (3, 4, 6, 7):
        new = interpolated(model, layers)
        assert new.config.step == pytest.approx(3 / layers)
        middles = (np.arange(layers) + 0.5) * 3 / layers
        wanted = np.stack([np.interp(middles, [0.5, 1.5, 2.5], column) for column in w.reshape(3, -1).T], 1)
        found = torch.stack([layer["F"].up.weight for layer in new.body.stack.layers]).detach()
        assert np.allclose(found.reshape(layers, -1), wanted, atol=1e-12)
    same, x = interpolated(model, 3), images()["pixel_values"].double()
    with torch.no_grad():
        assert torch.equal(model(x).logits, same(x).logits)


@pytest.mark.parametrize(("scheme", "order"), [("A F", 1), ("F/2 A F/2", 1), ("F/2 A F/2 @midpoint", 2)])
def test_interpolated_networks_converge_at_the_order_of_their_scheme(scheme: str, order: int) -> None:
    model = image_model(3, scheme)
    depths = (24, 48, 96, 192)
    with torch.no_grad():
        ends = [problem_of(interpolated(model, depth), images()).end() for depth in depths]
    points = [(3 / n, float((a - b).norm())) for n, a, b in zip(depths, ends, ends[1:], strict=False)]
    slope = fitted_slope((0, *one) for one in points)
    assert slope.value == pytest.approx(order, abs=0.1)


def test_roughness_of_independent_layers_is_the_root_of_two_and_of_smooth_ones_the_step() -> None:
    shape: dict[str, Any] = SHAPE | {"width": 64}
    independent = matrices(KINDS["image"].model(KINDS["image"].config(**shape, layers=12)))
    assert roughness(independent) == pytest.approx(2**0.5, rel=0.02)
    smooth = [(3 / n, roughness(matrices(image_model(n, init_modes=3)))) for n in (8, 16, 32)]
    slope = fitted_slope((0, *one) for one in smooth)
    assert slope.value == pytest.approx(1, abs=0.05)


def test_a_fitted_slope_and_its_interval_are_those_of_scipy() -> None:
    draw = np.random.default_rng(0)
    h = np.array([1.0, 0.5, 0.25, 0.125, 0.0625])
    y = h**0.7 * np.exp(0.1 * draw.standard_normal(5))
    wanted: Any = stats.linregress(np.log(h), np.log(y))
    found = fitted_slope(zip([0] * 5, h.tolist(), y.tolist(), strict=True))
    assert found.by == "regression"
    assert found.value == pytest.approx(wanted.slope)
    assert found.high == pytest.approx(wanted.slope + stats.t.ppf(0.975, 3) * wanted.stderr)
    seeds = [(seed, x, x**power) for seed, power in enumerate((0.8, 1.0, 1.3)) for x in (1.0, 0.5)]
    over = fitted_slope(seeds)
    assert (over.by, over.n) == ("seeds", 3)
    assert over.value == pytest.approx(np.mean([0.8, 1.0, 1.3]))
    assert over.high == pytest.approx(over.value + stats.t.ppf(0.975, 2) * stats.sem([0.8, 1.0, 1.3]))


def result_with(**powers: tuple[float, float]) -> ContinuousLimit:
    """A result with these intervals of the powers of distance and roughness."""
    slopes = {what: Slope((low + high) / 2, low, high, "seeds", 3) for what, (low, high) in powers.items()}
    trends = tuple(Trend("free", what, slope) for what, slope in slopes.items())  # pyright: ignore[reportArgumentType]
    return ContinuousLimit(
        "digits", ACCURACY, "A F", 3.0, (3, 6, 12), (0, 1, 2), 3, (0.0, 1.0), 64, (), (), trends, (), (),
        Provenance(recipe={"task": "digits"}, engine="local", versions={}, commit=None),
    )  # fmt: skip


@pytest.mark.parametrize(("rates", "rough", "kind", "words"), [
    ((0.2, 0.9), (0.8, 1.1), "settled", ["trajectories approach each other", "weights become smooth"]),
    ((-0.3, 0.0), (-0.1, 0.4), "settled", ["trajectories do not approach", "weights do not become smooth"]),
    ((-0.3, 0.1), (-0.1, 0.4), "open", ["it is open whether trajectories approach", "do not become smooth"]),
    ((0.2, 0.9), (0.4, 0.6), "open", ["trajectories approach", "it is open whether weights become smooth"]),
])  # fmt: skip
def test_verdicts_follow_the_written_rules(
    rates: tuple[float, float], rough: tuple[float, float], kind: str, words: list[str]
) -> None:
    found = limit_verdict(result_with(distance=rates, roughness=rough))
    assert found.kind == kind
    assert all(word in found.sentence for word in words), found.sentence


@pytest.mark.slow
@pytest.mark.usefixtures("inline")
def test_the_study_trains_every_depth_writes_what_report_reads_and_goes_on_where_it_was(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["converge", "--task", "digits", *OVERRIDES, "--depths", "2,4", "--engine", "local=1", "--out", str(out)]
    assert cli.main(words) == 0
    result = read_back(out)
    assert [(one.kind, one.depth) for one in result.networks] == [
        (kind, depth) for kind in ("interpolated", "free", "smooth") for depth in (2, 4)
    ]
    assert (result.time, result.shared_times) == (2.0, (0.0, 1.0, 2.0))
    first = {n.kind: n for n in result.networks if n.depth == 2}
    assert first["free"].figure == first["interpolated"].figure
    assert all(0 < gap.distance < math.inf and 0 <= gap.cka <= 1 for gap in result.gaps)
    assert limit_verdict(result).kind == "too few"
    assert "Two depths are too few for a rate" in limit_verdict(result).sentence
    before = {file: file.stat().st_mtime_ns for file in sorted(out.glob("runs/*/model/model.safetensors"))}
    assert len(before) == 4
    gone = next(iter(before)).parents[1]
    for file in (gone / "result.json", gone / "metrics.jsonl"):
        file.unlink()
    assert cli.main(words) == 0
    after = {file: file.stat().st_mtime_ns for file in before}
    assert [file for file in before if before[file] == after[file]] == [f for f in before if f.parents[1] != gone]
    assert read_back(out) == result
