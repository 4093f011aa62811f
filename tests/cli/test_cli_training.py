"""The verbs of training: train, evaluate, generate, compare; and one clear line for everything that is wrong."""

import io
import json
import math
import os
import re
import signal
import time
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from children import Program
from commands import Capsys, Patch, call, refusal
from inline import here
from safetensors.torch import load_file, save_file

from splitstep import cli
from splitstep.experiments import running
from splitstep.inference import runs

TINY = """
task: digits
data: {patch: 4}
model: {layers: 2, width: 16, heads: 2, ffn: 64}
train: {steps: 6, batch: 8, evaluate_every: 3, log_every: 1}
"""
TEXT = """
task: text
data: {path: [book.txt], length: 16}
model: {layers: 1, width: 16, heads: 2, ffn: 32, positions: rotary}
train: {steps: 4, batch: 4, log_every: 1}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: Patch) -> Path:
    """A working directory with recipes, and runs in this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "open_engine", here)
    (tmp_path / "tiny.yaml").write_text(TINY)
    (tmp_path / "text.yaml").write_text(TEXT)
    (tmp_path / "book.txt").write_text(
        "It was a bright cold day in April, and the clocks were striking thirteen. " * 40
    )
    return tmp_path


def test_train_evaluate_and_reuse(folder: Path, capsys: Capsys) -> None:
    result = call(capsys, "train", "tiny.yaml", "scheme=macaron", "train.lr=2e-3", "--out", "run")
    assert result == json.loads((folder / "run" / "result.json").read_text())
    assert (result["status"], result["recipe"]["train"]["lr"]) == ("finished", 2e-3)
    found = call(capsys, "evaluate", "run", "--out", "figures")
    assert found["figures"] == pytest.approx(result["test"], abs=1e-6)
    assert json.loads((folder / "figures" / "result.json").read_text()) == found
    assert call(capsys, "evaluate", "run", "--split", "valid")["figures"] == pytest.approx(result["valid"], abs=1e-6)
    assert cli.main(["evaluate", "run", "--split", "valid"]) == 0
    sentence, _, first, *_ = capsys.readouterr().out.splitlines()
    assert sentence == f"digits: accuracy {result['valid']['accuracy']:.2%} on valid."
    assert first.split() == ["split", "valid"]
    for option in ("--beams", "--length-penalty"):
        assert "has no translations to search for" in refusal(capsys, "evaluate", "run", option, "1")
    before = (folder / "run" / "result.json").stat().st_mtime_ns
    assert cli.main(["train", "tiny.yaml", "scheme=macaron", "train.lr=2e-3", "--out", "run"]) == 0
    printed = capsys.readouterr().out
    assert (folder / "run" / "result.json").stat().st_mtime_ns == before
    for word in ("finished", "macaron", "F0/2 A F1/2", "parameters of lie", "FLOPs per token", "F0 31", "run/model"):
        assert word in printed
    assert f"{result['cost']['parameters']:,}" in printed


def test_a_run_is_evaluated_in_another_folder_with_the_one_that_its_files_are_named_from(
    folder: Path, capsys: Capsys, monkeypatch: Patch
) -> None:
    result = call(capsys, "train", "text.yaml", "--out", "run")
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    assert 'no file or folder "book.txt", here or in' in (told := refusal(capsys, "evaluate", "../run"))
    assert ": add --data DIR, where it is DIR/book.txt" in told
    found = call(capsys, "evaluate", "../run", "--data", "..")
    assert found["figures"] == pytest.approx(result["test"], abs=1e-6)


def test_a_run_that_diverges_is_a_result_and_a_failure(folder: Path, capsys: Capsys) -> None:
    words = ("train", "tiny.yaml", "train.lr=1e30", "train.warmup=0", "train.clip=0", "--out", "run")
    for again in ((), ("--json",)):  # the second time it is read from the disk
        assert cli.main((*words, *again)) == 1
        printed = capsys.readouterr()
        assert ("diverged at step" if not again else '"status": "diverged"') in printed.out
        [line] = [line for line in printed.err.splitlines() if line.startswith("The run")]
        assert re.fullmatch(r"The run diverged at step \d+ \(loss .*\), so there is no model: lower train.lr.*", line)
    assert json.loads((folder / "run" / "result.json").read_text())["status"] == "diverged"
    assert "has no model" in refusal(capsys, "evaluate", "run")


def test_generate_goes_on_from_a_prompt_and_depends_on_the_seed(folder: Path, capsys: Capsys) -> None:
    call(capsys, "train", "text.yaml", "--out", "run")
    words = ("generate", "run", "--prompt", "It was ", "--tokens", "40")
    one = call(capsys, *words)
    assert one == call(capsys, *words)
    assert len(one["text"].encode()) >= 1
    assert one["text"] != call(capsys, *words, "--seed", "1")["text"]
    greedy = call(capsys, *words, "--temperature", "0")
    assert greedy["text"] == call(capsys, *words, "--temperature", "0", "--seed", "5")["text"]
    assert cli.main(words) == 0
    assert capsys.readouterr().out.startswith("It was ")
    assert "prompt is empty" in refusal(capsys, "generate", "run", "--prompt", "")
    for tokens in ("0", str(10**12)):
        told = refusal(capsys, "generate", "run", "--tokens", tokens)
        assert f"at least one token and at most 1,000,000; got {tokens}" in told
    assert "below 2^63" in refusal(capsys, "generate", "run", "--seed", str(2**63))
    assert "the run's own directory" in refusal(capsys, "generate", "run", "--out", "run")
    call(capsys, "train", "tiny.yaml", "--out", "digits")
    assert 'task "digits" has no text' in refusal(capsys, "generate", "digits")


class Flushed(io.StringIO):
    """A stream that notes what a reader has after each flush."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def flush(self) -> None:
        self.seen.append(self.getvalue())


def test_generate_prints_text_as_it_comes_up_to_a_stop_word(folder: Path, capsys: Capsys, monkeypatch: Patch) -> None:
    call(capsys, "train", "text.yaml", "--out", "run")
    words = ("generate", "run", "--prompt", "It was é", "--tokens", "60", "--temperature", "1.5", "--top-k", "90")
    whole = call(capsys, *words)
    assert (whole["top_k"], whole["top_p"], whole["stopped_by"]) == (90, None, None)
    printed = Flushed()
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", printed)
        assert cli.main(words) == 0
    assert printed.getvalue() == f"It was é{whole['text']}\n"
    assert len(set(printed.seen)) > 20
    assert printed.seen[0].startswith("It was é")
    assert len(printed.seen[0]) <= len("It was é") + 1
    stop = whole["text"][20:23]
    ended = call(capsys, *words, "--stop", stop, "--stop", "never written")
    assert ended["text"] == whole["text"][: whole["text"].index(stop)]
    assert (ended["stop"], ended["stopped_by"]) == ([stop, "never written"], stop)
    assert call(capsys, *words, "--top-p", "1e-9")["text"] == call(capsys, *words[:-4], "--temperature", "0")["text"]


def test_generate_needs_no_data_but_for_runs_of_older_versions(folder: Path, capsys: Capsys) -> None:
    call(capsys, "train", "text.yaml", "--out", "run")
    words = ("generate", "run", "--prompt", "It was the best of times, é", "--tokens", "20", "--temperature", "0")
    (folder / "book.txt").rename(folder / "hidden.txt")
    assert cli.main((*words, "--json")) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / "run" / "model" / name).unlink()
    assert 'no file or folder "book.txt"' in refusal(capsys, *words)
    (folder / "hidden.txt").rename(folder / "book.txt")
    assert call(capsys, *words) == json.loads(printed.out)


@pytest.mark.parametrize("scheme", ["lie", "strang-midpoint", "reversible"])
def test_text_longer_than_a_window_begins_again_at_its_half(scheme: str, folder: Path, capsys: Capsys) -> None:
    """Brute force without a cache; windows hold 16 tokens."""
    from transformers import AutoModelForCausalLM

    call(capsys, "train", "text.yaml", f"scheme={scheme}", "--out", "run")
    words = ("generate", "run", "--prompt", "It was the best", "--tokens", "30", "--temperature", "0")
    text = call(capsys, *words)["text"]
    model = AutoModelForCausalLM.from_pretrained(folder / "run" / "model").eval()
    length = runs.open_run(folder / "run").task.length
    ids, start = list(b"It was the best"), 0
    for _ in range(30):
        if len(ids) - start > length:
            start = len(ids) - length // 2
        ids.append(int(model(torch.tensor([ids[start:]]), use_cache=False).logits[0, -1].argmax()))
    assert start > 0
    assert bytes(ids[15:]).decode(errors="replace") == text


def test_compare_prints_a_table_and_writes_result_and_page(folder: Path, capsys: Capsys) -> None:
    words = ("compare", "tiny.yaml", "--schemes", "lie,macaron", "--seeds", "2", "--out", "out")
    assert cli.main(words) == 0
    printed = capsys.readouterr()
    for word in ("accuracy, test", "against the", "macaron", "parameters", "FLOPs/token", "tokens/s", "Matched"):
        assert word in printed.out
    assert sum(line.startswith("[") for line in printed.err.splitlines()) == 4
    assert sorted(os.listdir(folder / "out")) == ["report.html", "result.json", "runs"]
    document = call(capsys, *words)
    assert document == {**json.loads((folder / "out" / "result.json").read_text())}
    assert document["command"] == "splitstep compare tiny.yaml --schemes lie,macaron --seeds 2 --out out --json"
    assert [row["name"] for row in document["rows"]] == ["lie", "macaron"]
    assert str(folder) not in (folder / "out" / "result.json").read_text()


def test_compare_takes_the_recipe_of_the_task_and_a_sweep(folder: Path, capsys: Capsys) -> None:
    document = call(
        capsys, "compare", "train.steps=2", "model.layers=1", "train.seed=7", "--task", "digits", "--schemes", "lie",
        "--seeds", "1",
        "--out", "out", "--sweep", "train.lr=1e-3,1e-2", "--match", "flops",
    )  # fmt: skip
    assert document["match"] == "flops"
    assert document["seeds"] == [t["seed"] for t in document["trials"]][:1] == [7]
    assert [t["setting"] for t in document["trials"]] == [["train.lr=1e-3"], ["train.lr=1e-2"]]
    assert {t["steps"] for t in document["trials"]} == {2}


def test_a_test_figure_that_is_no_number_is_shown_and_spoils_no_table(
    folder: Path, capsys: Capsys, monkeypatch: Patch
) -> None:
    """Of one seed of two: the other is the mean. What was written can be read and drawn again."""
    ending: Any = import_module("splitstep.training.evaluate")  # the package's attribute is the function
    evaluate, bad = ending.evaluate, ["test"]

    def broken(model: Any, task: Any, split: str, *rest: Any) -> dict[str, float]:
        found = evaluate(model, task, split, *rest)
        return dict.fromkeys(found, math.nan) if split in bad else found

    monkeypatch.setattr(ending, "evaluate", broken)
    words = ("train", "tiny.yaml", "--out", "run")
    assert cli.main(words) == 0
    assert re.search(r"accuracy +test nan%, valid \d", capsys.readouterr().out)
    assert call(capsys, *words)["test"] == {"loss": "nan", "accuracy": "nan"}
    words = ("compare", "tiny.yaml", "--schemes", "lie,reverse-lie", "--out", "out", "--seeds")
    assert cli.main((*words, "1")) == 0
    printed = capsys.readouterr()
    assert "1 of 1 not finite" in printed.out
    assert "runs/lie-seed0: accuracy nan%" in printed.err
    bad.clear()
    document = call(capsys, *words, "2")
    trials = [trial for trial in document["trials"] if trial["scheme"] == "A F"]
    assert [trial["test"]["accuracy"] == "nan" for trial in trials] == [True, False]
    assert (document["rows"][0]["finished"], document["rows"][0]["not_finite"]) == (2, 1)
    assert document["rows"][0]["test"]["mean"] == trials[1]["test"]["accuracy"]
    assert cli.main(["report", "out", "--markdown"]) == 0
    assert "1 of 2 not finite" in capsys.readouterr().out


@pytest.mark.parametrize("words", [("evaluate",), ("evaluate", "--json"), ("generate", "--temperature", "0")])
def test_a_model_whose_output_is_no_number_is_no_traceback(
    folder: Path, capsys: Capsys, words: tuple[str, ...]
) -> None:
    call(capsys, "train", "text.yaml", "--out", "run")
    file = folder / "run" / "model" / "model.safetensors"
    save_file({name: x * 1e38 for name, x in load_file(file).items()}, file, {"format": "pt"})
    verb, *options = words
    if verb == "generate":
        assert "the model's output is not a number" in refusal(capsys, verb, "run", *options)
        return
    assert cli.main([verb, "run", *options]) == 0
    printed = capsys.readouterr().out
    assert "nan" in printed
    assert not options or json.loads(printed)["figures"]["loss"] == "nan"


TRAIN = ("train", "tiny.yaml", "--out", "out")
COMPARE = ("compare", "tiny.yaml", "--schemes", "lie,macaron", "--out", "out")


HALF = "the environment has {}; torchrun and accelerate launch set RANK, LOCAL_RANK, WORLD_SIZE"
NUMBER = "the environment's {} is 'x', and must be a whole number"


@pytest.mark.parametrize(
    ("found", "words", "told"),
    [
        ("WORLD_SIZE=2", COMPARE, "without torchrun"),
        ("WORLD_SIZE=x", COMPARE, NUMBER.format("WORLD_SIZE")),
        *((f"{name}=x", TRAIN, NUMBER.format(name)) for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_PORT")),
        *((one, TRAIN, HALF.format(one)) for one in ("RANK=1", "WORLD_SIZE=2", "RANK=2, LOCAL_RANK=0, WORLD_SIZE=2")),
    ],
)
def test_what_a_launcher_sets_is_whole_or_refused(
    folder: Path, capsys: Capsys, monkeypatch: Patch, found: str, words: Any, told: str
) -> None:
    for entry in found.split(", "):
        monkeypatch.setenv(*entry.split("="))
    assert told in refusal(capsys, *words)
    assert not (folder / "out").exists()


def test_no_verb_overwrites_the_result_of_a_run_or_a_comparison(folder: Path, capsys: Capsys) -> None:
    for out in ("run", "other"):
        call(capsys, "train", "tiny.yaml", "--out", out)
    words = ("--schemes", "lie,reverse-lie", "--seeds", "1", "--engine", "local=1")
    call(capsys, "compare", "tiny.yaml", *words, "--out", "compared")
    before = {file: file.read_bytes() for file in folder.glob("*/result.json")}
    assert len(before) == 3
    for words in (("evaluate", "run"), ("schemes", "lie"), ("report", "compared")):
        assert "belongs to a single run" in refusal(capsys, *words, "--out", "other")
        assert "holds a comparison" in refusal(capsys, *words, "--out", "compared")
    assert "belongs to another run" in refusal(capsys, "train", "tiny.yaml", "train.lr=0.5", "--out", "run")
    again = ("compare", "tiny.yaml", "--schemes", "lie,macaron", "--out", "run")
    assert "belongs to a single run" in refusal(capsys, *again)
    assert {file: file.read_bytes() for file in folder.glob("*/result.json")} == before
    (folder / "run" / "result.json").unlink()
    assert "has not finished" in refusal(capsys, "evaluate", "run")
    for text in ("{}", "[]", "{"):
        (folder / "other" / "result.json").write_text(text)
        assert "result.json is damaged" in refusal(capsys, "evaluate", "other")
        assert "result.json is damaged" in refusal(capsys, "train", "tiny.yaml", "--out", "other")


def test_a_start_that_fails_leaves_the_directory_free(folder: Path, capsys: Capsys, monkeypatch: Patch) -> None:
    for error, message in (
        (PermissionError(13, "Permission denied", "book.txt"), "book.txt: Permission denied"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 TB"), "too little memory"),
        (MemoryError("Unable to allocate 4 TB for an array"), "too little memory"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr("splitstep.training.loop.Run", Mock(side_effect=error))
            assert message in refusal(capsys, "train", "tiny.yaml", "--out", "out")
        assert not (folder / "out").exists()


def workers_of(pid: int) -> list[int]:
    """The spawned worker processes of a process, those that are gone or dead left out."""
    import psutil

    children = psutil.Process(pid).children() if psutil.pid_exists(pid) else []
    return [child.pid for child in children if "spawn_main" in " ".join(child.cmdline())]


@pytest.mark.slow
@pytest.mark.parametrize(
    "end", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly), signal.SIGKILL]
)
def test_nobody_works_on_after_the_end(tmp_path: Path, end: signal.Signals) -> None:
    import psutil

    (tmp_path / "tiny.yaml").write_text(TINY)
    words = ["compare", "tiny.yaml", "train.steps=1000000", "--schemes", "lie,reverse-lie", "--seeds", "1"]
    parent = Program([*words, "--out", "out", "--engine", "local=2"], tmp_path)
    limit = time.monotonic() + 100
    while len(list(tmp_path.glob("out/runs/*/metrics.jsonl"))) < 2 and time.monotonic() < limit:
        time.sleep(0.1)
    workers = workers_of(parent.pid)
    assert len(workers) == 2
    if end == signal.SIGINT:
        os.killpg(parent.pid, end)  # as a terminal does
    else:
        parent.send_signal(end)
    _, errors = parent.communicate(timeout=60)
    if end != signal.SIGKILL:
        assert parent.returncode == 128 + end
        assert errors.splitlines()[-1] == "Error: interrupted: the same command continues, and keeps what is finished."
        assert "Traceback" not in errors
    limit = time.monotonic() + 30
    while any(map(psutil.pid_exists, workers)) and time.monotonic() < limit:
        time.sleep(0.1)
    assert not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" for pid in workers)


def test_an_ablation_s_directory_of_something_else_is_refused(tmp_path: Path, capsys: Capsys) -> None:
    (tmp_path / "recipe.yaml").write_text("task: digits\n")
    (tmp_path / "file").write_text("")
    other = tmp_path / "study" / "runs" / "full-lr0.002-seed2"  # it may be needed last, and nothing is trained before
    other.mkdir(parents=True)
    (other / "recipe.yaml").write_text("task: digits\ntrain: {steps: 7}\n")
    for out, says in (
        (tmp_path, "belongs to a single run"),
        (tmp_path / "file", "is not a directory"),
        (tmp_path / "study", "full-lr0.002-seed2 belongs to another run"),
    ):
        assert says in refusal(capsys, "ablate", "--task", "digits", "--out", out)
