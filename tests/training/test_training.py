"""The loop does what a bare loop does, says what happened, and counts time right."""

import json
import math
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from importlib import import_module
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from children import lines, newest
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoConfig, AutoModelForCausalLM

import splitstep as ss
from splitstep import cli
from splitstep.options import learning_rate
from splitstep.recipe import NETWORKS
from splitstep.support.provenance import made
from splitstep.tasks import Batch, Task, task
from splitstep.training import Recipe, RunDirectory, TrainOptions, evaluate, loop, networks, read_recipe, train
from splitstep.training import run as running
from splitstep.training.directory import Environment
from splitstep.training.evaluate import device_name
from splitstep.training.objective import Learner, UpdateBatch, dropout_seed, prefetched, work_for
from splitstep.training.processes import Processes
from splitstep.training.result import Kept
from splitstep.training.run import highest_loss
from splitstep.training.update import (
    autocast,
    choose_mode,
    make_optimizer,
    make_update,
    plain_step,
    pretended_capture,
)
from splitstep.training.weights import choose_parallel, evaluated_once, spread, with_halves

evaluation: Any = import_module("splitstep.training.evaluate")  # the package's attribute is the function
CPU = torch.device("cpu")
ALONE = Processes(0, 1, CPU)
SHAPE = {"layers": 2, "width": 16, "heads": 2, "ffn": 32, "dropout": 0.1}
SHORT = {"steps": 8, "batch": 16, "warmup": 2, "lr": 0.01, "log_every": 1, "evaluate_batch": 400}


def recipe(scheme: str = "lie", model: dict[str, Any] | None = None, **entries: Any) -> Recipe:
    document = {"task": "digits", "scheme": scheme, "model": SHAPE | (model or {}), "train": SHORT | entries}
    return read_recipe(document, "r")


def test_batches_may_have_a_seed_of_their_own() -> None:
    """The same examples, and other weights and dropout: what two arms of a comparison differ in, and a null pair."""
    digits = recipe().load_task()
    own, other, drawn = (work_for(digits, recipe(**seeds).train, 3, ALONE) for seeds in (
        {"seed": 5}, {"seed": 6}, {"seed": 6, "batch_seed": 5},
    ))  # fmt: skip
    for name, x in own.parts[0].items():
        torch.testing.assert_close(drawn.parts[0][name], x, rtol=0, atol=0)
    assert drawn.seeds == other.seeds != own.seeds
    assert not torch.equal(other.parts[0]["labels"], own.parts[0]["labels"])


@pytest.fixture(scope="module")
def digits() -> Task:
    return task("digits", {}, None)


def last_weights(out: Path) -> dict[str, Tensor]:
    return load_file(newest(out) / "model.safetensors")


S = np.linspace(0, 1, 101)


@pytest.mark.parametrize(("entries", "first", "expected"), [
    ({"steps": 100, "warmup": 8}, 0, np.linspace(0, 2, 9)[1:]),
    ({"steps": 100, "warmup": 8, "warmup_from": 0.4}, 0, np.linspace(0.4, 2, 9)[1:]),  # as fairseq has it
    *(({"steps": 110, "warmup": 10, "final": final}, 10, 2 * (final + (1 - final) * np.cos(np.pi * S / 2) ** 2))
      for final in (0.0, 0.1, 1.0)),
    ({"steps": 110, "warmup": 10, "final": 0.5, "schedule": "linear"}, 10, np.linspace(2, 1, 101)),
    ({"steps": 10, "warmup": 0, "schedule": "constant"}, 0, np.full(10, 2.0)),
    ({"steps": 10**6, "warmup": 400, "schedule": "inverse-sqrt"}, 399, 2 * (400 / np.arange(400, 6401)) ** 0.5),
])  # fmt: skip
def test_learning_rates_are_their_closed_forms(entries: dict[str, Any], first: int, expected: np.ndarray) -> None:
    """A linear warm-up, from + n (lr - from) / warmup; then cosine, linear, constant, or lr sqrt(warmup / n)."""
    options = TrainOptions(lr=2.0, **entries)
    assert [learning_rate(options, first + n) for n in range(len(expected))] == pytest.approx(expected, abs=1e-12)


def bare_loop(recipe: Recipe, task: Task, updates: int | None = None) -> tuple[nn.Module, list[float]]:
    """Fifteen lines that anybody could have written."""
    options = recipe.train
    torch.manual_seed(options.seed)
    model = ss.SplitstepForImageClassification(recipe.config(task)).train()
    matrices, vectors = ([p for p in model.parameters() if (p.ndim > 1) == deep] for deep in (True, False))
    groups = [{"params": matrices, "weight_decay": options.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, options.lr, (0.9, 0.98), options.eps, fused=True)
    losses = []
    for step in range(updates or options.steps):
        batch = task.batch(options.seed, step, options.batch)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(options, step)
        optimizer.zero_grad()
        loss = model(**batch, dropout_seed=dropout_seed(options.seed, step, 0, 0)).loss
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), options.clip)
        optimizer.step()
        losses.append(float(loss.detach()))
    return model, losses


@pytest.mark.parametrize("scheme", ["macaron", "strang-midpoint", "reversible"])
def test_the_loop_is_a_bare_loop(scheme: str, digits: Task, tmp_path: Path) -> None:
    """Logging, evaluating, checkpointing and looking ahead change no bit."""
    given = recipe(scheme, evaluate_every=3, checkpoint_seconds=0.0, clip=0.3)
    train(given, tmp_path / "run", quiet=True)
    model, losses = bare_loop(given, digits)
    found = last_weights(tmp_path / "run")
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, found[name]), name
    assert [r["loss"] for r in lines(tmp_path / "run") if r["split"] == "train"] == losses


def test_parts_weigh_by_their_items() -> None:
    """A causal batch with ignored labels: the loss is the mean over all that count, not the mean of means."""
    torch.manual_seed(0)
    model, options = (
        ss.SplitstepForCausalLM(ss.CausalConfig(**{**SHAPE, "dropout": 0.0, "vocab_size": 64})),
        TrainOptions(),
    )
    ids = torch.arange(64).view(4, 16)
    labels = ids.clone()
    labels[:2, 3:] = -100  # 4 labels count in the first part and 30 in the second
    optimizer = make_optimizer(model, options, CPU)
    step = plain_step(spread(Learner(model), "none", ALONE), optimizer, options, torch.float32, ALONE)
    parts = [{"input_ids": ids[i : i + 2], "labels": labels[i : i + 2]} for i in (0, 2)]
    expected = float(model(input_ids=ids, labels=labels).loss.detach())
    loss, _ = step(UpdateBatch(parts, [torch.tensor(0)] * 2, torch.tensor(34.0), 64))
    assert float(loss) == pytest.approx(expected, abs=1e-6)


@pytest.mark.nightly
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_is_eager(backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_ = torch.compile
    monkeypatch.setattr(torch, "compile", lambda call, dynamic: compile_(call, backend=backend, dynamic=dynamic))
    found = {}
    for mode in ("eager", "compile"):
        train(recipe(mode=mode, steps=12), tmp_path / mode, quiet=True)
        found[mode] = [r["loss"] for r in lines(tmp_path / mode)]
    assert found["compile"] == pytest.approx(found["eager"], rel=1e-5, abs=1e-5)


def test_every_shape_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """More shapes than the compiler's own limit of eight, after which it would run eagerly and say nothing."""
    compiled: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        compiled.append(graph)
        return graph.forward

    compile_ = torch.compile
    monkeypatch.setattr(torch, "compile", lambda call, dynamic: compile_(call, backend=backend, dynamic=dynamic))
    options = TrainOptions(lr=1e-3)

    def squares(model: nn.Module, batch: Batch, items: Tensor, seed: Tensor) -> Tensor:
        return model(batch["x"]).square().sum() / items

    learner = Learner(nn.Linear(4, 2), squares)
    optimizer = make_optimizer(learner, options, CPU)
    shared = spread(learner, "none", ALONE)
    update = make_update(learner, shared, optimizer, options, torch.float32, "compile", ALONE)
    torch.compiler.reset()
    for size in range(2, 12):
        update(UpdateBatch([{"x": torch.ones(size, 4)}], [torch.tensor(0)], torch.tensor(1.0), size), 1e-3)
    assert len(compiled) == 10


class Counted(TorchDispatchMode):
    """Counts the operations of these names."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.counts = dict.fromkeys(names, 0)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name in self.counts:
            self.counts[func._schema.name] += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("scheme", "share"), [("lie", 1.0), ("macaron", 1.0), ("strang", 28 / 44), ("rk4", 0.0), ("reversible", 0.0)]
)
def test_weights_in_half_precision_are_those_of_autocast(scheme: str, share: float) -> None:
    """Loss and gradients bit for bit, with two conversions for all weights that are evaluated once."""
    sizes: dict[str, Any] = {"layers": 2, "decoder_layers": 2, "width": 16, "heads": 2, "ffn": 32, "vocab_size": 30}
    model = ss.SplitstepForTranslation(
        ss.TranslationConfig(scheme=scheme, max_positions=16, dropout=0.1, **sizes)
    ).train()
    linear = [
        f"{name}.{key}" for name, m in model.named_modules() if isinstance(m, nn.Linear) for key in ("weight", "bias")
    ]
    inside = [name for name in linear if ".layers." in name]
    names = list(evaluated_once(model))
    assert len(names) == len(set(names)) == round(share * len(inside))
    assert set(names) <= set(inside)
    ids = torch.randint(4, 30, (2, 7))
    found = []
    for call in (model, with_halves(model, torch.bfloat16)):
        model.zero_grad(set_to_none=True)
        with Counted("aten::_to_copy", "aten::_foreach_copy_") as casts:
            with autocast(torch.bfloat16, CPU):
                loss = call(input_ids=ids, attention_mask=ids > 0, labels=ids, dropout_seed=torch.tensor(3)).loss
            loss.backward()
        found.append((loss.item(), [p.grad for p in model.parameters()], casts.counts.values()))
    (loss, gradients, (single, lists)), (same, others, (fewer, more)) = found
    assert loss == same
    assert all(torch.equal(a, b) for a, b in zip(gradients, others, strict=True))
    assert (lists, more) == (0, 2 if names else 0)
    assert fewer == single - 2 * len(names)


@pytest.mark.parametrize("name", ["llama", "gpt2", "gpt_neox"])
def test_models_of_transformers_wait_unless_they_are_captured(name: str) -> None:
    """While one believes that it is being captured, it reads no number from a tensor."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 50, "pad_token_id": 0}
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(name, **sizes)).train()
    ids, mask = torch.randint(1, 50, (3, 12)), torch.ones(3, 12, dtype=torch.long)
    mask[1, 8:] = 0
    asked, found = torch.cuda.is_current_stream_capturing, []
    for context in (nullcontext(), pretended_capture()):
        with context, Counted("aten::_local_scalar_dense") as waits:
            model(input_ids=ids, attention_mask=mask, use_cache=False).logits.mean().backward()
        found += waits.counts.values()
    assert found[0] > 0 == found[1]
    assert torch.cuda.is_current_stream_capturing is asked


def test_bfloat16_learns_with_float32_weights(tmp_path: Path) -> None:
    result = train(recipe(precision="bfloat16", steps=30), tmp_path / "run", quiet=True)
    rows = [r["loss"] for r in lines(tmp_path / "run") if r["split"] == "train"]
    assert result.precision == "bfloat16"
    assert rows[-1] < rows[0]
    assert {x.dtype for x in last_weights(tmp_path / "run").values()} == {torch.float32}


def test_the_result(digits: Task, tmp_path: Path) -> None:
    """The saved model is the best on validation, and its figures are those of the result."""
    result = train(recipe(steps=30, evaluate_every=7), tmp_path / "run", quiet=True)
    valid = {r["step"]: r for r in lines(tmp_path / "run") if r["split"] == "valid"}
    best = max(valid.values(), key=lambda r: r["accuracy"])
    assert sorted(valid) == [7, 14, 21, 28, 30]
    assert result.best_step == best["step"]
    assert result.valid == {"loss": best["loss"], "accuracy": best["accuracy"]}
    model = ss.SplitstepForImageClassification.from_pretrained(tmp_path / "run" / "model")
    assert evaluate(model, digits, "test", 400, torch.float32) == pytest.approx(result.test)
    assert evaluate(model, digits, "valid", 400, torch.float32) == pytest.approx(result.valid)
    assert result.tokens == 30 * 16 * 16
    assert result.cost.parameters == sum(p.numel() for p in model.parameters())
    assert json.loads((tmp_path / "run" / "result.json").read_text()) == result.document()
    assert RunDirectory(tmp_path / "run").result() == result
    assert read_recipe(result.recipe, "again") == recipe(steps=30, evaluate_every=7)


@pytest.mark.parametrize(
    ("entries", "steps"),
    [({"average": 3, "average_every": 2}, (4, 6, 8)), ({"average": 3, "evaluate_every": 3}, (3, 6, 8))],
)
def test_the_average_is_the_mean_of_the_last_snapshots(
    entries: dict[str, Any], steps: tuple[int, ...], digits: Task, tmp_path: Path
) -> None:
    """Against bare loops that stop at each of the steps; figures are those of the mean."""
    given = recipe(keep="average", **entries)
    result = train(given, tmp_path / "run", quiet=True)
    assert result.kept == Kept("average", list(steps))
    assert result.best_step is None
    models = [dict(bare_loop(given, digits, step)[0].named_parameters()) for step in steps]
    model = ss.SplitstepForImageClassification.from_pretrained(tmp_path / "run" / "model")
    for name, parameter in model.named_parameters():
        mean = torch.stack([one[name].detach().double() for one in models]).mean(0).float()
        torch.testing.assert_close(parameter.detach(), mean, rtol=1e-7, atol=0)
    for split in ("valid", "test"):
        assert evaluate(model, digits, split, 400, torch.float32) == pytest.approx(getattr(result, split))
    last = last_weights(tmp_path / "run")
    assert all(torch.equal(last[name], models[-1][name]) for name in last)  # training goes on as if nothing were kept


@pytest.mark.parametrize(("best", "figure", "step"), [("metric", "accuracy", 6), ("loss", "loss", 4)])
def test_the_best_weights_are_chosen_by_the_figure_that_is_asked_for(
    best: str, figure: str, step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted = [{"loss": loss, "accuracy": x} for loss, x in ((1.0, 0.2), (0.5, 0.1), (0.8, 0.9), (0.7, 0.3))]
    shown = iter(scripted)  # after steps 2, 4, 6, 8
    monkeypatch.setattr(loop, "evaluate", lambda *_: next(shown))
    result = train(recipe(evaluate_every=2, best=best), tmp_path / "run", quiet=True)
    assert result.kept == Kept("best", [step], figure)
    assert (result.best_step, result.valid) == (step, scripted[step // 2 - 1])


def test_evaluation_counts_every_example_once(digits: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against one pass by hand, whatever the batches; the model stays as it was. Progress is shown only if it takes a
    while."""
    model = networks.build_model(recipe(), digits).train()
    [whole] = digits.batches("valid", 10_000)
    with torch.no_grad():
        logits = model.eval()(whole["pixel_values"]).logits
    model.train()
    expected = {
        "loss": float(nn.functional.cross_entropy(logits, whole["labels"])),
        "accuracy": float((logits.argmax(-1) == whole["labels"]).double().mean()),
    }
    for size in (7, 10_000):
        found = evaluate(model, digits, "valid", size, torch.float32, None, lambda *_: pytest.fail("it was quick"))
        assert found == pytest.approx(expected, abs=1e-5)
    assert model.training
    monkeypatch.setattr(evaluation, "PATIENCE", -1.0)
    seen, number = list[tuple[int, int]](), len(list(digits.batches("valid", 50)))
    evaluate(model, digits, "valid", 50, torch.float32, None, lambda done, total: seen.append((done, total)))
    assert seen == [(done, number) for done in range(1, number + 1)]


def test_the_verb_and_the_end_of_training_show_how_far_an_evaluation_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "PATIENCE", -1.0)
    train(recipe(steps=1, evaluate_batch=100), tmp_path / "run")
    assert "test: evaluated 1/4 batches\n" in capsys.readouterr().err
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert cli.main(("evaluate", str(tmp_path / "run"))) == 0
    assert capsys.readouterr().err == "".join(f"\r\033[Kevaluated {n}/4 batches" for n in range(1, 5)) + "\n"


def test_a_run_is_a_function_of_its_recipe(tmp_path: Path) -> None:
    """Whatever was drawn before it; and it leaves the caller's generator as it was."""
    for seed in (1, 2):
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        train(recipe(), tmp_path / str(seed), quiet=True)
        assert torch.equal(torch.get_rng_state(), before)
    one, two = ((tmp_path / name / "checkpoints" / "step-000000008") for name in "12")
    for file in one.glob("*.safetensors"):
        assert file.read_bytes() == (two / file.name).read_bytes(), file.name


def test_directories_of_others(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("all of it")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".part-recipe.yaml").write_text("task: dig")  # a claim that was cut short
    RunDirectory(tmp_path / "run").claim(recipe())
    RunDirectory(tmp_path / "run").claim(recipe())
    for out, given, needle in (
        ("file", recipe(), "is not a directory"),
        ("full", recipe(), "holds other files, not a run"),
        ("run", recipe(seed=1), "belongs to another run with train.seed=0, and here it is 1"),
    ):
        with pytest.raises(ValueError, match=needle):
            train(given, tmp_path / out, quiet=True)
    assert [p.name for p in (tmp_path / "full").iterdir()] == ["thesis.tex"]
    with RunDirectory(tmp_path / "run").locked():
        assert [p.name for p in (tmp_path / "run").iterdir()] == ["recipe.yaml"]
    (tmp_path / "run" / "recipe.yaml").write_text("task: [")
    with pytest.raises(ValueError, match=r"recipe.yaml, line 1, column 8 is not YAML"):
        train(recipe(), tmp_path / "run", quiet=True)


def test_a_run_does_not_go_on_with_other_data(digits: Task, tmp_path: Path) -> None:
    file = tmp_path / "run" / "environment.json"
    directory = RunDirectory(tmp_path / "run")
    directory.claim(recipe())
    directory.keep_environment(Environment(made(data=digits.describe())))
    changed = json.loads(file.read_text())
    assert changed["data"]["sha256"]["train"]
    changed["data"]["sha256"]["train"] = "0" * 64
    file.write_text(json.dumps(changed))
    with pytest.raises(ValueError, match="run began with other data"):
        train(recipe(), tmp_path / "run", quiet=True)
    del changed["data"]["sha256"]  # as an older version wrote it
    file.write_text(json.dumps(changed))
    assert train(recipe(), tmp_path / "run", quiet=True).status == "finished"
    directory.keep_environment(Environment(made(data=digits.describe())))
    file.write_text("{")
    with pytest.raises(ValueError, match=r"environment\.json is damaged"):
        directory.keep_environment(Environment(made()))


def test_a_run_of_an_older_version_is_gone_on_with(tmp_path: Path) -> None:
    """Entries that a recipe did not have then are as by default."""
    file = tmp_path / "run" / "recipe.yaml"
    RunDirectory(tmp_path / "run").claim(recipe())
    older = yaml.safe_load(file.read_text())
    del older["train"]["clip"], older["match"]
    file.write_text(yaml.safe_dump(older))
    RunDirectory(tmp_path / "run").claim(recipe())
    assert yaml.safe_load(file.read_text()) == older
    with pytest.raises(ValueError, match="belongs to another run"):
        RunDirectory(tmp_path / "run").claim(recipe(clip=0.5))


def test_tensorboard(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train(recipe(evaluate_every=4), tmp_path / "run", quiet=True, tensorboard=True)
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    logged = [r for r in lines(tmp_path / "run") if r["split"] == "train"]
    assert [(e.step, e.value) for e in events.Scalars("train/loss")] == [
        (r["step"], pytest.approx(r["loss"])) for r in logged
    ]
    assert [e.step for e in events.Scalars("valid/accuracy")] == [4, 8]


def test_lines_where_there_is_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first says what begins, and that a run cut short by hand is cut short of its learning rate."""
    result = train(recipe(steps=8, warmup=9), tmp_path / "run")
    out, err = capsys.readouterr()
    begins = f"digits lie seed 0  {result.cost.parameters:,} parameters, 8 steps, cpu, float32, eager"
    late = "train.warmup=9 is longer than train.steps=8: the learning rate never reaches train.lr; type train.warmup=1"
    assert (out, err.splitlines()[0]) == ("", f"{begins}; {late}")
    assert "digits lie seed 0  step 8/8  loss" in err
    assert "tokens/s" in err
    (tmp_path / "run" / "result.json").unlink()
    train(recipe(steps=8, warmup=9), tmp_path / "run")
    assert f"{begins}, continues after step 8" in capsys.readouterr().err
    train(recipe(), tmp_path / "quiet", quiet=True)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("scheme", "lr", "clip"),
    [("lie", 1e3, 1.0), ("lie-postnorm", 1e3, 0.0), ("reversible", 1e30, 0.0), ("rk4", 1e3, 0.0), ("lie", 1e30, 0.0)],
)
def test_diverged_is_a_result(scheme: str, lr: float, clip: float, tmp_path: Path) -> None:
    given = recipe(scheme, lr=lr, clip=clip, steps=60, log_every=7, checkpoint_seconds=0.0)
    result = train(given, tmp_path / "run", quiet=True)
    assert result.status == "diverged"
    assert json.loads((tmp_path / "run" / "result.json").read_text()) == result.document()
    found = result.diverged
    assert 1 < found.step <= result.steps < 60
    assert found.layer in ("embedding", 0, 1)
    assert len(found.state_norms) == 3
    assert len(found.weight_norms) == 2
    assert all(math.isfinite(r["loss"]) for r in RunDirectory(tmp_path / "run").logged())
    assert train(given, tmp_path / "run", quiet=True).document() == result.document()


def poisoned(monkeypatch: pytest.MonkeyPatch, at: int, layer: int) -> None:
    """From batch `at` on, the digits' labels are fine and layer `layer` overflows."""

    def build(*arguments: Any) -> Any:
        model: Any = networks.build_model(*arguments)
        seen = [0]

        def count(module: nn.Module, given: Any) -> None:
            seen[0] += module.training

        def overflow(module: nn.Module, given: Any, x: Tensor) -> Tensor:
            return x * float("inf") if seen[0] > at else x

        model.register_forward_pre_hook(count)
        model.body.stack.layers[layer]["F"].register_forward_hook(overflow)
        return model

    monkeypatch.setitem(NETWORKS.own, "scheme", networks.SCHEME._replace(build=build))


@pytest.mark.parametrize("layer", [0, 1])
def test_the_layer_is_found_and_the_weights_are_kept(
    layer: int, digits: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault in update 6 is noticed after update 10; step, layer and weights are those of update 6. Checkpoints fall
    due while it is not yet noticed: the last good one stays."""
    given = recipe(steps=20, log_every=10, evaluate_every=20, checkpoint_seconds=0.0)
    poisoned(monkeypatch, 5, layer)
    result = train(given, tmp_path / "run", quiet=True)
    found = result.diverged
    assert (found.step, found.layer, result.steps) == (6, layer, 10)
    assert [not math.isfinite(size) for size in found.state_norms] == [i > layer for i in range(3)]
    assert math.isnan(found.gradient_norm)
    before: Any = bare_loop(given, digits, 5)[0]
    norms = [
        sum(float((p.detach() ** 2).sum()) for p in layer.parameters()) ** 0.5 for layer in before.body.stack.layers
    ]
    assert found.weight_norms == pytest.approx(norms, rel=1e-5)
    assert sorted(p.name for p in (tmp_path / "run" / "checkpoints").iterdir()) == ["step-000000004", "step-000000005"]
    assert all(x.isfinite().all() for x in last_weights(tmp_path / "run").values())


def test_an_explosion_that_stays_finite(digits: Task, tmp_path: Path) -> None:
    """Even within the first interval: the loss of the first update is the measure."""
    given = recipe(lr=3.0, clip=1.0, steps=60, log_every=5, evaluate_every=60, warmup=0)
    result = train(given, tmp_path / "run", quiet=True)
    _, losses = bare_loop(given, digits, 5)
    assert all(map(math.isfinite, losses))
    assert (result.status, result.diverged.step) == ("diverged", 5)
    assert result.diverged.loss == pytest.approx(sum(losses) / 5)
    assert all(map(math.isfinite, result.diverged.state_norms))


@pytest.mark.parametrize("scheme", ["A F D", "A F D@exact"])
def test_a_run_ends_when_alpha_passes_its_limit(scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From step 12 on, alpha of layer 1 is 0.3, above 1/4. An exact flow has no limit."""
    advance = running.Run.advance

    def grown(self: running.Run, *given: Any) -> None:
        advance(self, *given)
        if self.state.step >= 12:
            self.model.get_parameter("body.stack.layers.1.D.a").detach().copy_(torch.tensor(0.3).expm1().log())

    monkeypatch.setattr(running.Run, "advance", grown)
    given = recipe(scheme, {"diffusion": 0.2, "dropout": 0.0}, steps=20, lr=1e-3, log_every=5, evaluate_every=20)
    result = train(given, tmp_path / "run", quiet=True)
    assert result.status == ("finished" if scheme.endswith("exact") else "diverged")
    if result.diverged is not None:
        found = result.diverged
        assert found.step == 15  # the next look
        assert found.reason.startswith("layer 1: alpha * h = 0.3 * 1 = 0.3 is above 0.25, the limit of explicit")
        assert "write D@exact" in found.reason
        assert train(given, tmp_path / "run", quiet=True).document() == result.document()


def test_a_low_first_loss_does_not_make_a_run_diverge(digits: Task) -> None:
    """A run that knows something may forget it; it has diverged if it is far worse than a guess among ten classes."""
    assert highest_loss(0.01, digits) == highest_loss(1.0, digits) == pytest.approx(3 * math.log(10) + 1)
    assert highest_loss(5.0, digits) == 16


def test_a_validation_that_is_no_number_diverges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "evaluate", lambda *_: {"loss": float("nan"), "accuracy": 0.1})
    result = train(recipe(), tmp_path / "run", quiet=True)
    assert (result.status, result.diverged.step, str(result.diverged.loss)) == ("diverged", 1, "nan")


def test_tokens_per_second_leaves_out_all_but_updates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow evaluations, checkpoints and a slow first update do not count; slow updates do."""
    now = [0.0]
    monkeypatch.setattr("splitstep.training.processes.time", type("T", (), {"monotonic": staticmethod(lambda: now[0])}))

    def slow(function: Any, seconds: Iterator[float]) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            now[0] += next(seconds)
            return function(*arguments, **named)

        return call

    make = running.make_update
    monkeypatch.setattr(loop, "evaluate", slow(loop.evaluate, repeat(30.0)))
    monkeypatch.setattr(running, "save_checkpoint", slow(running.save_checkpoint, repeat(7.0)))
    monkeypatch.setattr(running, "make_update", lambda *given: slow(make(*given), chain([100.0], repeat(2.0))))
    result = train(recipe(steps=9, evaluate_every=3, checkpoint_seconds=0.0), tmp_path / "run", quiet=True)
    assert result.tokens_per_second
    assert 8 * 16 * 16 / result.tokens_per_second == pytest.approx(8 * 2.0)
    assert result.seconds == pytest.approx(100.0 + 8 * 2.0 + 3 * 30.0 + 8 * 7.0)  # the last checkpoint is not yet in


def test_prefetching_keeps_order_passes_errors_on_and_stops_with_its_reader() -> None:
    with prefetched(lambda n: n * n, 3, 50) as squares:
        assert list(squares) == [n * n for n in range(3, 50)]
    with prefetched(lambda n: 1 // (5 - n), 0, 10) as numbers:
        assert [next(numbers) for _ in range(5)] == [0, 0, 0, 0, 1]
        with pytest.raises(ZeroDivisionError):
            next(numbers)
    made: list[int] = []
    before = threading.active_count()
    with prefetched(lambda n: made.append(n) or n, 0, 10**6, depth=2) as numbers:
        assert next(numbers) == 0
    assert threading.active_count() == before
    assert len(made) < 10


def test_modes(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Processes(0, 1, torch.device("cuda"))
    assert [choose_mode("auto", world) for world in (ALONE, gpu, gpu._replace(size=2))] == ["eager", "capture", "eager"]
    for world in (ALONE, gpu._replace(size=2)):
        with pytest.raises(ValueError, match="needs one process with one CUDA device"):
            choose_mode("compile+capture", world)
    two = Processes(0, 2, CPU)
    assert [choose_parallel(p, two) for p in ("auto", "ddp", "fsdp")] == ["ddp", "ddp", "fsdp"]
    assert choose_parallel("fsdp", ALONE) == "none"
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    assert [choose_parallel(p, two) for p in ("auto", "ddp")] == ["fsdp", "ddp"]
    for threads, told in ((1, "cpu, 1 thread"), (4, "cpu, 4 threads")):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        assert device_name(CPU) == told
