"""Ablations: which arms there are, what is run, what is measured, what is concluded."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from commands import read_back
from made_up import ablation, about, outcome, trial

from splitstep.experiments.arms import ARMS, PAPER, find_arms, read_ablate, recipes_of
from splitstep.experiments.plan import entrants_of, plan
from splitstep.experiments.statistics import Bounds, estimate
from splitstep.experiments.study import STUDIES
from splitstep.report.drawing import document_to_page
from splitstep.studies.ablate import STUDY, ablate
from splitstep.studies.ablate.result import Ablation, ArmResult, Lost, claims_of
from splitstep.studies.ablate.study import check_rates, default_rates, equal_shapes, own_and_shared, runs_of
from splitstep.studies.ablate.watched import cka_layers, read_watched
from splitstep.studies.compare import compare
from splitstep.studies.compare.result import against
from splitstep.training import Recipe, RunDirectory, read_recipe
from splitstep.training.result import Divergence


def tiny(**entries: Any) -> Recipe:
    """A recipe of a fraction of a second."""
    document = {
        "task": "digits",
        "data": {"patch": 4},
        "model": {"layers": 2, "width": 16, "heads": 2, "ffn": 32},
        "train": {"steps": 4, "batch": 8, "warmup": 1, "lr": 1e-3, "evaluate_every": 2, "log_every": 1},
    }
    return read_recipe(document | entries, "test")


pytestmark = pytest.mark.usefixtures("inline")


# Arms


def test_arms_are_what_differs_from_the_recipe_the_full_one_first() -> None:
    assert list(find_arms(["no-norm", "full"], tiny())) == ["full", "no-norm"]
    assert find_arms(PAPER[1:], tiny()) == {
        "full": {},
        "no-residual": {"scheme": "=A =F"},
        "no-norm": {"model.norm": "none"},
        "neither": {"model.norm": "none", "scheme": "=A =F"},
    }
    recipes = recipes_of(tiny(match="none"), find_arms(list(ARMS), tiny()))
    assert set(recipes) == set(ARMS)
    assert [str(recipes[name].scheme) for name in PAPER] == ["A F", "=A =F", "A F", "=A =F"]
    assert [recipes[name].model.get("norm", "layer") for name in PAPER] == ["layer", "layer", "none", "none"]


def test_arms_of_a_recipe_s_own() -> None:
    document = {"task": "digits", "ablate": {"arms": {"deep": {"model.layers": 4}, "plain": {"scheme": "A+F"}}}}
    assert read_recipe(document, "x") == read_recipe({"task": "digits"}, "x")  # no part of a run
    options = read_ablate(document, "x")
    recipes = recipes_of(tiny(match="none"), find_arms(["deep", "plain"], tiny(), options.arms))
    assert (recipes["deep"].model["layers"], str(recipes["plain"].scheme)) == (4, "A+F")


@pytest.mark.parametrize(("names", "own", "says"), [
    (["xyz"], {}, 'there is no arm "xyz": the arms are full, no-residual'),
    (["deap"], {"deep": {"model.layers": 4}}, 'did you mean "deep"'),
    (["full", "full"], {}, "the arm full is listed twice"),
    (["a"], {"a": {"train.lr": 1.0}}, "the arm a sets train.lr, which must be the same for all arms"),
    (["a"], {"a": {"train.probe_batch": 8}}, "the arm a sets train.probe_batch, which must be the same"),
    (["a"], {"a": {"model.nrom": "rms"}}, 'the arm a: the model has no entry "nrom"; did you mean "norm"?'),
    (["a"], {"a": {"x.y.z": 1}}, "the arm a sets x.y.z: use entries such as"),
    (["a"], {"a": {}}, "the arms full and a are the same for this recipe"),
])  # fmt: skip
def test_a_wrong_arm_is_refused(names: list[str], own: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match="arm") as error:
        recipes_of(tiny(), find_arms(names, tiny(), own))
    assert says in str(error.value)


@pytest.mark.parametrize(("section", "says"), [
    ({"arm": {}}, 'has no entry "arm"; did you mean "arms"?'),
    ({"arms": {"a/b": {}}}, "an arm is called 'a/b'"),
    ({"seeds": "many"}, "seeds is 'many'"),
    (3, "needs entries of its own"),
])  # fmt: skip
def test_a_wrong_section_is_refused(section: Any, says: str) -> None:
    with pytest.raises(ValueError, match="x: ") as error:
        read_ablate({"ablate": section}, "x")
    assert says in str(error.value)


# Rates and runs


def test_rates_are_a_third_one_and_three_times_the_recipe_s() -> None:
    assert default_rates(tiny()) == (0.000333, 0.001, 0.003)
    assert check_rates([1e-3, 5e-4]) == (5e-4, 1e-3)


def test_each_arm_has_the_shape_of_the_recipe_s_own_network() -> None:
    macaron = tiny(scheme="macaron", match="parameters")
    task = macaron.load_task()
    recipe = equal_shapes(macaron, task)
    assert recipe.config(task).ffn == macaron.config(task).ffn != 32
    for arm in recipes_of(recipe, find_arms(PAPER, recipe)).values():
        assert arm.config(task).ffn == macaron.config(task).ffn


def test_no_run_is_planned_twice() -> None:
    recipes = recipes_of(tiny(match="none"), find_arms(PAPER, tiny()))
    own = {"full": 1e-3, "no-residual": 3e-3, "no-norm": 1e-3, "neither": 3e-3}
    runs = runs_of(recipes, own_and_shared(own), (0, 1, 2))
    assert len({run.folder for run in runs}) == len(runs) == 3 * (1 + 2 + 1 + 2)
    for arm, rate in own.items():
        of_arm = {(run.recipe.train.lr, run.seed) for run in runs if run.arm == arm}
        assert of_arm == {(lr, seed) for lr in {rate, 1e-3} for seed in (0, 1, 2)}


# A small study


def study(out: Path) -> Ablation:
    return ablate(tiny(), out, arms=("full", "no-norm"), rates=(1e-6, 3e-3), seeds=(0, 1, 2), quiet=True)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ablate")


@pytest.fixture(scope="module")
def result(out: Path) -> Ablation:
    return study(out)


def test_a_study_reads_back_what_it_wrote_and_keeps_its_runs(result: Ablation, out: Path) -> None:
    assert "no-norm" in result.save(out).read_text()
    assert read_back(out).json() == result.json()
    before = {file: file.stat().st_mtime_ns for file in out.glob("runs/*/result.json")}
    assert study(out).arms == result.arms
    assert {file: file.stat().st_mtime_ns for file in before} == before


def test_each_arm_s_own_rate_is_the_best_on_validation_with_the_first_seed(result: Ablation) -> None:
    assert [arm.name for arm in result.arms] == ["full", "no-norm"]
    for arm in result.arms:
        first = [one for one in result.trials if (one.arm, one.seed) == (arm.name, 0)]
        valid = {t.setting: (t.valid or {})["accuracy"] for t in first}
        best = min(valid, key=lambda setting: (-valid[setting], float(setting[0].removeprefix("train.lr="))))
        assert (f"train.lr={arm.own.rate:g}",) == best
        assert arm.shared.rate == result.arms[0].own.rate
        assert {t.seed for t in result.trials if (t.arm, t.setting) == (arm.name, best)} == {0, 1, 2}


def brute_force_cka(x: np.ndarray, y: np.ndarray) -> float:
    """By Gram matrices."""
    n = len(x)
    centre = np.eye(n) - np.ones((n, n)) / n
    k, m = centre @ x @ x.T @ centre, centre @ y @ y.T @ centre
    return float((k * m).sum() / np.sqrt((k * k).sum() * (m * m).sum()))


def test_figures_are_those_of_the_runs_files(result: Ablation, out: Path) -> None:
    full, other = result.arms
    seeds = (0, 1, 2)
    folders = {arm.name: f"{arm.name}-lr{arm.own.rate:g}" for arm in result.arms}
    last = {(arm, s): RunDirectory(out / f"runs/{name}-seed{s}") for arm, name in folders.items() for s in seeds}
    states = {key: one.tensors(4)["states/body.stack/tokens"].double().numpy() for key, one in last.items()}

    def cka(one: tuple[str, int], two: tuple[str, int]) -> float:
        return float(np.mean([brute_force_cka(states[one][i], states[two][i]) for i in (1, 2)]))

    aligned = [
        np.mean([cka(("no-norm", s), ("full", r)) - cka(("full", s), ("full", r)) for r in seeds if r != s])
        for s in seeds
    ]
    assert other.own.alignment == pytest.approx(estimate([float(one) for one in aligned]), rel=1e-2, abs=1e-4)
    assert full.own.alignment is None
    records = [[r for r in last["no-norm", s].logged() if r["split"] == "probe"] for s in seeds]
    drifts = [one[-1]["drift"]["body.stack"]["input"][-1] for one in records]
    assert other.own.drift == pytest.approx(estimate(drifts, bounds=Bounds(-1.0, 1.0)), rel=1e-3, abs=1e-4)
    norms = [[r["gradients"]["body.stack"]["x"] for r in one] for one in records]
    growth = [max((x[0] / x[-1]) ** (1 / 2) for x in one) for one in norms]
    assert other.own.growth == pytest.approx(estimate(growth, bounds=Bounds(0.0)), rel=1e-3, abs=1e-3)
    series = other.own.series["drift"]
    assert series.steps == (0, 1, 2, 3, 4)
    assert series.values[-1][-1] == pytest.approx(np.mean(drifts), rel=1e-3)
    assert np.shape(other.own.maps["kl"]) == np.shape(other.own.maps["jensen_shannon"]) == (2, 2)
    assert {one.name for one in result.replay} == {"no-residual", "no-norm", "neither"}
    assert all(one.cosine[0] is not None and one.cosine[0].mean == pytest.approx(1) for one in result.replay)


def test_an_arm_that_diverges_is_a_result(tmp_path: Path) -> None:
    wild = {"wild": {"train.clip": 0.0, "model.norm": "none", "model.step": 1e18}}
    result = ablate(tiny(), tmp_path, arms=("wild",), own_arms=wild, rates=(1e-3,), seeds=(0,), quiet=True)
    found = result.arms[1].own
    assert (found.finished, len(found.lost), found.not_finite, found.test) == (0, 1, 1, None)
    page = document_to_page(result.document())
    assert "1 of 1 diverged" in page
    assert "Runs that diverged" in page


# Arms of a comparison


def test_a_comparison_has_a_row_for_each_scheme_and_arm(tmp_path: Path) -> None:
    result = compare(tiny(), ["lie", "macaron"], (0,), tmp_path, arms=["full", "no-norm", "no-residual"], quiet=True)
    assert [(row.scheme, row.arm) for row in result.rows] == [
        ("A F", ""), ("A F", "no-norm"), ("=A =F", "no-residual"),
        ("F0/2 A F1/2", ""), ("F0/2 A F1/2", "no-norm"), ("=F0/2 =A =F1/2", "no-residual"),
    ]  # fmt: skip
    assert [row.name for row in result.rows][:3] == ["lie", "lie, no-norm", "=A =F, no-residual"]
    assert len({trial.folder for trial in result.trials}) == 6
    assert result.trials[0].folder == "runs/lie-seed0"  # as without arms
    assert result.rows[1].cost.parameters < result.rows[0].cost.parameters
    again = STUDIES["compare"].read(json.loads(json.dumps(result.json())), "there")
    assert again.rows == result.rows
    other = against(result, "lie, no-norm")
    assert (other.rows[0].name, other.rows[1].difference is None) == ("lie, no-norm", False)
    assert "lie, no-norm" in document_to_page(result.document())
    with pytest.raises(ValueError, match=r"--arms: .* would repeat"):
        plan(entrants_of(tiny(match="none"), ["lie", "=A =F"], ["no-residual"]), (0,), [])


# What is concluded


def drifting(without: Any, full: Any) -> dict[str, Any]:
    return {"no-residual": outcome(drift=without), "full": outcome(drift=full)}


def exploding(without: Any, full: Any) -> dict[str, Any]:
    return {"no-norm": without, "full": full}


def aligned(*figures: float | None) -> dict[str, Any]:
    found = [None if one is None else about(one) for one in figures]
    return {name: outcome(alignment=one) for name, one in zip(PAPER[1:], found, strict=True)}


CALM, WILD, OPEN = (outcome(growth=about(one)) for one in (2.0, 20.0, 10.0))
LOST = (Lost(0, Divergence(3, math.nan)),)
FEW = outcome(finished=1, lost=LOST * 2, not_finite=2, growth=about(2.0))
NONE = outcome(finished=0, lost=LOST * 3, not_finite=3)
GREW = outcome(finished=0, lost=LOST * 3, growth=about(2.0))  # its loss grew, but is finite


@pytest.mark.parametrize(("claim", "says", "outcomes"), [
    ("drift", "supported", drifting(about(0.02), about(0.5))),
    ("drift", "supported", drifting(about(0.02), about(0.11))),
    ("drift", "not supported", drifting(about(0.2), about(0.5))),
    ("drift", "not supported", drifting(about(0.02), about(0.02))),  # residuals do not prevent drift
    ("drift", "not supported", drifting(about(0.11), about(0.5))),  # at the limit it is not drift
    ("drift", "undecided", drifting(about(0.095), about(0.5))),
    ("drift", "undecided", drifting(about(0.02), about(0.105))),
    ("drift", "undecided", drifting(about(0.02, None), about(0.5))),  # no interval decides nothing
    ("drift", "undecided", drifting(about(0.02), None)),
    ("explosion", "supported", exploding(WILD, CALM)),
    ("explosion", "supported", exploding(NONE, CALM)),
    ("explosion", "undecided", exploding(FEW, CALM)),
    ("explosion", "not supported", exploding(CALM, CALM)),
    ("explosion", "not supported", exploding(WILD, WILD)),  # the full arm explodes too
    ("explosion", "undecided", exploding(OPEN, CALM)),
    ("explosion", "undecided", exploding(WILD, OPEN)),
    ("explosion", "not supported", exploding(GREW, CALM)),
    ("alignment", "supported", aligned(-0.1, -0.2, -0.3)),  # all three arms decide
    ("alignment", "not supported", aligned(-0.1, -0.2, 0.02)),
    ("alignment", "undecided", aligned(-0.1, -0.2, 0.0)),
    ("alignment", "undecided", aligned(-0.1, -0.2, None)),
])  # fmt: skip
def test_claims_are_decided_by_the_intervals_of_their_arms(claim: str, says: str, outcomes: dict[str, Any]) -> None:
    """Arms that are not given have figures that decide nothing."""
    found = [ArmResult(arm, "A F", {}, *[outcomes.get(arm, outcome())] * 2) for arm in PAPER]
    [one] = [one for one in claims_of(found) if one.name == claim]
    assert one.ruling == says
    assert (one.ruling, one.number) == (one.at_shared_rate, one.number_at_shared_rate)


def test_a_claim_about_an_arm_that_was_not_run_is_undecided() -> None:
    [drift, explosion, alignment] = claims_of([ArmResult("full", "A F", {}, outcome(), outcome())])
    assert {drift.ruling, explosion.ruling, alignment.ruling} == {"undecided"}
    assert alignment.number == "not run: no-residual, no-norm, neither"


# What is shown


@pytest.mark.parametrize("lost", ["", "no-norm", "full"])
def test_the_page_shows_every_analysis_and_says_what_diverged(lost: str) -> None:
    found = ablation(lost=lost)
    again = STUDY.read(json.loads(json.dumps(found.json(), allow_nan=False)), "there")
    page = re.sub(r"<script>.*?</script>", "", document_to_page(again.document()), count=1, flags=re.DOTALL)
    for name in ("Drift", "Gradients", "Information plane", "Attention", "Representations", "Sensitivity", "Replay"):
        assert name in page
    assert all(f"{claim.text}: {claim.ruling}" in page for claim in found.claims)
    assert "NaN" not in page
    assert ("3 of 3 diverged" in page) == bool(lost)
    assert ("Runs that diverged" in page) == bool(lost)


def test_several_ablations_share_a_table_of_claims_and_one_of_arms() -> None:
    one, two = ablation(), ablation(lost="no-norm")
    [claims, arms] = STUDY.tables([("here", one), ("there", two)])
    assert [column.head for column in claims.columns] == ["claim", "digits (here)", "digits (there)"]
    assert [row[1:] for row in claims.rows] == [
        [here.ruling, there.ruling] for here, there in zip(one.claims, two.claims, strict=True)
    ]
    named = [[(f"digits ({folder})", "accuracy"), "", "", ""] for folder in ("here", "there")]
    assert [row[0] for row in arms.rows] == [*named[0], *named[1]]
    assert any("3 of 3 diverged" in row[3] for row in arms.rows)
    assert [table.name for table in STUDY.tables([("here", one)])] == [table.name for table in one.document().tables]


def test_a_result_is_small_even_for_a_deep_network_and_many_runs() -> None:
    assert len(json.dumps(ablation(layers=12, seeds=5).json(), indent=2)) < 1_000_000


# What is measured


def test_a_layer_of_equal_states_has_no_cka_with_any_other_and_infinite_states_have_none_at_all() -> None:
    x = torch.randn(3, 8, 4, generator=torch.Generator().manual_seed(0))
    y = x.clone()
    y[1], y[2] = 1.0, torch.inf
    found = cka_layers(x, y)
    assert found == (pytest.approx(1.0), 0.0, pytest.approx(math.nan, nan_ok=True))
    assert all(map(math.isnan, cka_layers(x, torch.randn(3, 7, 4)))), "states of other tokens"


def test_tensors_of_a_translator_are_its_decoder_s_as_its_figures_are(tmp_path: Path) -> None:
    stacks = {"encoder.body.stack": 0.0, "decoder.stack": 1.0}
    RunDirectory(tmp_path).write_tensors(0, {f"states/{s}/tokens": torch.full((2, 3, 4), v) for s, v in stacks.items()})
    figures = {name: {"input": [value]} for name, value in stacks.items()}
    (tmp_path / "metrics.jsonl").write_text(json.dumps({"step": 0, "split": "probe", "drift": figures}) + "\n")
    seen = read_watched(replace(trial("A F", 0, 0.5), folder="."), tmp_path)
    assert seen.last("drift") == (1.0,)
    found = seen.tensor("states", "tokens")
    assert found.unique().tolist() == [1.0]
