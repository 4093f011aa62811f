"""The verb `approximate`: what it writes, what it says, and that it reads its own results."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import read_back

import splitstep as ss
from splitstep import cli
from splitstep.approximation.certificate import sampled_error
from splitstep.report.drawing import document_to_page
from splitstep.studies.approximate import RATES, SIDE, STOPS, approximation, attention_of, train_at


def test_the_verb_writes_weights_result_and_page_that_can_be_drawn_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And it says what runs on standard error."""
    words = ["approximate", "max", "--sweep", "eps=0.2,0.1", "--train-steps", "2", "--out", str(tmp_path)]
    assert cli.main(words) == 0
    printed, said = capsys.readouterr()
    assert printed.startswith("Certified: the error is at most")
    lines = [line for line in said.splitlines() if line.startswith("approximate")]
    assert lines == [
        "approximate  eps 0.2: building",
        "approximate  eps 0.2: certifying a network of 2 units",
        "approximate  eps 0.1: building",
        "approximate  eps 0.1: certifying a network of 2 units",
        "approximate  training the twin 1/6 steps",
        "approximate  training the twin 6/6 steps",
    ]
    result = read_back(tmp_path)
    assert capsys.readouterr().out == printed
    assert [row.eps for row in result.rows] == [0.2, 0.1]
    assert all(row.error <= row.eps for row in result.rows)
    model = ss.SplitstepVectorsModel.from_pretrained(tmp_path / "model")
    assert model.config.ffn == result.best.units == 2


def test_each_variable_that_a_surface_does_not_show_has_a_slider_and_equal_colours_are_equal_values() -> None:
    result, built = approximation("product", 2, 2, [0.4], train_steps=0)
    assert {(one.moved, one.at) for one in result.surfaces} == {(j, at) for j in (2, 4) for at in STOPS}
    x = np.full((SIDE, SIDE, 2, 2), 0.5)
    x[..., 0, 0], x[..., 1, 0] = np.meshgrid(*[np.linspace(0, 1, SIDE)] * 2, indexing="ij")
    x[..., 1, 1] = 0.25
    [found] = [one for one in result.surfaces if (one.positions, one.moved, one.at) == ([1], 4, 0.25)]
    np.testing.assert_array_equal(found.target, built.target.map(x)[..., 0, 0])
    np.testing.assert_allclose(found.network, built(x)[..., 0, 0], atol=1e-14)
    page = document_to_page(result.document())
    assert page.count('<div class="slider"') == 4  # two variables at each of two positions, from the middle
    assert re.findall(r'<span class="at"[^>]*>(.*?)</span>', page) == 2 * ["variable 2 = 0.5", "variable 4 = 0.5"]
    most = max(np.abs([one.target, one.network]).max() for one in result.surfaces)
    apart = max(np.abs(np.subtract(one.network, one.target)).max() for one in result.surfaces)
    bars = set(re.findall(r'<div class="key (\w+)">([^<]*)<i></i>([^<]*)</div>', page))
    assert bars == {
        ("plus", "output 0.000", f"{most:.3f}"), ("both", f"difference -{apart:.4f}", f"+{apart:.4f}")
    }  # fmt: skip


@pytest.mark.parametrize("tokens", [2, 3])
def test_the_weight_on_the_other_tokens_is_the_softmaxs_and_below_its_bound(tokens: int) -> None:
    for one in attention_of(tokens):
        scores = torch.tensor([one.beta] + [0.0] * (tokens - 1), dtype=torch.float64)
        others = torch.log_softmax(scores, 0)[1:].logsumexp(0).exp().item()
        assert one.rest == pytest.approx(others, rel=1e-12)
        assert 0 < one.rest <= one.bound


def test_the_trained_network_is_the_best_of_several_rates() -> None:
    result, built = approximation("max", 2, 1, [0.2], train_steps=4)
    errors = {rate: sampled_error(train_at(built, 4, rate), built.target)[0] for rate in RATES}
    assert result.trained.sampled == min(errors.values()) == errors[result.trained.rate]


def test_a_typed_function_is_run_on_one_sequence_at_a_time(tmp_path: Path) -> None:
    typed = "lambda x: x[::-1]"
    words = ["--eps", "0.1", "--lipschitz", "1", "--train-steps", "0", "--out", str(tmp_path)]
    assert cli.main(["approximate", typed, *words]) == 0
    result = read_back(tmp_path)
    assert (result.best.met, result.target) == (True, typed)
