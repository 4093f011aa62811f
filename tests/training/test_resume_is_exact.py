"""A run that is killed at any moment and started again ends exactly as one that never was."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import children
import pytest
from children import NUMBERS, RECIPE, Child, everything, killed, lines, newest, run
from safetensors.torch import load_file, save_file

from splitstep.support import files
from splitstep.training import checkpoint, read_recipe, tensor_file, train
from splitstep.training.directory import RunDirectory
from splitstep.training.processes import Processes
from splitstep.training.weights import pieces


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], int]:
    """What a run without any kill leaves, and its number of file operations."""
    out = tmp_path_factory.mktemp("whole") / "run"
    _, operations = Child(RECIPE, out).result()
    return everything(out), operations


def test_the_run_is_worth_killing(whole: tuple[dict[str, Any], int]) -> None:
    """It logs, evaluates, saves within intervals, keeps a best and finishes with a model."""
    found, operations = whole
    assert [(r["step"], r["split"]) for r in found["metrics"]] == [
        (3, "train"), (4, "train"), (4, "valid"), (6, "train"), (7, "train"), (7, "valid"),
    ]  # fmt: skip
    assert found["hidden"] == []
    assert any("best" in name for name in found["tensors"])
    assert any(name.startswith("model/model.safetensors") for name in found["tensors"])
    assert operations > 100


def test_checkpoints_change_nothing(whole: tuple[dict[str, Any], int], tmp_path: Path) -> None:
    """One after each update, or one at the end: the same weights and records."""
    expected, _ = whole
    run({**RECIPE, "train": {**RECIPE["train"], "checkpoint_seconds": 1e6}}, tmp_path / "run")
    found = everything(tmp_path / "run")
    assert found["tensors"] == expected["tensors"]
    assert found["metrics"] == expected["metrics"]


@pytest.mark.parametrize("share", [0.03, 0.45, 0.85, 0.95, 0.99])
def test_killed_before_a_file_operation(share: float, whole: tuple[dict[str, Any], int], tmp_path: Path) -> None:
    expected, operations = whole
    killed(RECIPE, tmp_path / "run", round(share * operations))
    run(RECIPE, tmp_path / "run")
    assert everything(tmp_path / "run") == expected


@pytest.mark.slow
def test_killed_before_any_file_operation(whole: tuple[dict[str, Any], int], tmp_path: Path) -> None:
    """Every operation of the first checkpoints and of the end, and every third of those between; each run continues
    in this process."""
    expected, operations = whole
    chosen = [n for n in range(1, operations + 1) if n < 40 or n > operations - 40 or n % 3 == 0]
    wrong = []
    for n in chosen:
        out = tmp_path / str(n)
        killed(RECIPE, out, n)
        train(read_recipe(RECIPE, "recipe"), out, quiet=True)
        wrong += [n] if everything(out) != expected else []
    assert wrong == []


@pytest.mark.slow
def test_killed_again_and_again(whole: tuple[dict[str, Any], int], tmp_path: Path) -> None:
    expected, operations = whole
    out, kills = tmp_path / "run", 0
    while Child(RECIPE, out, operations // 4).wait() == -signal.SIGKILL:
        kills += 1
        assert kills < 40
    assert kills >= 3
    assert everything(out) == expected


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], int, dict[str, str]]:
    """A translator that was never killed, its number of file operations, and where its text is prepared."""
    folder = tmp_path_factory.mktemp("translator")
    environment = {"SPLITSTEP_CACHE": str(folder / "cache")}
    run(NUMBERS, folder / "first", environment)  # prepares the text
    _, operations = Child(NUMBERS, folder / "run", environment=environment).result()
    return everything(folder / "run"), operations, environment


def test_a_translator_is_a_function_of_its_recipe(
    translator: tuple[dict[str, Any], int, dict[str, str]], tmp_path: Path
) -> None:
    """The same seed, the same weights, scores and translations; another seed, others."""
    expected, _, environment = translator
    run(NUMBERS, tmp_path / "run", environment)
    assert everything(tmp_path / "run") == expected
    assert expected["translations"].keys() == {"valid.txt", "test.txt"}
    assert expected["result"]["kept"] == {"by": "average", "steps": [5, 7, 9]}
    run({**NUMBERS, "train": {**NUMBERS["train"], "seed": 1}}, tmp_path / "other", environment)
    assert everything(tmp_path / "other")["translations"] != expected["translations"]


@pytest.mark.parametrize(
    "share", [0.3, 0.6, 0.75, *(pytest.param(x, marks=pytest.mark.nightly) for x in (0.5, 0.7, 0.8, 0.85, 0.95, 0.99))]
)
def test_a_translator_killed_before_a_file_operation(
    share: float, translator: tuple[dict[str, Any], int, dict[str, str]], tmp_path: Path
) -> None:
    """Between snapshots, in the middle of an epoch, while translations are written: the same bits."""
    expected, operations, environment = translator
    out = tmp_path / "run"
    killed(NUMBERS, out, round(share * operations), environment=environment)
    assert not (out / "result.json").exists()
    run(NUMBERS, out, environment)
    assert everything(out) == expected


def test_a_lost_sum_is_named(translator: tuple[dict[str, Any], int, dict[str, str]], tmp_path: Path) -> None:
    """A run whose snapshots are gone does not go on without them."""
    _, operations, environment = translator
    out = tmp_path / "run"
    killed(NUMBERS, out, operations * 9 // 10, environment=environment)
    kept = list(out.glob("checkpoints/step-*/sum.safetensors"))
    assert len(kept) == 2
    for file in kept:
        file.unlink()
    with pytest.raises(
        ValueError, match=r"is damaged \(FileNotFoundError: .*sum\.safetensors.*and so is the one before"
    ):
        run(NUMBERS, out, environment)


def test_killed_by_the_clock_between_checkpoints(whole: tuple[dict[str, Any], int], tmp_path: Path) -> None:
    """With checkpoints far apart a kill costs work, and nothing else."""
    document = {**RECIPE, "train": {**RECIPE["train"], "steps": 200, "checkpoint_seconds": 0.15}}
    out, reference = tmp_path / "run", tmp_path / "reference"
    run(document, reference)
    child = Child(document, out)
    while not list(out.glob("checkpoints/step-*")):
        assert child.process.is_alive()
        time.sleep(0.005)
    child.process.kill()
    assert child.wait() == -signal.SIGKILL
    assert not (out / "result.json").exists()
    run(document, out)
    assert everything(out) == everything(reference)


@pytest.mark.slow
def test_another_kill_point_would_be_noticed(whole: tuple[dict[str, Any], int], tmp_path: Path) -> None:
    """The comparison sees a single bit of a weight, of a moment and of a metric."""
    expected, operations = whole
    for group in ("model", "optimizer"):
        out = tmp_path / group
        killed(RECIPE, out, operations // 2)
        [file] = sorted(out.glob(f"checkpoints/step-*/{group}.safetensors"))[-1:]
        tensors = load_file(file)
        name = next(n for n, x in tensors.items() if x.ndim == 2)
        tensors[name].view(-1)[0] += 1e-3
        save_file(tensors, file)
        document = json.loads((file.parent / "state.json").read_text())
        del document["crc32"]
        document["files"][file.name]["crc32"] = tensor_file.checksum_of(file)
        checkpoint.write_state(file.parent / "state.json", document)
        run(RECIPE, out)
        assert everything(out)["tensors"] != expected["tensors"]


class Boom(Exception):
    pass


STAGES = [
    (files.shutil, "rmtree"), (files.Path, "mkdir"), (checkpoint, "write_tensors"), (tensor_file, "contents"),
    (files.Path, "write_text"), (files, "fsync"), (files.os, "rename"), (checkpoint, "remove"),
]  # fmt: skip


@pytest.mark.parametrize(("owner", "name"), STAGES, ids=[name for _, name in STAGES])
@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_failure_at_any_stage_leaves_a_whole_checkpoint(
    owner: Any, name: str, call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever raises in `save_checkpoint`, and whenever, what can be read is the old one or the new one."""
    import torch

    alone = Processes(0, 1, torch.device("cpu"))

    def save(step: int) -> None:
        groups = {"model": {"x": torch.full((3,), float(step))}, "rng": {"y": torch.ones(1)}}
        shares = {name: pieces(group) for name, group in groups.items()}
        checkpoint.save_checkpoint(tmp_path, step, {"step": step}, shares, alone, 2)

    save(1)
    save(2)
    original, calls = getattr(owner, name), []

    def fail(*arguments: Any, **named: Any) -> Any:
        calls.append(name)
        if len(calls) == call:
            raise Boom
        return original(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, fail)
        try:
            save(3)
        except Boom:
            assert len(calls) >= call
    files.sweep(tmp_path)
    found = checkpoint.list_checkpoints(tmp_path)
    for path in found:
        kept, x = checkpoint.CheckpointReader(path, alone), torch.zeros(3)
        kept.fill("model", pieces({"x": x}))
        assert path.name == f"step-{kept.state['step']:09d}"
        assert x.tolist() == [kept.state["step"]] * 3
        assert sorted(kept.groups) == ["model", "rng"]
    last = [int(path.name[-1]) for path in found][-2:]
    assert last in ([1, 2], [2, 3])
    save(4)
    assert sorted(p.name[-1] for p in tmp_path.iterdir()) == [str(last[1]), "4"]


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-7])


def stretch(file: Path) -> None:
    tensors = load_file(file)
    name = next(n for n, x in tensors.items() if x.ndim == 2)
    save_file({**tensors, name: tensors[name][:1].contiguous()}, file)


def flip(share: float) -> Callable[[Path], None]:
    """Turns one bit over, at this share of a file's length."""

    def act(file: Path) -> None:
        data = bytearray(file.read_bytes())
        data[int(share * len(data))] ^= 4
        file.write_bytes(data)

    return act


DAMAGES: list[tuple[str, Callable[[Path], Any]]] = [
    ("model.safetensors", cut), ("optimizer.safetensors", cut), ("state.json", cut), ("model.safetensors", stretch),
    ("model.safetensors", Path.unlink), ("state.json", Path.unlink),
    ("state.json", lambda file: file.write_text('{"step": 3}')),
    *((name, flip(share)) for name in ("model", "optimizer", "best", "rng") for name in (f"{name}.safetensors",)
      for share in (0.0, 0.5, 0.999)),
    ("state.json", flip(0.1)), ("state.json", flip(0.5)), ("state.json", flip(0.97)),
]  # fmt: skip


@pytest.fixture(scope="module")
def half_way(whole: tuple[dict[str, Any], int], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was killed after several checkpoints."""
    out = tmp_path_factory.mktemp("half") / "run"
    killed(RECIPE, out, whole[1] * 3 // 4)
    assert (newest(out) / "best.safetensors").exists()
    return out


@pytest.mark.parametrize("number", range(len(DAMAGES)))
def test_a_damaged_checkpoint_is_noticed_and_the_one_before_it_used(
    number: int, half_way: Path, whole: tuple[dict[str, Any], int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A single bit is enough, in any file; the run ends as if nothing had happened."""
    name, damage = DAMAGES[number]
    out = tmp_path / "run"
    shutil.copytree(half_way, out)
    last = newest(out)
    damage(last / name)
    train(read_recipe(RECIPE, "recipe"), out)
    told = [line for line in capsys.readouterr().err.splitlines() if "damaged" in line]
    assert len(told) == 1
    assert f"the checkpoint {last} is damaged (" in told[0]
    assert told[0].endswith("), so the one before it is used")
    assert everything(out) == whole[0]


def test_two_damaged_checkpoints_are_an_error(half_way: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(half_way, out)
    for path in out.glob("checkpoints/step-*"):
        flip(0.5)(path / "optimizer.safetensors")

    def visible() -> list[Path]:
        return [p for p in sorted(out.rglob("*")) if not re.search(r"/\.", str(p.relative_to(tmp_path)))]

    before = visible()
    with pytest.raises(
        ValueError, match=rf"checkpoint {newest(out)} is damaged .*, and so is the one before it: delete"
    ):
        run(RECIPE, out)
    assert visible() == before  # nothing is thrown away
    with pytest.raises(ValueError, match=r"optimizer\.safetensors has changed"):
        run(RECIPE, out)


@pytest.mark.parametrize("keep", [0, 1, 3])
def test_as_many_checkpoints_stay_as_the_recipe_says(
    keep: int, whole: tuple[dict[str, Any], int], tmp_path: Path
) -> None:
    """One is written after each update; how many stay changes nothing else."""
    steps = RECIPE["train"]["steps"]
    run({**RECIPE, "train": {**RECIPE["train"], "keep_checkpoints": keep}}, tmp_path / "run")
    kept = [int(path.name.removeprefix("step-")) for path in checkpoint.list_checkpoints(tmp_path / "run/checkpoints")]
    assert kept == list(range(1, steps + 1))[-keep:]
    model = {name: x for name, x in everything(tmp_path / "run")["tensors"].items() if name.startswith("model/")}
    assert model
    assert model == {name: whole[0]["tensors"][name] for name in model}


def test_a_run_that_keeps_more_survives_more_damage(
    whole: tuple[dict[str, Any], int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document, out = {**RECIPE, "train": {**RECIPE["train"], "keep_checkpoints": 4}}, tmp_path / "run"
    killed(document, out, whole[1] * 3 // 4)
    there = checkpoint.list_checkpoints(out / "checkpoints")
    assert len(there) == 4
    for path in there[1:]:
        flip(0.5)(path / "optimizer.safetensors")
    train(read_recipe(document, "recipe"), out)
    told = [line for line in capsys.readouterr().err.splitlines() if "damaged" in line]
    assert told[0].endswith("), and so are the 2 before it, so the one before them is used")
    assert load_file(out / "model/model.safetensors").keys()
    model = {name: x for name, x in everything(out)["tensors"].items() if name.startswith("model/")}
    assert model == {name: whole[0]["tensors"][name] for name in model}


def test_a_checkpoint_of_an_older_version_is_gone_on_with(
    half_way: Path, whole: tuple[dict[str, Any], int], tmp_path: Path
) -> None:
    """It has no index and no checksums, and its tensors are whole."""
    out = tmp_path / "run"
    shutil.copytree(half_way, out)
    for file in out.glob("checkpoints/step-*/state.json"):
        document = json.loads(file.read_text())
        del document["files"], document["crc32"]
        file.write_text(json.dumps(document))
    run(RECIPE, out)
    assert everything(out) == whole[0]


def test_a_cut_line_of_metrics_is_forgotten(whole: tuple[dict[str, Any], int], tmp_path: Path) -> None:
    expected, operations = whole
    out = tmp_path / "run"
    killed(RECIPE, out, operations * 2 // 3)
    with (out / "metrics.jsonl").open("a") as file:
        file.write('{"step": 6, "split": "tr')
    assert [r["step"] for r in RunDirectory(out).logged()][:2] == [3, 4]
    run(RECIPE, out)
    assert everything(out) == expected


def test_interrupting_saves_nothing_broken(tmp_path: Path) -> None:
    document = {**RECIPE, "train": {**RECIPE["train"], "steps": 150, "checkpoint_seconds": 0.1}}
    out, reference = tmp_path / "run", tmp_path / "reference"
    child = Child(document, out)
    while not list(out.glob("checkpoints/step-*")):
        assert child.process.is_alive()
        time.sleep(0.005)
    os.kill(child.process.pid or 0, signal.SIGINT)
    assert child.wait() == 1  # KeyboardInterrupt, as Python ends on it
    assert len(list(out.glob("checkpoints/*"))) >= 1
    assert not list(out.glob("checkpoints/.part-*"))
    run(document, out)
    run(document, reference)
    assert everything(out) == everything(reference)


def test_two_processes_do_not_train_one_run(tmp_path: Path) -> None:
    document = {**RECIPE, "train": {**RECIPE["train"], "steps": 4000, "evaluate_every": 4000}}
    first = Child(document, tmp_path / "run")
    while not list(tmp_path.glob("run/checkpoints/step-*")):
        assert first.process.is_alive()
        time.sleep(0.005)
    with pytest.raises(ValueError, match="is being trained by another process"):
        run(document, tmp_path / "run")
    first.process.kill()
    assert first.wait() == -signal.SIGKILL


@pytest.fixture
def small_disk(tmp_path: Path) -> Any:
    """A file system of two thirds of a megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=640k", "none", str(disk)], capture_output=True)
    if made.returncode:
        pytest.skip("only root may mount a small file system")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.parametrize("room", [16, 60, 100, 130])
def test_no_space_left(room: int, small_disk: Path, whole: tuple[dict[str, Any], int]) -> None:
    """One error that names what could not be written; with room again, the run goes on as if nothing had happened."""
    expected, _ = whole
    out, ballast = small_disk / "run", small_disk / "ballast"
    ballast.write_bytes(bytes((640 - room) * 1024))
    with pytest.raises(OSError, match="No space left") as caught:
        run(RECIPE, out)
    assert str(caught.value.filename).startswith(str(out))
    assert not list(small_disk.rglob(".part-*"))
    assert not list(out.rglob("result.json"))
    if (out / "metrics.jsonl").exists():
        lines(out)  # each one whole
    ballast.unlink()
    run(RECIPE, out)
    assert everything(out) == expected


def test_no_space_for_a_line(small_disk: Path) -> None:
    """Of a line that does not fit nothing is left."""
    directory = RunDirectory(small_disk)
    (small_disk / "ballast").write_bytes(bytes(600 * 1024))
    records = ({"step": step, "text": "x" * 333} for step in range(10_000))
    with pytest.raises(OSError, match="No space left") as caught:
        list(map(directory.log, records))
    assert caught.value.filename == str(directory.metrics)
    assert [line["step"] for line in lines(small_disk)] == list(range(len(lines(small_disk))))
    assert len(lines(small_disk)) > 10


def test_a_failed_rename_is_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "result.json"
    files.write_atomically(target, "old")

    def fail(*_: Any) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(files.os, "replace", fail)
    with pytest.raises(OSError, match="Input/output error") as caught:
        files.write_atomically(target, "new")
    assert caught.value.filename == str(target)
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]


def test_state_is_plain_json(whole: tuple[dict[str, Any], int], tmp_path: Path) -> None:
    _, operations = whole
    killed(RECIPE, tmp_path / "run", operations // 2)
    folder = children.Path(sorted((tmp_path / "run" / "checkpoints").glob("step-*"))[-1])
    assert {p.suffix for p in folder.iterdir()} == {".json", ".safetensors"}
    assert json.loads((folder / "state.json").read_text())["step"] == int(folder.name.removeprefix("step-"))
