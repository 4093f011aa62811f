"""The rule of the depth gradient decides as docs/theory/inspection.md says."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from scipy.stats import spearmanr

from splitstep.studies.inspect.conclusions import by_layer, depth_gradient, gradient_parts
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


def decided(model: ModelFindings, null: ModelFindings | None = NULL) -> tuple[str, list[str]]:
    found = result(model, null)
    return depth_gradient(found).kind, [one.decision for one in gradient_parts(found)]


def test_correlations_are_spearmans() -> None:
    wanted = [float(spearmanr(range(5), row).statistic) for row in FLAT]  # pyright: ignore[reportAttributeAccessIssue]
    assert list(by_layer(NULL, "complex").values.values()) == pytest.approx(wanted)


def test_all_three_parts_support_the_claim() -> None:
    model = looked(FALLING, FALLING, (0.02, 0.03, 0.04, 0.03), False)
    assert decided(model) == ("settled", ["supported"] * 3)
    sentence = depth_gradient(result(model, NULL)).sentence
    assert sentence.startswith(
        "Training installs a depth gradient: supported (rotation falls with depth: supported, -0.9"
    )
    assert "the product loses rank: supported, 0.03 [" in sentence


def test_one_part_against_it_is_enough() -> None:
    model = looked(FALLING, RISING, (0.02, 0.03, 0.04, 0.03), False)
    assert decided(model) == ("settled", ["supported", "not supported", "supported"])


def test_what_the_random_network_has_too_was_not_installed() -> None:
    model = looked(FALLING, FALLING, (0.02, 0.03, 0.04, 0.03), False)
    alike = looked(FALLING, FALLING[::-1], (0.02, 0.03, 0.05, 0.03), True)
    kind, parts = decided(model, alike)
    assert parts == ["undecided", "undecided", "not supported"]
    assert kind == "settled"


def test_a_rank_between_the_levels_is_undecided() -> None:
    model = looked(FALLING, FALLING, (0.05, 0.2, 0.1, 0.06), False)
    assert decided(model) == ("open", ["supported", "supported", "undecided"])


def test_two_texts_and_no_null_model_decide_nothing() -> None:
    few = looked(FALLING[:2], FALLING[:2], (0.02, 0.03), False)
    assert decided(few) == ("too few", ["undecided"] * 3)
    assert "add --spectra 8" in depth_gradient(result(few, NULL)).sentence
    assert decided(few, None) == ("too few", [])
