"""What probes find is recorded when the recipe says so, on the same examples, and survives an interruption."""

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from children import NUMBERS, RECIPE, Child, everything, lines
from safetensors.torch import load_file

from splitstep.models import SplitstepForImageClassification
from splitstep.probes import observe
from splitstep.training import read_recipe, train
from splitstep.training.directory import RunDirectory
from splitstep.training.objective import first_examples

OFTEN: dict[str, Any] = {
    **RECIPE,
    "probes": ["drift", "states", "gradients"],
    "train": {**RECIPE["train"], "probe_every": 2, "probe_batch": 5},
}


def probed(out: Path) -> list[dict[str, Any]]:
    return [record for record in lines(out) if record["split"] == "probe"]


def tensors(out: Path) -> dict[str, dict[str, bytes]]:
    """The tensors of each file as bytes."""
    files = sorted((out / "probes").iterdir())
    return {f.name: {name: x.numpy().tobytes() for name, x in load_file(f).items()} for f in files}


def test_numbers_are_logged_and_tensors_are_files(tmp_path: Path) -> None:
    """Before the first update, every `probe_every` steps, and after the last: what `observe` finds in the first
    examples with the weights of that step."""
    given = read_recipe(OFTEN, "r")
    train(given, tmp_path / "run", quiet=True)
    assert [record["step"] for record in probed(tmp_path / "run")] == [0, 2, 4, 6, 7]
    assert RunDirectory(tmp_path / "run").tensor_steps() == [0, 2, 4, 6, 7]
    assert {f.name for f in (tmp_path / "run" / "probes").iterdir()} == {
        f"step-{step:08d}.safetensors" for step in (0, 2, 4, 6, 7)
    }
    model = SplitstepForImageClassification.from_pretrained(tmp_path / "run" / "model").eval()
    found = observe(model, first_examples(given.load_task(), 5), given.probes)
    best = max((r for r in lines(tmp_path / "run") if r["split"] == "valid"), key=lambda r: r["accuracy"])["step"]
    [record] = [one for one in probed(tmp_path / "run") if one["step"] == best]
    stored = RunDirectory(tmp_path / "run").tensors(best)
    for probe, stacks in found.items():
        for series, value in stacks["body.stack"].items():
            if isinstance(value, torch.Tensor):
                torch.testing.assert_close(stored[f"{probe}/body.stack/{series}"], value, rtol=1e-3, atol=1e-3)
                assert series not in record[probe]["body.stack"]
            else:
                assert record[probe]["body.stack"][series] == pytest.approx(list(value), rel=1e-4)


@pytest.mark.slow
def test_a_killed_run_ends_with_the_same_records(tmp_path: Path) -> None:
    """Killed at a few of its file operations, before the first checkpoint and after."""
    whole, operations = Child(OFTEN, tmp_path / "whole").result()
    assert whole is not None
    expected = everything(tmp_path / "whole")["metrics"], tensors(tmp_path / "whole")
    for number in range(4, operations, max(1, operations // 3)):
        out = tmp_path / f"killed-{number}"
        assert Child(OFTEN, out, number).wait() == -9
        Child(OFTEN, out).result()
        assert (everything(out)["metrics"], tensors(out)) == expected


def test_what_was_recorded_after_the_checkpoint_is_dropped(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    for step in (0, 3, 6):
        directory.write_tensors(step, {"states/stack/pooled": torch.full((2,), float(step))})
        directory.log({"step": step, "split": "probe"})
    directory.rewind(3)
    assert directory.tensor_steps() == [record["step"] for record in directory.logged()] == [0, 3]
    assert directory.tensors(3)["states/stack/pooled"].tolist() == [3.0, 3.0]
    with pytest.raises(ValueError, match=r"has no tensors of probes at step 6; the steps that have: 0, 3$"):
        directory.tensors(6)
    directory.rewind(0)  # there is no checkpoint of step 0: the run begins again
    assert directory.tensor_steps() == directory.logged() == []


def test_a_translator_is_watched_on_as_many_examples(tmp_path: Path) -> None:
    """Its batches are counted in tokens."""
    task = read_recipe({**NUMBERS, "data": {**NUMBERS["data"], "valid": 60}}, "r").load_task()
    assert len(next(task.batches("valid", 16))["labels"]) < 16
    assert len(first_examples(task, 16)["labels"]) == 16
    most = max(len(batch["labels"]) for batch in task.batches("valid", 10**6))
    assert len(first_examples(task, 10**4)["labels"]) == most


def test_a_run_of_a_version_without_these_options_is_recognised(tmp_path: Path) -> None:
    given = read_recipe(RECIPE, "r")
    first = train(given, tmp_path / "run", quiet=True)
    file = tmp_path / "run" / "recipe.yaml"
    document = yaml.safe_load(file.read_text())
    assert document["train"].pop("probe_every") == document["train"].pop("probe_batch") == 0
    file.write_text(yaml.safe_dump(document))
    assert train(given, tmp_path / "run", quiet=True) == first
    with pytest.raises(ValueError, match="belongs to another run"):
        train(read_recipe({**RECIPE, "train": {**RECIPE["train"], "probe_every": 3}}, "r"), tmp_path / "run")


def test_intervals_below_zero_are_one_line() -> None:
    with pytest.raises(ValueError, match=r"option probe_every is -1"):
        read_recipe({**RECIPE, "train": {"probe_every": -1}}, "r")
