"""`splitstep inspect`: what it writes, and one clear line for everything that it cannot look into."""

import html
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from commands import Capsys, failure
from pretrained_folders import POSITIONS, WORDS, llama, saved
from transformers import ViTConfig, ViTModel

from splitstep.cli import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("models") / "llama", llama())


def test_it_writes_a_page_and_a_result_that_can_be_drawn_again(folder: Path, tmp_path: Path, capsys: Capsys) -> None:
    out, prompts = tmp_path / "look", tmp_path / "prompts.jsonl"
    prompts.write_text('{"text": "The cat sat on the <b>mat</b>."}\n\n{"text": "def f(x): return x"}\n')
    words = ["--text", str(prompts), "--tokens", "12", "--probes", "drift,rank", "--out", str(out), "--save", "states"]
    assert main(["inspect", str(folder), *words]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("All weights and states are finite")
    assert said.err.splitlines()[-1] == f"Report: {out / 'report.html'}"
    document = json.loads((out / "result.json").read_text())
    assert (document["study"], document["texts"], document["probes"]) == ("inspect", 2, ["drift", "rank"])
    assert document["command"].startswith("splitstep inspect ")
    assert sorted(one.name for one in (out / "states").iterdir()) == ["text-0001.safetensors", "text-0002.safetensors"]
    page = (out / "report.html").read_text()
    assert "<b>mat" not in page
    (out / "report.html").unlink()
    assert main(["report", str(out)]) == 0
    assert (out / "report.html").read_text() == page
    capsys.readouterr()
    assert "beside another model" in failure(capsys, "inspect", folder, *words, "--against", "none")[-1]
    elsewhere = ["--out", str(tmp_path / "alone"), "--against", "none", "--json"]
    assert main(["inspect", str(folder), *words[:6], *elsewhere]) == 0
    assert json.loads(capsys.readouterr().out)["other"] is None


def test_the_verdict_is_decided_by_default_and_texts_that_are_not_used_are_counted(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("The cat sat on the mat.\nThe dog ran over the bridge.\n" * 3)
    words = ["--text", str(prompts), "--texts", "3", "--tokens", "8", "--probes", "jacobian,products"]
    for layers in ([], ["--layers", "0,2"]):
        assert main(["inspect", str(folder), *words, *layers, "--out", str(tmp_path / f"look{len(layers)}")]) == 0
        printed = capsys.readouterr()
        said, unused = " ".join(printed.out.split()), f"{prompts} (3 more texts there, not used: --texts 6)"
        assert f"inspect  {unused}" in printed.err.splitlines()
        page = (tmp_path / f"look{len(layers)}" / "report.html").read_text()
        assert unused in " ".join(html.unescape(re.sub("<[^>]*>", "", page)).split())
        assert "An interval needs 3 texts" not in said
        verdicts = re.findall(r"Training installs a depth gradient: [^.]*\.[^.]*", said)
        assert len({*verdicts}) == 1
    alone = [*words[:2], "--texts", "6", *words[4:], "--against", "none", "--json", "--out", str(tmp_path / "alone")]
    assert main(["inspect", str(folder), *alone]) == 0
    assert json.loads(capsys.readouterr().out)["source"] == str(prompts)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--layers", "0,9"], "has no layer 9; its layers are 0 to 3"),
        (["--layers", "3-1"], "'3-1' is not a layer; write numbers from 0, as in 0,4-7"),
        (["--probes", "rnak"], 'there is no probe "rnak"; did you mean "rank"?'),
        (["--probes", "gradients"], 'probe "gradients" differentiates the loss, which inspect does not do'),
        (["--texts", "0"], "--texts 0: give at least 1"),
        (["--tokens", "-1"], "--tokens -1: give at least 2"),
        (["--spectra", "0"], "--spectra 0: give at least 1"),
        (["--tokens", "500"], f"cut it with --tokens {POSITIONS}"),
        (["--save", "weights"], "--save weights: write --save states, or say with --cut 6"),
        (["--against", "nowhere/../else"], "is not there: name a run of splitstep"),
        (["--device", "abacus"], "--device abacus is not available"),
        (["--text", "missing.txt"], "there is no file of texts missing.txt"),
    ],
)
def test_wrong_options_are_one_line(
    folder: Path, tmp_path: Path, capsys: Capsys, words: list[str], message: str
) -> None:
    assert message in failure(capsys, "inspect", folder, "--out", tmp_path / "out", *words)[-1]
    assert not (tmp_path / "out").exists()


def test_a_folder_of_other_files_and_an_empty_file_of_texts_are_refused(
    folder: Path, tmp_path: Path, capsys: Capsys
) -> None:
    (tmp_path / "empty.txt").write_text("\n \n")
    assert "holds other files" in failure(capsys, "inspect", folder, "--out", tmp_path)[-1]
    line = failure(capsys, "inspect", folder, "--text", tmp_path / "empty.txt", "--out", tmp_path / "out")[-1]
    assert "empty.txt has no texts: write one text a line" in line


def broken(name: str, folder: Path) -> None:
    """A folder that cannot be looked into."""
    model = llama()
    if name == "images":
        shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
        model = ViTModel(ViTConfig(**shape, image_size=8, patch_size=4))
    if name == "another tokenizer":
        model.resize_token_embeddings(WORDS // 2)
    saved(folder, model, name == "another tokenizer")
    if name == "no model":
        (folder / "config.json").unlink()


MODELS = {  # and more of folders that do not load in tests/opening
    "images": r"takes pixel_values, and inspect reads texts: use ss\.observe\(",
    "no model": "is not a model: it has no config.json",
    "no tokenizer": "has no tokenizer: save one beside the model",
    "another tokenizer": "the tokenizer of .* does not match",
}


@pytest.mark.parametrize(("name", "message"), MODELS.items())
def test_what_cannot_be_looked_into_is_refused(name: str, message: str, tmp_path: Path, capsys: Capsys) -> None:
    broken(name, tmp_path / "model")
    assert re.search(message, failure(capsys, "inspect", tmp_path / "model", "--out", tmp_path / "out")[-1])


def test_a_model_whose_states_overflow_is_refused(tmp_path: Path, capsys: Capsys) -> None:
    model = llama()
    with torch.no_grad():
        model.model.layers[1].mlp.down_proj.weight.fill_(1e30)
    saved(tmp_path / "huge", model)
    message = failure(capsys, "inspect", tmp_path / "huge", "--out", tmp_path / "out")[-1]
    assert message.endswith("some of its states are too large to be numbers, so it cannot be measured")


PYTHON = """
import sys
import splitstep as ss
words = {"texts": ["The cat sat on the mat."] * 3, "tokens": 6, "probes": ("drift",), "against": "none"}
found = ss.inspect(sys.argv[1], **words, **({"progress": True} if len(sys.argv) > 2 else {}))
assert (found.texts, found.model.layers) == (3, 4)
"""


@pytest.mark.parametrize("progress", [[], ["progress"]])
def test_from_python_a_path_goes_to_the_same_folder_and_nothing_is_said_without_progress(
    folder: Path, tmp_path: Path, progress: list[str]
) -> None:
    """In a process of its own, which has not imported PyTorch before."""
    command = [sys.executable, "-c", PYTHON, str(folder), *progress]
    ended = subprocess.run(command, cwd=tmp_path, text=True, capture_output=True, check=True)
    assert ended.stdout == ""
    lines = ended.stderr.splitlines()
    assert lines[:1] == ([f"inspect  loading {folder}"] if progress else [])
    assert any("3 texts of at most 6 tokens: about" in line for line in lines) == bool(progress)
    there = tmp_path / "runs" / "inspect-llama"
    assert {one.name for one in there.iterdir()} >= {"report.html", "result.json", "units"}
