"""Distillation is an ordinary run: the loss falls, a killed run continues bit for bit, the student is a plain model."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from children import check_killed, run, together
from distil_pairs import bpe, gpt2, instructions, llama, recipe, saved, three_models
from safetensors.torch import load_file
from tiny import tiny
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from splitstep import cli
from splitstep.distillation.records import FINAL, LOGITS
from splitstep.distillation.subject import Subject
from splitstep.flows.keys import Key
from splitstep.opening import open_model
from splitstep.training import read_recipe, train


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return three_models(tmp_path_factory.mktemp("pairs"))


def trained(given: dict[str, Any], out: Path, **settings: Any) -> Any:
    """A run of this document with other settings of training."""
    given["train"] |= settings
    return train(read_recipe(given, "r"), out, quiet=True)


@pytest.mark.parametrize(
    ("student", "method"), [("student", "skl + mta + hidden"), ("other", "sra"), ("other", "ce + 1.5 uld")]
)
def test_the_loss_falls(place: Path, tmp_path: Path, student: str, method: str) -> None:
    settings = {"steps": 20, "evaluate_every": 20, "schedule": "constant", "lr": 6e-3}
    assert trained(recipe(place, method, student), tmp_path, **settings).status == "finished"
    records = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    losses = [one["loss"] for one in records if one["split"] == "train"]
    assert sum(losses[-4:]) < 0.95 * sum(losses[:4])


@pytest.mark.parametrize("most", [2, 1000])
def test_spans_over_the_limit_are_told(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], most: int
) -> None:
    trained(recipe(place, f"skl + mta.dsa(spans={most})"), tmp_path, steps=1)
    assert ("spans beyond the first 2 of a text are not compared" in capsys.readouterr().err) == (most == 2)


def test_a_run_that_was_killed_continues_bit_for_bit(place: Path, tmp_path: Path) -> None:
    """GPT-2 has dropout, so the generators must be restored as well."""
    given = recipe(place, "skl + mta")
    given["train"] |= {"steps": 4}
    check_killed(given, tmp_path, 2 / 3)


@pytest.mark.slow
@pytest.mark.parametrize("parallel", ["fsdp", pytest.param("ddp", marks=pytest.mark.nightly)])
def test_two_processes_learn_what_one_learns(place: Path, tmp_path: Path, parallel: str) -> None:
    given = recipe(place, "skl + mta", "teacher") | {"model": {"layers": 2}}
    run(given, tmp_path / "one")
    given["train"] |= {"parallel": parallel}
    for child in together(given, tmp_path / "two", 2):
        child.result()
    one, two = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("one", "two"))
    assert all((one[name] - two[name]).abs().max() < 1e-4 for name in one)


def test_the_student_is_a_plain_model_without_projectors(place: Path, tmp_path: Path) -> None:
    given = recipe(place, "skl + mta", "teacher") | {"model": {"layers": 2}}
    result = trained(given, tmp_path / "run", steps=2)
    opened, folder = open_model(tmp_path / "run"), tmp_path / "run" / "model"
    model, tokenizer = (kind.from_pretrained(folder) for kind in (AutoModelForCausalLM, AutoTokenizer))
    assert {type(one).__module__.split(".")[0] for one in (model, model.config, tokenizer)} == {"transformers"}
    assert "splitstep" not in (folder / "config.json").read_text()
    ids = tokenizer("The quick brown", return_tensors="pt")
    torch.testing.assert_close(opened.model(**ids).logits, model(**ids).logits)
    assert model.config.num_hidden_layers == result.shape.layers == 2
    checkpoint = load_file(max((tmp_path / "run" / "checkpoints").iterdir()) / "objective.safetensors")
    assert {name.split(":")[0] for name in checkpoint} == {
        "loss.projectors.mta_hid.layer1.weight", "loss.projectors.mta_hid.layer2.weight",
    }  # fmt: skip
    exported = load_file(folder / "model.safetensors").keys()
    whole = load_file(place / "teacher" / "model.safetensors").keys()
    assert exported == {name for name in whole if ".layers.2." not in name and ".layers.3." not in name}


@pytest.mark.parametrize("named", [5, [5, 7], None])
def test_the_student_stops_at_the_end_that_it_learnt_as_well(place: Path, tmp_path: Path, named: Any) -> None:
    student = llama(bpe(), 2, 8)
    student.generation_config.eos_token_id = named
    saved(student, bpe(), tmp_path / "student")
    trained(recipe(place, "ce", str(tmp_path / "student")), tmp_path / "run", steps=1)
    end = bpe().eos_token_id
    assert end not in (5, 7)
    found = GenerationConfig.from_pretrained(tmp_path / "run" / "model").eos_token_id
    assert found == [*([] if named is None else named if isinstance(named, list) else [named]), end]


STATES = [Key("states", layer) for layer in (1, 2, 3)]
SUBJECTS: dict[str, tuple[Any, str]] = {  # and the names of their final norms
    "llama": (lambda: llama(bpe(), 3, 16).eval(), "model.norm"),
    "gpt2": (lambda: gpt2(bpe(), 3, 16).eval(), "transformer.ln_f"),
    "lie": (lambda: tiny("causal", "lie", layers=3), "body.norm"),
    "macaron": (lambda: tiny("causal", "macaron", layers=3), "body.norm"),
    "reversible": (lambda: tiny("causal", "reversible", layers=3), "body.norm"),
}


@pytest.mark.parametrize("name", SUBJECTS)
def test_states_are_those_that_the_model_shows_and_the_last_is_before_the_final_norm(name: str) -> None:
    make, norm = SUBJECTS[name]
    model, ids, mask = make(), torch.randint(2, 20, (2, 9)), torch.ones(2, 9, dtype=torch.long)
    mask[1, 6:] = 0
    subject = Subject(model, "it")
    assert subject.shape == (3, 16)
    shown = subject.show(ids, mask, {LOGITS, FINAL, *STATES})
    output = model(ids, attention_mask=mask, output_hidden_states=True)
    for layer in (1, 2):
        torch.testing.assert_close(shown[Key("states", layer)], output.hidden_states[layer])
    assert (shown[STATES[2]] - shown[FINAL]).abs().max() > 0.1
    torch.testing.assert_close(model.get_submodule(norm)(shown[STATES[2]]), shown[FINAL])
    torch.testing.assert_close(shown[FINAL], output.hidden_states[3])


@pytest.mark.parametrize("method", ["skl + mta", "sra"])
def test_a_model_of_a_scheme_is_a_student_and_a_teacher(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], method: str
) -> None:
    for name, layers, scheme in (("teacher", 4, "lie"), ("student", 2, "macaron")):
        model = tiny("causal", scheme, layers=layers, vocab_size=len(bpe()), max_positions=256)
        saved(model, bpe(), tmp_path / name)
    instructions(tmp_path / "text.jsonl")
    result = train(read_recipe(recipe(tmp_path, method), "r"), tmp_path / "run")
    assert (result.status, result.scheme.name, result.kind) == ("finished", "macaron", None)
    assert "instruct macaron seed 0  step 6/6" in capsys.readouterr().err
    assert result.shape.ffn == model.config.ffn


@pytest.mark.parametrize("layers", [None, 2])
def test_a_student_of_hugging_face_is_called_by_its_class_and_what_it_learnt_from(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], layers: int | None
) -> None:
    """It has no scheme of the recipe, of which it would be a twin; how its layers are read is told beside."""
    student = [str(place / "student")] if layers is None else ["--student-layers", str(layers)]
    words = ["distil", str(place / "teacher"), *student, "--text", str(place / "text.jsonl"), "--online"]
    steps = ["train.steps=1", "train.batch=2", "--method", "2 kl"]
    assert cli.main([*words, *steps, "--out", str(tmp_path / "run")]) == 0
    kind = "GPT2LMHeadModel" if layers is None else "LlamaForCausalLM"
    told = capsys.readouterr()
    titles = [line.split("  ")[0] for line in told.err.splitlines() if " seed 0  " in line]
    assert set(titles) == {f"instruct {kind} seed 0"}
    rows = dict(line.split("  ", 1) for line in told.out.splitlines() if "  " in line.strip() and line[0] != " ")
    assert rows["kind"].strip() == f"{kind}, its layers read as A F"
    assert rows["objective"].strip().startswith("distil, teacher")
    assert not {"scheme", "matched"} & rows.keys()
    assert json.loads((tmp_path / "run" / "result.json").read_text())["kind"] == kind
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert "objective | distil, teacher " in card
    assert "answers follow in a new line:\n" in card
    assert "\n\n    ### Instruction:\n    {prompt}\n\n    ### Response:\n\n## Figures" in card
    assert ("of its layers" in card) == (layers is not None)
