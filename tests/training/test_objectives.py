"""Training minimises what the recipe names, in every mode, and the task's own loss is one objective among others."""

import json
from pathlib import Path
from typing import Any

import objectives
import pytest
import torch
from children import RECIPE, check_killed, everything, newest, stored, together, trained
from gpu import GPU
from safetensors.torch import load_file
from torch import Tensor

from splitstep.models import SplitstepForImageClassification

PROJECT = {"name": "project", "weight": 0.5}


def recipe(objective: Any, **train: Any) -> dict[str, Any]:
    return {**RECIPE, "objective": objective, "train": {**RECIPE["train"], **train}}


def tensors(out: Path) -> dict[str, Any]:
    return everything(out)["tensors"]


CAPTURED = [{"mode": x, "precision": y} for x in ("capture", "compile+capture") for y in ("float32", "bfloat16")]


@pytest.mark.parametrize("options", [
    {"accumulate": 1},
    {"accumulate": 4, "precision": "bfloat16"},
    *(pytest.param(x, marks=pytest.mark.nightly) for x in ({"parallel": "ddp"}, {"parallel": "fsdp"})),
    pytest.param({"mode": "compile"}, marks=pytest.mark.nightly),
    *(pytest.param(options, marks=GPU) for options in CAPTURED),
], ids=str)  # fmt: skip
def test_an_objective_that_repeats_the_tasks_loss_changes_no_bit(options: dict[str, Any], tmp_path: Path) -> None:
    for objective in ("task", "repeat"):
        document, out = recipe(objective, **options), tmp_path / objective
        if "parallel" in options:
            assert [child.result() for child in together(document, out, 2)]
        else:
            trained(document, out)
    assert tensors(tmp_path / "task") == tensors(tmp_path / "repeat")


@GPU
def test_captured_updates_learn_what_eager_ones_learn(tmp_path: Path) -> None:
    """The objective's own parameters and buffers as well; warming up leaves no trace in them."""
    found = {}
    for mode in ("eager", "capture"):
        trained(recipe(PROJECT, mode=mode, precision="float32"), tmp_path / mode)
        found[mode] = own(tmp_path / mode)
    assert found["eager"].keys() == found["capture"].keys()
    for name, x in found["eager"].items():
        torch.testing.assert_close(found["capture"][name], x, rtol=1e-4, atol=1e-6)


def own(out: Path) -> dict[str, Tensor]:
    """What the newest checkpoint keeps of an objective."""
    return stored(newest(out))["objective"]


def test_an_objective_learns_its_own_parameters(tmp_path: Path) -> None:
    """They come nearer to the teacher's, which nothing changes; the model is as without them: it gets no gradient."""
    for name, objective in (("run", PROJECT), ("task", "task")):
        rare = {"evaluate_every": 60, "checkpoint_seconds": 1e6}
        trained(recipe(objective, steps=60, lr=0.02, clip=0.0, **rare), tmp_path / name)
    learned = own(tmp_path / "run")
    assert {name for name in learned if ":" not in name} == {"projector.weight", "projector.bias", "steps"}
    assert {name for name in learned if ":" in name} == {
        f"projector.{x}:{y}" for x in ("weight", "bias") for y in ("step", "exp_avg", "exp_avg_sq")
    }
    assert float(learned["steps"]) == 60 * RECIPE["train"]["accumulate"]
    torch.manual_seed(0)
    begun = objectives.Projected(10, 0.5)

    def distance(bias: Tensor) -> float:
        return float((bias.detach() - begun.teacher.bias).norm())

    assert distance(learned["projector.bias"]) < 0.5 * distance(begun.projector.bias)
    with_objective, alone = tensors(tmp_path / "run"), tensors(tmp_path / "task")
    assert alone == {name: x for name, x in with_objective.items() if "/objective" not in name}


@pytest.mark.parametrize(
    ("processes", "parallel"),
    [(1, "auto"), *(pytest.param(2, parallel, marks=pytest.mark.nightly) for parallel in ("ddp", "fsdp"))],
)
def test_what_it_learns_is_resumed_and_not_exported(processes: int, parallel: str, tmp_path: Path) -> None:
    document = recipe(PROJECT, parallel=parallel)
    check_killed(document, tmp_path, 2 / 3, processes)
    model = SplitstepForImageClassification.from_pretrained(tmp_path / "whole" / "model")
    exported = load_file(tmp_path / "whole" / "model" / "model.safetensors")
    assert exported.keys() == dict(model.named_parameters()).keys()
    assert "objective" not in json.dumps(model.config.to_dict())


def test_options_that_an_objective_lacks_are_one_line(tmp_path: Path) -> None:
    """And the directory is free for the recipe put right."""
    for objective, message in (
        ({"name": "task", "weight": 2}, 'the objective "task" has no options, but weight is given'),
        ({"name": "project"}, "has the option weight, and nothing is given"),
    ):
        with pytest.raises(ValueError, match=message):
            trained({**RECIPE, "objective": objective}, tmp_path / "run")
        assert not (tmp_path / "run").exists()
