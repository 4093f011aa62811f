"""The rule of the depth gradient decides as docs/theory/inspection.md says."""

from collections.abc import Sequence

import pytest
from scipy.stats import spearmanr

from splitstep.studies.inspect.gradient import by_layer, depth_gradient, gradient_parts
from splitstep.studies.inspect.result import Inspection, ModelFindings, Series
from splitstep.support.provenance import Provenance

WIDTH = 100
FALLING = ((0.9, 0.7, 0.75, 0.3, 0.2), (0.9, 0.8, 0.6, 0.5, 0.1), (0.7, 0.8, 0.6, 0.3, 0.2), (0.9, 0.8, 0.5, 0.6, 0.2))
FLAT = ((0.5, 0.6, 0.4, 0.55, 0.5), (0.6, 0.4, 0.5, 0.45, 0.6), (0.5, 0.45, 0.6, 0.4, 0.52), (0.4, 0.6, 0.5, 0.6, 0.45))
RISING = tuple(row[::-1] for row in FALLING)
Rows = Sequence[Sequence[float]]


def looked(rotation: Rows, asymmetry: Rows, ranks: Sequence[float], random: bool) -> ModelFindings:
    def series(probe: str, name: str, rows: Rows) -> Series:
        n = len(rows[0])
        return Series(probe, name, "layer", tuple(range(n)), (0.0,) * n, tuple(map(tuple, rows)))

    every = (
        series("jacobian", "complex", rotation), series("jacobian", "J asymmetry", asymmetry),
        series("products", "effective rank", [(WIDTH, WIDTH / 2, one * WIDTH) for one in ranks]),
    )  # fmt: skip
    return ModelFindings("m", "A F", "stack", 5, WIDTH, 1, random, (), (), every, (), (), (), (), (), ())


def result(model: ModelFindings, null: ModelFindings | None) -> Inspection:
    made = Provenance(versions={}, commit=None)
    return Inspection(model, null, 16, 4, 64, "texts", (), 4, (0, 1, 2, 3, 4), made)


NULL = looked(FLAT, FLAT, (0.8, 0.75, 0.7, 0.77), True)


def test_correlations_are_spearmans() -> None:
    wanted = [float(spearmanr(range(5), row).statistic) for row in FLAT]  # pyright: ignore[reportAttributeAccessIssue]
    assert list(by_layer(NULL, "complex").values.values()) == pytest.approx(wanted)


LOST = (0.02, 0.03, 0.04, 0.03)
CASES = {
    "all three parts support the claim": (FALLING, FALLING, LOST, NULL, "settled", ["supported"] * 3),
    "one part against it is enough": (
        FALLING, RISING, LOST, NULL, "settled", ["supported", "not supported", "supported"],
    ),
    "what the random network has too was not installed": (
        FALLING, FALLING, LOST, looked(FALLING, FALLING[::-1], (0.02, 0.03, 0.05, 0.03), True),
        "settled", ["undecided", "undecided", "not supported"],
    ),
    "a rank between the levels is undecided": (
        FALLING, FALLING, (0.05, 0.2, 0.1, 0.06), NULL, "open", ["supported", "supported", "undecided"],
    ),
    "two texts decide nothing": (FALLING[:2], FALLING[:2], LOST[:2], NULL, "too few", ["undecided"] * 3),
    "no null model decides nothing": (FALLING, FALLING, LOST, None, "too few", []),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_rule_decides(case: str) -> None:
    rotation, asymmetry, ranks, null, kind, parts = CASES[case]
    found = result(looked(rotation, asymmetry, ranks, False), null)
    assert depth_gradient(found).kind == kind
    assert [one.decision for one in gradient_parts(found)] == parts


def test_the_sentence_has_the_figures_and_what_to_add() -> None:
    says = depth_gradient(result(looked(FALLING, FALLING, LOST, False), NULL)).sentence
    assert says.startswith("Training installs a depth gradient: supported (rotation falls with depth: supported, -0.9")
    assert "the product loses rank: supported, 0.03 [" in says
    assert "add --spectra 8" in depth_gradient(result(looked(FALLING[:2], FALLING[:2], LOST[:2], False), NULL)).sentence
