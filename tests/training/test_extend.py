"""A run that has finished goes on to more steps in its directory, and no other change of its recipe is taken."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from children import RECIPE, Child, everything, killed, lines, run
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
    run(with_steps(7), out)
    return out


def copied(finished: Path, tmp_path: Path, name: str = "run") -> Path:
    return Path(shutil.copytree(finished, tmp_path / name))


def test_an_extended_run_is_one_of_as_many_steps(finished: Path, tmp_path: Path) -> None:
    """Bit for bit, with a schedule that does not depend on the steps; the first result is kept beside the new one."""
    out = copied(finished, tmp_path)
    first = (out / "result.json").read_text()
    result = run(with_steps(12), out)
    run(with_steps(12), tmp_path / "whole")
    assert weights(out) == weights(tmp_path / "whole")
    assert (result.steps, result.recipe["train"]["steps"]) == (12, 12)
    assert (out / "result-7.json").read_text() == first
    assert read_recipe(json.loads(json.dumps(result.recipe)), "again").train.steps == 12
    evaluated = [r["step"] for r in lines(out) if r["split"] == "valid"]
    assert evaluated == [4, 7, 8, 12]
    again = run(with_steps(12), out)
    assert again == result
    run(with_steps(13), out)
    assert sorted(p.name for p in out.glob("result*.json")) == ["result-12.json", "result-7.json", "result.json"]


def test_the_first_line_says_that_the_schedule_is_another(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(read_recipe(with_steps(9), "recipe"), copied(finished, tmp_path))
    first = capsys.readouterr().err.splitlines()[0]
    assert first.endswith(", extended from 7 to 9 steps; the schedule is now that of 9")


@pytest.mark.parametrize("share", [0.05, 0.1, 0.2, 0.5, 0.8, 0.95])
def test_an_extended_run_that_is_killed_goes_on(share: float, finished: Path, tmp_path: Path) -> None:
    """Before any file operation, those of the extension too: the same bits as one that was never killed."""
    whole, out = copied(finished, tmp_path, "whole"), copied(finished, tmp_path)
    _, operations = Child(with_steps(12), whole).result()
    killed(with_steps(12), out, round(share * operations))
    run(with_steps(12), out)
    assert everything(out) == everything(whole)
    assert (out / "result-7.json").read_text() == (whole / "result-7.json").read_text()


@pytest.mark.slow
def test_an_extension_that_is_killed_in_its_beginnings_goes_on(finished: Path, tmp_path: Path) -> None:
    whole = copied(finished, tmp_path, "whole")
    run(with_steps(12), whole)
    for kill_at in range(1, 40):
        out = copied(finished, tmp_path, str(kill_at))
        killed(with_steps(12), out, kill_at)
        run(with_steps(12), out)
        assert everything(out) == everything(whole), kill_at


def test_the_mean_is_over_snapshots_of_the_extension_alone(tmp_path: Path) -> None:
    """Its snapshots would begin at step 6, before the end of the first run."""
    entries = {"keep": "average", "average": 3, "average_every": 2}
    out = tmp_path / "run"
    assert run(with_steps(7, **entries), out).kept.steps == [3, 5, 7]
    assert run(with_steps(10, **entries), out).kept.steps == [8, 10]
    one = {"keep": "average", "average": 1, "average_every": 1}
    means = []
    for steps in (8, 10):
        run(with_steps(steps, **one), tmp_path / str(steps))
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
        run(document, out)
    assert everything(out) == before


def test_a_run_that_has_not_finished_is_not_extended(finished: Path, tmp_path: Path) -> None:
    out = copied(finished, tmp_path)
    (out / "result.json").unlink()
    with pytest.raises(ValueError, match="belongs to another run"):
        run(with_steps(12), out)
    out = tmp_path / "diverged"
    assert run(with_steps(7, lr=1e30, clip=0.0), out).status == "diverged"
    with pytest.raises(ValueError, match="belongs to another run"):
        run(with_steps(12, lr=1e30, clip=0.0), out)


def test_an_extension_that_cannot_begin_leaves_the_finished_run(finished: Path, tmp_path: Path) -> None:
    """The data are others now: the result is still there, and the recipe is that of the first steps."""
    out = copied(finished, tmp_path)
    environment = json.loads((out / "environment.json").read_text())
    environment["data"]["sha256"]["train"] = "0" * 64
    (out / "environment.json").write_text(json.dumps(environment))
    before = everything(out)
    with pytest.raises(ValueError, match="began with other data"):
        run(with_steps(12), out)
    assert everything(out) == before
    assert run(with_steps(7), out).steps == 7
