"""Discretisation sensitivity and the continuous limit: what the studies compute, and what they refuse."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import read_back, refusal

from splitstep import cli
from splitstep.experiments.statistics import share_interval
from splitstep.inference.runs import open_run
from splitstep.recipe import read_recipe
from splitstep.studies.converge.discretisation import Discretisation, discretisation
from splitstep.studies.converge.discretised_document import discretisation_verdict
from splitstep.training import train

SMALL: dict[str, Any] = {"layers": 2, "width": 16, "heads": 2, "ffn": 32}
RECIPES: dict[str, dict[str, Any]] = {
    "image": {"task": "digits", "model": SMALL, "train": {"steps": 30, "warmup": 5, "lr": 5e-3}},
    "causal": {
        "task": "stdlib", "model": SMALL, "data": {"limit": 20_000, "length": 32},
        "train": {"steps": 4, "warmup": 1, "batch": 8},
    },
    "sequence": {
        "task": "listops", "model": SMALL, "data": {"variant": "short"},
        "train": {"steps": 2, "warmup": 1, "batch": 4, "evaluate_batch": 256},
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny network that was trained on digits."""
    path = tmp_path_factory.mktemp("converge") / "digits"
    train(read_recipe(RECIPES["image"], "the recipe"), path, quiet=True)
    return path


@pytest.fixture(scope="module")
def found(run: Path) -> Discretisation:
    return discretisation(run, examples=64, substeps=(1, 2), factors=(0.5, 1.0, 2.0, 4.0))


def test_the_network_by_its_own_scheme_changes_nothing(run: Path, found: Discretisation) -> None:
    own = found.ways[0]
    assert (own.scheme, own.substeps, own.change, own.kl, own.shared) == ("A F", 1, 0.0, 0.0, 1.0)
    opened = open_run(run)
    hits, examples = 0, 0
    for batch in [*opened.task.batches("valid", 32)][::6]:
        with torch.no_grad():
            logits = opened.model(batch["pixel_values"]).logits
        hits, examples = hits + int((logits.argmax(-1) == batch["labels"]).sum()), examples + len(logits)
    assert examples == found.examples == 64
    assert own.accuracy == pytest.approx(hits / examples)
    assert next(one for one in found.longer if one.factor == 1.0) == own


def test_schemes_approach_the_limit_at_their_own_order(run: Path) -> None:
    found = discretisation(run, ["lie", "strang-midpoint"], examples=8, substeps=(8, 16), factors=(1.0,))
    for text, order in (("A F", 1), ("F/2 A F/2 @midpoint", 2)):
        coarse, fine = (one.distance for one in found.ways if one.scheme == text)
        assert coarse / fine == pytest.approx(2**order, rel=0.25), text


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sequence", pytest.param("causal", marks=pytest.mark.nightly)])
def test_the_study_runs_on_every_kind_of_model_with_one_stack(kind: str, tmp_path: Path) -> None:
    train(read_recipe(RECIPES[kind], "the recipe"), tmp_path / "run", quiet=True)
    found = discretisation(tmp_path / "run", examples=8, substeps=(1,), factors=(1.0,))
    assert found.ways[0].change == 0.0
    assert found.limit.distance == 0.0
    assert len(found.errors) == 2 * 7
    assert 0 < found.majority < 1


def test_a_result_is_read_back_as_it_was_written(run: Path, tmp_path: Path) -> None:
    words = ["converge", str(run), "--out", str(tmp_path / "out"), "--examples", "8", "--substeps", "1", "--steps", "1"]
    assert cli.main(words) == 0
    assert read_back(tmp_path / "out").examples == 8
    assert cli.main(words) == 0  # again into the same directory


def test_wrong_input_is_one_line_and_exit_code_2(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unfinished = tmp_path / "unfinished"
    unfinished.mkdir()
    (unfinished / "recipe.yaml").write_text((run / "recipe.yaml").read_text())
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    (tmp_path / "compared").mkdir()
    (tmp_path / "compared" / "result.json").write_text('{"study": "compare"}')
    wrong = {
        "has not finished": [str(unfinished)],
        "there is no folder": [str(tmp_path / "nowhere")],
        "a step of 0 times its length: use numbers above 0": [str(run), "--steps", "0,1"],
        "a step of -0.5 times its length: use numbers above 0": [str(run), "--steps=-0.5"],
        "is not a number": [str(run), "--steps", "fast"],
        "whole numbers from 1": [str(run), "--substeps", "0"],
        "holds other files": [str(run), "--out", str(tmp_path / "other")],
        "holds the result of something else": [str(run), "--out", str(tmp_path / "compared")],
        "belongs to a single run": [str(run), "--out", str(run)],
        "does not run the fields of this network": [str(run), "--schemes", "macaron"],
        "give at least 1": [str(run), "--examples", "0"],
        "splitstep converge runs/digits": [],
    }
    for message, words in wrong.items():
        assert message in refusal(capsys, "converge", *words)


def test_a_run_without_weights_is_refused(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = RECIPES["image"] | {"train": {"steps": 40, "warmup": 0, "lr": 1e4, "clip": 0.0, "log_every": 1}}
    assert train(read_recipe(recipe, "the recipe"), tmp_path / "run", quiet=True).status == "diverged"
    assert "has no model: the run diverged" in refusal(capsys, "converge", tmp_path / "run")
    copied = shutil.copytree(run, tmp_path / "copied")
    (copied / "model" / "model.safetensors").unlink()
    assert "has no weights: put model.safetensors back, or train again" in refusal(capsys, "converge", copied)


@pytest.mark.parametrize(
    ("hits", "kind", "words"),
    [(256, "settled", "is close"), (100, "not supported", "is not close"), (243, "open", "may or")],
)
def test_the_interval_of_common_predictions_decides(found: Discretisation, hits: int, kind: str, words: str) -> None:
    verdict = discretisation_verdict(replace(found, shared=share_interval(hits / 256, 256)))
    assert verdict.kind == kind
    assert words in verdict.sentence


def test_a_network_stops_working_at_the_first_step_below_the_middle(found: Discretisation) -> None:
    own = [one for one in found.longer if one.scheme]
    accuracies = {0.5: 0.1, 1.0: 0.9, 2.0: 0.8, 4.0: 0.4}
    longer = tuple(one._replace(accuracy=accuracies[one.factor]) for one in own)
    made = replace(found, longer=longer, own=own[0]._replace(accuracy=0.9), majority=0.1)
    assert (made.middle, made.stops(upwards=True), made.stops(upwards=False)) == (0.5, 4.0, 0.5)
    assert "stops working at 0.5 times its step and at 4 times its step" in discretisation_verdict(made).sentence


@pytest.mark.parametrize(("hits", "n"), [(0, 10), (10, 10), (3, 50), (250, 256)])
def test_the_interval_of_a_share_is_wilsons(hits: int, n: int) -> None:
    from scipy.stats import binomtest

    wanted = binomtest(hits, n).proportion_ci(0.95, method="wilson")
    found = share_interval(hits / n, n)
    assert (found.low, found.high) == (pytest.approx(wanted.low), pytest.approx(wanted.high))
