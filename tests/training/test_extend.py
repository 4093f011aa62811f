"""A run that has finished goes on to more steps in its directory, and no other change of its recipe is taken."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from children import RECIPE, Child, everything, killed, lines, trained
from safetensors.torch import load_file

from splitstep.training import read_recipe, train


def with_steps(steps: int, **entries: Any) -> dict[str, Any]:
    """A recipe whose first steps do not depend on how many there are."""
    return {**RECIPE, "train": {**RECIPE["train"], "schedule": "constant", "steps": steps, **entries}}


def weights(out: Path) -> dict[str, bytes]:
    """All tensors of the newest checkpoint but those that were kept."""
    folder = max((out / "checkpoints").iterdir())
    files = [folder / "model.safetensors", folder / "optimizer.safetensors", folder / "rng.safetensors"]
    return {f"{file.stem}/{name}": x.numpy().tobytes() for file in files for name, x in load_file(file).items()}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("finished") / "run"
    trained(with_steps(7), out)
    return out


def copied(finished: Path, tmp_path: Path, name: str = "run") -> Path:
    return Path(shutil.copytree(finished, tmp_path / name))


def test_an_extended_run_is_one_of_as_many_steps(finished: Path, tmp_path: Path, capsys: Any) -> None:
    """Bit for bit, with a schedule that does not depend on the steps; the first result is kept beside the new one."""
    out = copied(finished, tmp_path)
    first = (out / "result.json").read_text()
    result = train(read_recipe(with_steps(12), "recipe"), out)
    begins = capsys.readouterr().err.splitlines()[0]
    assert begins.endswith(", extended from 7 to 12 steps; the schedule is now that of 12")
    trained(with_steps(12), tmp_path / "whole")
    assert weights(out) == weights(tmp_path / "whole")
    assert (result.steps, result.recipe["train"]["steps"]) == (12, 12)
    assert (out / "result-7.json").read_text() == first
    evaluated = [r["step"] for r in lines(out) if r["split"] == "valid"]
    assert evaluated == [4, 7, 8, 12]
    again = trained(with_steps(12), out)
    assert again == result
    trained(with_steps(13), out)
    assert sorted(p.name for p in out.glob("result*.json")) == ["result-12.json", "result-7.json", "result.json"]


@pytest.mark.parametrize("points", [(6, 16), pytest.param(range(1, 40), marks=pytest.mark.nightly)])
def test_an_extended_run_that_is_killed_goes_on(points: Sequence[int], finished: Path, tmp_path: Path) -> None:
    """Before any file operation, those of the extension too: the same bits as one that was never killed."""
    whole = copied(finished, tmp_path, "whole")
    _, operations = Child(with_steps(12), whole).result()
    for kill_at in (*points, operations // 2, operations - 5):
        out = copied(finished, tmp_path, str(kill_at))
        killed(with_steps(12), out, kill_at)
        trained(with_steps(12), out)
        assert everything(out) == everything(whole), kill_at
        assert (out / "result-7.json").read_text() == (whole / "result-7.json").read_text()


def test_the_mean_is_over_snapshots_of_the_extension_alone(tmp_path: Path) -> None:
    """Its snapshots would begin at step 6, before the end of the first run."""
    entries = {"keep": "average", "average": 3, "average_every": 2}
    out = tmp_path / "run"
    assert trained(with_steps(7, **entries), out).kept.steps == [3, 5, 7]
    assert trained(with_steps(10, **entries), out).kept.steps == [8, 10]
    one = {"keep": "average", "average": 1, "average_every": 1}
    means = []
    for steps in (8, 10):
        trained(with_steps(steps, **one), tmp_path / str(steps))
        means.append(load_file(tmp_path / str(steps) / "model" / "model.safetensors"))
    found = load_file(out / "model" / "model.safetensors")
    for name, x in found.items():
        assert (x.double() - (means[0][name].double() + means[1][name].double()) / 2).abs().max() < 1e-7


@pytest.mark.parametrize(
    "document",
    [with_steps(6), with_steps(12, seed=1), with_steps(12, lr=0.5), {**with_steps(12), "scheme": "macaron"}],
    ids=["fewer steps", "another seed", "another rate", "another scheme"],
)
def test_all_other_changes_are_refused(document: dict[str, Any], finished: Path, tmp_path: Path) -> None:
    out = copied(finished, tmp_path)
    before = everything(out)
    with pytest.raises(ValueError, match="belongs to another run"):
        trained(document, out)
    assert everything(out) == before


def test_a_run_that_has_not_finished_is_not_extended(finished: Path, tmp_path: Path) -> None:
    out = copied(finished, tmp_path)
    (out / "result.json").unlink()
    with pytest.raises(ValueError, match="belongs to another run"):
        trained(with_steps(12), out)
    diverged = {"lr": 1e30, "clip": 0.0}
    assert trained(with_steps(7, **diverged), tmp_path / "diverged").status == "diverged"
    with pytest.raises(ValueError, match="belongs to another run"):
        trained(with_steps(12, **diverged), tmp_path / "diverged")


def test_an_extension_that_cannot_begin_leaves_the_finished_run(finished: Path, tmp_path: Path) -> None:
    """The data are others now: the result is still there, and the recipe is that of the first steps."""
    out = copied(finished, tmp_path)
    environment = json.loads((out / "environment.json").read_text())
    environment["data"]["sha256"]["train"] = "0" * 64
    (out / "environment.json").write_text(json.dumps(environment))
    before = everything(out)
    with pytest.raises(ValueError, match="began with other data"):
        trained(with_steps(12), out)
    assert everything(out) == before
    assert trained(with_steps(7), out).steps == 7
