"""A run that is killed at any moment and started again ends exactly as one that never was."""

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from children import NUMBERS, RECIPE, Child, everything, killed, lines, newest, run, trained
from disasters import small_disk
from safetensors.torch import load_file, save_file

from splitstep.support import files
from splitstep.training import checkpoint, read_recipe, train
from splitstep.training.directory import RunDirectory
from splitstep.training.processes import Processes
from splitstep.training.weights import pieces

Whole = tuple[dict[str, Any], int]


def with_train(**entries: Any) -> dict[str, Any]:
    return {**RECIPE, "train": {**RECIPE["train"], **entries}}


def model_of(out: Path) -> dict[str, Any]:
    return {name: x for name, x in everything(out)["tensors"].items() if name.startswith("model/")}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """What a run without any kill leaves, and its number of file operations. It is worth killing: it logs, evaluates,
    saves within intervals, and keeps a best."""
    out = tmp_path_factory.mktemp("whole") / "run"
    _, operations = Child(RECIPE, out).result()
    found = everything(out)
    assert [(r["step"], r["split"]) for r in found["metrics"]] == [
        (3, "train"), (4, "train"), (4, "valid"), (6, "train"), (7, "train"), (7, "valid"),
    ]  # fmt: skip
    assert found["hidden"] == []
    assert {name.rpartition("/")[0].rpartition("/")[2] for name in found["tensors"]} >= {"best.safetensors"}
    assert operations > 100
    return found, operations


@pytest.fixture(scope="module")
def killed_once(whole: Whole, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was killed after several checkpoints."""
    out = tmp_path_factory.mktemp("half") / "run"
    killed(RECIPE, out, whole[1] * 3 // 4)
    assert (newest(out) / "best.safetensors").exists()
    return out


@pytest.fixture
def half_way(killed_once: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(killed_once, tmp_path / "run"))


@pytest.mark.parametrize("many", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_killed_before_a_file_operation(many: bool, whole: Whole, tmp_path: Path) -> None:
    """A run that goes on in this process ends as one that never was killed: at first, among checkpoints, and while the
    model and the result are written; or before every operation of the first checkpoints and of the end, and every third
    of those between."""
    last, wrong = whole[1], []
    few = [round(share * last) for share in (0.03, 0.45, 0.85, 0.95, 0.99)]
    for n in (n for n in range(1, last + 1) if n < 40 or n > last - 40 or n % 3 == 0) if many else few:
        killed(RECIPE, tmp_path / str(n), n)
        trained(RECIPE, tmp_path / str(n))
        wrong += [n] if everything(tmp_path / str(n)) != whole[0] else []
    assert wrong == []


@pytest.mark.nightly
def test_killed_again_and_again(whole: Whole, tmp_path: Path) -> None:
    out, kills = tmp_path / "run", 0
    while Child(RECIPE, out, whole[1] // 4).wait() == -signal.SIGKILL:
        kills += 1
        assert kills < 40
    assert kills >= 3
    assert everything(out) == whole[0]


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], int, dict[str, str]]:
    """A translator that was never killed, its number of file operations, and where its text is prepared."""
    folder = tmp_path_factory.mktemp("translator")
    environment = {"SPLITSTEP_CACHE": str(folder / "cache")}
    first = run(NUMBERS, folder / "first", environment)  # prepares the text
    _, operations = Child(NUMBERS, folder / "run", environment=environment).result()
    found = everything(folder / "run")
    assert found == everything(folder / "first")  # a function of its recipe
    assert first.kept.steps == [5, 7, 9]
    assert found["translations"].keys() == {"valid.txt", "test.txt"}
    return found, operations, environment


@pytest.mark.parametrize(
    "share", [0.6, 0.75, *(pytest.param(x, marks=pytest.mark.nightly) for x in (0.3, 0.5, 0.7, 0.8, 0.85, 0.95, 0.99))]
)
def test_a_translator_killed_before_a_file_operation(share: float, translator: Any, tmp_path: Path) -> None:
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


class Boom(Exception):
    pass


STAGES = [
    (files.shutil, "rmtree"), (files.Path, "mkdir"), (checkpoint, "write_tensors"), (checkpoint, "contents"),
    (files.Path, "write_text"), (files, "fsync"), (files.os, "rename"), (checkpoint, "remove"),
]  # fmt: skip


@pytest.mark.parametrize(("owner", "name"), STAGES, ids=[name for _, name in STAGES])
@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_failure_at_any_stage_leaves_a_whole_checkpoint(
    owner: Any, name: str, call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever raises in `save_checkpoint`, and whenever, what can be read is the old one or the new one."""
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
    ("optimizer.safetensors", cut), ("state.json", cut), ("model.safetensors", stretch),
    ("model.safetensors", Path.unlink), ("state.json", Path.unlink),
    ("state.json", lambda file: file.write_text('{"step": 3}')),
    ("model.safetensors", flip(0.0)), ("optimizer.safetensors", flip(0.5)), ("best.safetensors", flip(0.999)),
    ("rng.safetensors", flip(0.5)), ("state.json", flip(0.1)), ("state.json", flip(0.97)),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(DAMAGES)))
def test_a_damaged_checkpoint_is_noticed_and_the_one_before_it_used(
    number: int, half_way: Path, whole: Whole, capsys: pytest.CaptureFixture[str]
) -> None:
    """A single bit is enough, in any file; the run ends as if nothing had happened."""
    name, damage = DAMAGES[number]
    last = newest(half_way)
    damage(last / name)
    train(read_recipe(RECIPE, "recipe"), half_way)
    [told] = [line for line in capsys.readouterr().err.splitlines() if "damaged" in line]
    assert f"the checkpoint {last} is damaged (" in told
    assert told.endswith("), so the one before it is used")
    assert everything(half_way) == whole[0]


def test_two_damaged_checkpoints_are_an_error(half_way: Path) -> None:
    for path in half_way.glob("checkpoints/step-*"):
        flip(0.5)(path / "optimizer.safetensors")

    def visible() -> list[Path]:
        return [p for p in sorted(half_way.rglob("*")) if not re.search(r"/\.", str(p.relative_to(half_way.parent)))]

    before = visible()
    damaged = rf"checkpoint {newest(half_way)} is damaged \(.*optimizer\.safetensors has changed.*, and so is the one "
    with pytest.raises(ValueError, match=f"{damaged}before it: delete"):
        trained(RECIPE, half_way)
    assert visible() == before  # nothing is thrown away


@pytest.mark.parametrize("keep", [0, 1, 3])
def test_as_many_checkpoints_stay_as_the_recipe_says(keep: int, whole: Whole, tmp_path: Path) -> None:
    """One is written after each update; how many stay changes nothing else."""
    trained(with_train(keep_checkpoints=keep), tmp_path / "run")
    kept = [int(path.name.removeprefix("step-")) for path in checkpoint.list_checkpoints(tmp_path / "run/checkpoints")]
    assert kept == list(range(1, RECIPE["train"]["steps"] + 1))[-keep:]
    assert model_of(tmp_path / "run").items() <= whole[0]["tensors"].items()


def test_a_run_that_keeps_more_survives_more_damage(whole: Whole, tmp_path: Path, capsys: Any) -> None:
    document, out = with_train(keep_checkpoints=4), tmp_path / "run"
    killed(document, out, whole[1] * 3 // 4)
    there = checkpoint.list_checkpoints(out / "checkpoints")
    assert len(there) == 4
    for path in there[1:]:
        flip(0.5)(path / "optimizer.safetensors")
    train(read_recipe(document, "recipe"), out)
    told = [line for line in capsys.readouterr().err.splitlines() if "damaged" in line]
    assert told[0].endswith("), and so are the 2 before it, so the one before them is used")
    assert model_of(out).items() <= whole[0]["tensors"].items()


def test_a_checkpoint_of_an_older_version_is_gone_on_with_and_a_cut_line_of_metrics_is_forgotten(
    half_way: Path, whole: Whole
) -> None:
    """The older one has no index and no checksums, and its tensors are whole."""
    for file in half_way.glob("checkpoints/step-*/state.json"):
        document = json.loads(file.read_text())
        assert document["step"] == int(file.parent.name.removeprefix("step-"))
        del document["files"], document["crc32"]
        file.write_text(json.dumps(document))
    with (half_way / "metrics.jsonl").open("a") as file:
        file.write('{"step": 6, "split": "tr')
    assert [r["step"] for r in RunDirectory(half_way).logged()][:2] == [3, 4]
    trained(RECIPE, half_way)
    assert everything(half_way) == whole[0]


def ended(document: dict[str, Any], out: Path, number: signal.Signals) -> int | None:
    """The exit code of a run that gets this signal after its first checkpoint."""
    child = Child(document, out)
    while not list(out.glob("checkpoints/step-*")):
        assert child.process.is_alive()
        time.sleep(0.005)
    os.kill(child.process.pid or 0, number)
    return child.wait()


def test_ended_by_the_clock_between_checkpoints(tmp_path: Path) -> None:
    """With checkpoints far apart a kill or an interrupt costs work, and nothing else."""
    document = with_train(steps=120, evaluate_every=60, checkpoint_seconds=0.1)
    trained(document, tmp_path / "reference")
    for number, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 1)):  # KeyboardInterrupt, as Python ends
        out = tmp_path / number.name
        assert ended(document, out, number) == code
        assert not (out / "result.json").exists()
        trained(document, out)
        assert everything(out) == everything(tmp_path / "reference")


def test_two_processes_do_not_train_one_run(tmp_path: Path) -> None:
    document = with_train(steps=4000, evaluate_every=4000)
    with RunDirectory(tmp_path).locked(), pytest.raises(ValueError, match="is being trained by another process"):
        run(document, tmp_path)


def test_no_space_for_a_line(tmp_path: Path) -> None:
    """Of a line that does not fit nothing is left."""
    records = ({"step": step, "text": "x" * 333} for step in range(10_000))
    with small_disk(tmp_path / "disk", "size=40k") as disk:
        with pytest.raises(OSError, match="No space left") as caught:
            list(map(RunDirectory(disk).log, records))
        assert caught.value.filename == str(RunDirectory(disk).metrics)
        assert [line["step"] for line in lines(disk)] == list(range(len(lines(disk))))
        assert len(lines(disk)) > 10


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
