"""Several processes train the same network as one: DDP and FSDP on two CPU processes."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import children
import pytest
import torch
from children import (
    NUMBERS,
    Child,
    check_killed,
    everything,
    killed,
    lines,
    newest,
    operations_of,
    run,
    stored,
    together,
)
from torch import distributed
from torch.distributed.tensor import DTensor

from splitstep.models import SplitstepForSequenceClassification, SplitstepForTranslation
from splitstep.training import Recipe, RunDirectory, read_recipe
from splitstep.training.evaluate import evaluate
from splitstep.training.processes import Processes, this_world
from splitstep.training.run import Run

SHORT = {"train": 300, "valid": 70, "test": 50}
RECIPE: dict[str, Any] = {  # ListOps has rows of unequal length, and an odd number of validation batches
    "task": "listops",
    "data": SHORT,
    "model": {"layers": 2, "width": 16, "heads": 2, "ffn": 32},
    "train": {
        "steps": 6, "batch": 12, "accumulate": 2, "warmup": 2, "lr": 0.01, "log_every": 1, "evaluate_every": 3,
        "evaluate_batch": 10, "checkpoint_seconds": 0.0,
    },
}  # fmt: skip
TEXT: dict[str, Any] = {  # language modelling: the token count normalises the loss
    "task": "stdlib",
    "data": {"length": 32, "limit": 20_000},
    "model": {"layers": 2, "width": 16, "heads": 2, "ffn": 32},
    "train": {**RECIPE["train"], "steps": 4},
}

MORE = [("ddp", "average"), ("ddp", "best"), ("fsdp", "average")]


def with_train(document: dict[str, Any], **entries: Any) -> dict[str, Any]:
    return {**document, "train": {**document["train"], **entries}}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same recipe in one process."""
    out = tmp_path_factory.mktemp("alone") / "run"
    run(RECIPE, out)
    return out


def losses(out: Path, name: str = "loss") -> list[float]:
    return [line[name] for line in lines(out)]


def agree(out: Path, reference: Path) -> None:
    assert [(r["step"], r["split"]) for r in lines(out)] == [(r["step"], r["split"]) for r in lines(reference)]
    assert losses(out) == pytest.approx(losses(reference), rel=1e-6, abs=1e-6)
    one, two = (json.loads((folder / "result.json").read_text()) for folder in (reference, out))
    assert (one["tokens"], one["steps"]) == (two["tokens"], two["steps"])
    assert two["processes"] == 2
    assert two["test"]["loss"] == pytest.approx(one["test"]["loss"], abs=1e-6)


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_two_processes_are_one(parallel: str, alone: Path, tmp_path: Path) -> None:
    """Loss, checkpoint and model are whole; they go on with the bits of a run that is not killed."""
    check_killed(with_train(RECIPE, parallel=parallel), tmp_path, processes=2)
    out = tmp_path / "whole"
    assert json.loads((out / "result.json").read_text())["parallel"] == parallel
    agree(out, alone)
    found, expected = stored(newest(out)), stored(newest(alone))
    for group in ("model", "optimizer", "best"):
        assert {key: x.shape for key, x in found[group].items()} == {key: x.shape for key, x in expected[group].items()}
    model = SplitstepForSequenceClassification.from_pretrained(out / "model")
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, found["best"][name]), name


@pytest.mark.nightly
@pytest.mark.parametrize("victim", [0, 1])
def test_either_may_be_killed_before_any_file_operation(victim: int, tmp_path: Path) -> None:
    """Each writes files of its own; a checkpoint is all of them or nothing. Three updates have every kind of operation:
    the third checkpoint removes the first."""
    document = with_train(RECIPE, parallel="fsdp", steps=3)
    operations = operations_of(document, tmp_path / "whole", 2, victim=victim)
    expected, wrong = everything(tmp_path / "whole"), []
    for kill_at in range(2 + victim, operations, max(1, operations // 8)):
        out = tmp_path / str(kill_at)
        killed(document, out, kill_at, 2, victim=victim)
        operations_of(document, out, 2)
        wrong += [kill_at] if everything(out) != expected else []
    assert wrong == []


@pytest.mark.nightly
def test_each_process_resumes_its_own_random_numbers(tmp_path: Path) -> None:
    """Fused attention draws its masks from PyTorch's generator, as this objective does."""
    check_killed({**with_train(RECIPE, parallel="ddp"), "objective": "noisy"}, tmp_path, processes=2)
    states = stored(newest(tmp_path / "whole"))["rng"]
    assert states.keys() == {"cpu", "cpu-1"}
    assert not torch.equal(states["cpu"], states["cpu-1"])


def resaved(document: dict[str, Any], out: Path) -> int:
    """Restore a run and save it elsewhere; its step."""
    recipe = read_recipe(document, "r")
    world = this_world()
    restored = Run(recipe, RunDirectory(out), recipe.load_task(), world)
    restored.directory = RunDirectory(out.with_name(f"{out.name}-on-{world.size}"))
    restored.save()
    return restored.state.step


@pytest.mark.parametrize(
    ("parallel", "keep"),
    [("fsdp", "average"), *(pytest.param(*x, marks=pytest.mark.nightly) for x in (("fsdp", "best"), ("ddp", "best")))],
)
def test_any_number_of_processes_goes_on_with_what_two_began(parallel: str, keep: str, tmp_path: Path) -> None:
    """Weights, moments, what the objective learned and what is kept: on one and on three processes, the same bits."""
    document = with_train(RECIPE, parallel=parallel, keep=keep, batch=12, average=2, average_every=2)
    document |= {"task": "digits", "data": {}, "objective": {"name": "project", "weight": 1.0}}
    out = tmp_path / "run"
    killed(document, out, operations_of(document, tmp_path / "count", 2) * 4 // 5, 2)
    begun = stored(newest(out))
    assert begun.keys() == {"model", "optimizer", "objective", "rng", "best" if keep == "best" else "sum"}
    assert len(list(newest(out).glob("model-?-of-2.safetensors"))) == 2
    for processes in (1, 3):
        [step] = {child.result()[0] for child in together(document, out, processes, act=resaved)}
        again = newest(tmp_path / f"run-on-{processes}")
        assert again.name == newest(out).name == f"step-{step:09d}"
        found = stored(again)
        for group in begun.keys() - {"rng"}:
            assert found[group].keys() == begun[group].keys()
            assert all(torch.equal(x, begun[group][name]) for name, x in found[group].items()), group
        for name in begun["rng"].keys() & found["rng"].keys():
            assert torch.equal(found["rng"][name], begun["rng"][name])
    run(document, out)
    assert json.loads((out / "result.json").read_text())["processes"] == 1


def impatient(document: dict[str, Any], out: Path) -> Any:
    """Train where collectives give up after two seconds, and the first process takes twice as long for its own."""
    from datetime import timedelta

    from torch.distributed.distributed_c10d import _set_pg_timeout

    from splitstep.tasks.task import Task

    world, load, save = this_world(), Recipe.load_task, Task.save_with
    _set_pg_timeout(timedelta(seconds=2), distributed.group.WORLD)

    def slow(act: Any) -> Any:
        def call(*given: Any) -> Any:
            time.sleep(4 if world.rank == 0 else 0)
            return act(*given)

        return call

    Recipe.load_task, Task.save_with = slow(load), slow(save)
    return children.trained(document, out)


def test_the_others_wait_for_the_first_as_long_as_it_takes(alone: Path, tmp_path: Path) -> None:
    """While it prepares data, and while it writes the model."""
    for child in together(RECIPE, tmp_path / "run", 2, act=impatient):
        child.result()
    agree(tmp_path / "run", alone)


@pytest.mark.nightly
def test_a_save_takes_little_memory(tmp_path: Path) -> None:
    """At most half of the bytes of a process's own weights and moments, and the largest tensor."""
    script = Path(__file__).parents[2] / "benchmarks" / "save_memory.py"
    words = [sys.executable, str(script), "--layers", "4", "--width", "512", "--out", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads((tmp_path / "result.json").read_text())["rows"]
    assert [(row["parallel"], row["rank"]) for row in rows] == [("fsdp", 0), ("fsdp", 1), ("ddp", 0), ("ddp", 1)]


def test_all_processes_refuse_alike(tmp_path: Path) -> None:
    """The first one claims the directory; what it refuses, all refuse, and none is left waiting."""
    (tmp_path / "file").touch()
    for child in together(RECIPE, tmp_path, 2):
        with pytest.raises(ValueError, match="holds other files"):
            child.result()
    uneven, task = read_recipe(with_train(RECIPE, batch=6), "r"), read_recipe(RECIPE, "r").load_task()
    with pytest.raises(ValueError, match=r"shared by 2 processes and 2 accumulated parts: use a multiple of 4"):
        Run(uneven, RunDirectory(tmp_path), task, Processes(0, 2, torch.device("cpu")))


def cut_up(run: Run) -> bool:
    """Whether each process holds a part of every parameter and of its two moments."""
    kinds = [isinstance(p, DTensor) and p.to_local().numel() < p.numel() for p in run.model.parameters()]
    moments = [isinstance(m, DTensor) for m in run.learned["optimizer"].values() if m.ndim]
    return all(kinds) and all(moments) and len(moments) == 2 * len(kinds)


def seen_cut_up(document: dict[str, Any], out: Path) -> dict[str, Any]:
    """What is cut up at each stage of an update and an evaluation."""
    recipe, world = read_recipe(document, "r"), this_world()
    task = recipe.load_task()
    run = Run(recipe, RunDirectory(out), task, world)
    seen: dict[str, Any] = {"before": cut_up(run)}
    run.advance(run.work(0), 0.01)
    seen["trained"] = cut_up(run)
    evaluate(run.model, task, "valid", 10, torch.float32, world)
    seen["evaluated"] = cut_up(run)
    seen["wrapped"] = sum("FSDP" in type(m).__name__ for m in run.model.modules())
    return seen | {"class": type(run.model).__name__}


def both_seen(document: dict[str, Any], out: Path) -> list[dict[str, Any]]:
    """Where the recipe asks for it, and where accelerate's variable does."""
    by_recipe, by_variable = with_train(document, parallel="fsdp"), {**document, "scheme": "reversible"}
    return [seen_cut_up(one, out / str(i)) for i, one in enumerate((by_recipe, by_variable))]


def test_parameters_are_cut_up_once(tmp_path: Path) -> None:
    """Before, between and after updates and evaluations; accelerate's own variable wraps nothing a second time. A
    reversible stack belongs to the root."""
    always = {"before": True, "trained": True, "evaluated": True, "class": "FSDPSplitstepForSequenceClassification"}
    for child in together(RECIPE, tmp_path, 2, environment={"ACCELERATE_USE_FSDP": "true"}, act=both_seen):
        assert child.result()[0] == [{**always, "wrapped": 5}, {**always, "wrapped": 1}]


@pytest.mark.nightly
@pytest.mark.parametrize("launcher", ["torchrun", "accelerate", "accelerate-fsdp"])
def test_launchers(launcher: str, alone: Path, tmp_path: Path) -> None:
    """`torchrun -m splitstep train` and `accelerate launch -m splitstep train`, the same recipe. Everywhere else the
    processes of these tests have the environment that launchers give them."""
    file, out = tmp_path / "recipe.yaml", tmp_path / "run"
    file.write_text(json.dumps(RECIPE))
    verb = ["splitstep", "train", str(file), "--out", str(out)]
    if launcher == "torchrun":
        words = ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", *verb]
    else:
        more = ["--use_fsdp", "--fsdp_version", "2"] if launcher == "accelerate-fsdp" else ["--multi_gpu"]
        port = str(20000 + os.getpid() % 20000)
        words = ["accelerate.commands.launch", *more, "--num_processes", "2", "--main_process_port", port, "-m", *verb]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, timeout=200, env=environment)
    assert done.returncode == 0, done.stderr
    agree(out, alone)
    parallel = json.loads((out / "result.json").read_text())["parallel"]
    assert parallel == ("fsdp" if launcher == "accelerate-fsdp" else "ddp")
    assert "Traceback" not in done.stderr
    assert "Warning" not in done.stderr, done.stderr


MORE_SCHEMES = [("macaron", "ddp"), ("macaron", "fsdp"), ("reversible", "ddp"), ("A F D/2@exact D/2", "fsdp")]


@pytest.mark.parametrize(
    ("scheme", "parallel"),
    [("reversible", "fsdp"), *(pytest.param(*x, marks=pytest.mark.nightly) for x in MORE_SCHEMES)],
)
def test_language_models_too(parallel: str, scheme: str, tmp_path: Path) -> None:
    """Tied embeddings, a loss per token, a reversible stack."""
    document = {**TEXT, "scheme": scheme}
    run(document, tmp_path / "alone")
    for child in together(with_train(document, parallel=parallel), tmp_path / "two", 2):
        child.result()
    agree(tmp_path / "two", tmp_path / "alone")


@pytest.mark.parametrize(
    ("parallel", "keep"), [("fsdp", "best"), *(pytest.param(*x, marks=pytest.mark.nightly) for x in MORE)]
)
def test_the_first_process_translates_for_all(
    parallel: str, keep: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the run and at its end; what is written is what the saved model writes, and all know its figures."""
    monkeypatch.setenv("SPLITSTEP_CACHE", str(tmp_path / "cache"))
    document = with_train(NUMBERS, parallel=parallel, keep=keep)
    document["model"] = {**NUMBERS["model"], "dropout": 0.0}  # masks differ between numbers of processes
    run(document, tmp_path / "alone", {"SPLITSTEP_CACHE": str(tmp_path / "cache")})
    out = tmp_path / "two"
    children: list[Child] = together(document, out, 2, environment={"SPLITSTEP_CACHE": str(tmp_path / "cache")})
    one, two = (child.result()[0].document() for child in children)
    assert {**one, "seconds": 0, "tokens_per_second": 0} == {**two, "seconds": 0, "tokens_per_second": 0}
    assert one["kept"]["by"] == keep
    agree(out, tmp_path / "alone")
    in_the_run = [r for r in lines(out) if r["split"] == "valid"]
    assert all(("exact_match" in r) == (keep == "best") for r in in_the_run)
    task = read_recipe(document, "r").load_task()
    model = SplitstepForTranslation.from_pretrained(out / "model").eval()
    for split in ("valid", "test"):
        written = (out / "translations" / f"{split}.txt").read_text()
        found = task.free_run(model, split, torch.float32)
        assert written == "".join(f"{line}\n" for line in found.lines)
        assert one["splits"][split]["scores"] == found.scores


def test_a_run_diverges_together(tmp_path: Path) -> None:
    out = tmp_path / "run"
    document = with_train(RECIPE, lr=1e30, clip=0.0, steps=12, parallel="fsdp")
    results = [child.result()[0] for child in together(document, out, 2)]
    assert {result.status for result in results} == {"diverged"}
    assert results[0].document()["diverged"] == results[1].document()["diverged"]
    assert results[0].diverged.step == 2
