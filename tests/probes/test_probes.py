"""Probes measure what a formula says, and a run that is watched is the run that is not."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from children import RECIPE, everything, lines, run, together
from tiny import tiny, tokens
from torch import Tensor

from splitstep.integrate import Event
from splitstep.models import SplitstepForImageClassification
from splitstep.probes import PROBES, observe
from splitstep.training import evaluate, read_recipe, train

BOTH = ["state_norms", "increment_norms"]


def language_model(scheme: str) -> tuple[Any, dict[str, Tensor]]:
    return tiny("causal", scheme), {"input_ids": tokens()}


def length(x: Tensor) -> float:
    """By the formula: the mean over vectors of the root of the sum of squares."""
    return float((x.double() ** 2).sum(-1).sqrt().mean())


@pytest.mark.parametrize("scheme", ["lie", "macaron", "parallel", "strang-midpoint", "lie-postnorm", "reversible"])
@torch.no_grad()
def test_lengths_are_those_of_the_hidden_states(scheme: str) -> None:
    """The states before each layer, as Hugging Face counts them, and what the stack returns."""
    model, batch = language_model(scheme)
    returned: list[Tensor] = []
    model.body.stack.register_forward_hook(lambda module, given, x: returned.append(x))
    found = observe(model, batch, ["state_norms"])
    states = model(**batch, output_hidden_states=True).hidden_states
    assert found.keys() == {"state_norms"}
    assert found["state_norms"].keys() == {"body.stack"}
    expected = [length(x) for x in (*states[:-1], returned[0])]
    assert found["state_norms"]["body.stack"]["x"] == pytest.approx(expected, rel=1e-6)


@torch.no_grad()
def test_increments_are_what_the_fields_add() -> None:
    """Of the pre-norm Transformer: x' = x + A(x), then x' + F(x'), by hand."""
    model, batch = language_model("lie")
    found = observe(model, batch, ["increment_norms"])["increment_norms"]["body.stack"]
    added: dict[str, list[float]] = {"A": [], "F": []}
    for layer in model.body.stack.layers:
        for name in added:
            layer[name].register_forward_hook(lambda m, given, x, name=name: added[name].append(length(x)))
    model(**batch)
    assert found.keys() == {"A", "F"}
    for name, lengths in added.items():
        assert found[name] == pytest.approx(lengths, rel=1e-6)


@torch.no_grad()
def test_parts_of_one_field_add_up() -> None:
    """F/2 A F/2 evaluates F twice in each layer."""
    model, batch = language_model("strang")
    events: list[Event] = []
    model(**batch, observe=events.append)
    found = observe(model, batch, ["increment_norms"])["increment_norms"]["body.stack"]["F"]
    for layer in range(2):
        parts = [length(e.increments["F"]) for e in events if e.site.step == layer and "F" in e.increments]
        assert len(parts) == 2
        assert found[layer] == pytest.approx(sum(parts), rel=1e-6)


def test_hooks_are_gone_afterwards() -> None:
    model, batch = language_model("lie")
    observe(model, batch, BOTH)
    assert not [m for m in model.modules() if m._forward_hooks or m._forward_pre_hooks]


@pytest.mark.parametrize(("scheme", "probes"), [("lie", list(PROBES)), ("reversible", BOTH)])
def test_a_watched_run_ends_with_the_same_bits(scheme: str, probes: list[str], tmp_path: Path) -> None:
    document, often = {**RECIPE, "scheme": scheme}, {**RECIPE["train"], "probe_every": 3, "probe_batch": 5}
    run(document, tmp_path / "alone")
    run({**document, "probes": probes, "train": often}, tmp_path / "watched")
    alone, watched = everything(tmp_path / "alone"), everything(tmp_path / "watched")
    assert watched["tensors"] == alone["tensors"]
    assert [r for r in watched["metrics"] if r["split"] != "probe"] == alone["metrics"]


@pytest.mark.parametrize("parallel", [pytest.param("ddp", marks=pytest.mark.nightly), "fsdp"])
def test_so_it_does_in_two_processes(parallel: str, tmp_path: Path) -> None:
    document = {**RECIPE, "train": {**RECIPE["train"], "parallel": parallel}}
    for name, probes in (("alone", []), ("watched", BOTH)):
        for child in together({**document, "probes": probes}, tmp_path / name, 2):
            child.result()
    assert everything(tmp_path / "watched")["tensors"] == everything(tmp_path / "alone")["tensors"]
    assert [r["step"] for r in lines(tmp_path / "watched") if r["split"] == "probe"] == [4, 7]


def test_the_record_is_of_the_first_validation_batch(tmp_path: Path) -> None:
    """At each evaluation, with the weights of that step and without dropout."""
    given = read_recipe({**RECIPE, "probes": BOTH}, "r")
    train(given, tmp_path / "run", quiet=True)
    records = [r for r in lines(tmp_path / "run") if r["split"] == "probe"]
    assert [r["step"] for r in records] == [4, 7]
    result = {r["step"]: r for r in lines(tmp_path / "run") if r["split"] == "valid"}
    model = SplitstepForImageClassification.from_pretrained(tmp_path / "run" / "model").eval()
    task = given.load_task()
    best = max(result.values(), key=lambda r: r["accuracy"])
    assert evaluate(model, task, "valid", 400, torch.float32)["accuracy"] == best["accuracy"]
    with torch.no_grad():
        found = observe(model, next(task.batches("valid", 64)), BOTH)
    [record] = [r for r in records if r["step"] == best["step"]]
    for name in BOTH:
        for series, values in found[name]["body.stack"].items():
            assert record[name]["body.stack"][series] == pytest.approx(list(values), rel=1e-6)


def test_a_length_that_is_no_number_is_written_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state can be too long for float32 while the loss behind a norm is fine."""
    from splitstep.training import loop

    found = {"state_norms": {"body.stack": {"x": (1.0, math.inf, math.nan)}}}
    monkeypatch.setattr(loop, "observe", lambda *_: found)
    train(read_recipe({**RECIPE, "probes": ["state_norms"]}, "r"), tmp_path / "run", quiet=True)
    [record, _] = [r for r in lines(tmp_path / "run") if r["split"] == "probe"]
    assert record["state_norms"]["body.stack"]["x"] == [1.0, "inf", "nan"]


def test_an_unknown_probe_is_one_line() -> None:
    with pytest.raises(ValueError, match=r'there is no probe "state_norm"; did you mean "state_norms"\?'):
        read_recipe({**RECIPE, "probes": ["state_norm"]}, "r")
    with pytest.raises(ValueError, match=r"r: probes is 3, and needs a list of text"):
        read_recipe({**RECIPE, "probes": 3}, "r")
