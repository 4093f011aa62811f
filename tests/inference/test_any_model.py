"""The verbs generate and evaluate take every model that the one loader opens, and do as transformers does."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import call, refusal
from tokenizer_kinds import word_level
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from splitstep.inference.evaluate import evaluate_model
from splitstep.tasks import corpora, task
from splitstep.tasks.batching import spans
from splitstep.text.tokenizers import byte_tokenizer
from splitstep.training import read_recipe, train

LINES = {"task": "stdlib", "data": {"limit": 3_000, "length": 16}}
TINY = {"layers": 1, "width": 8, "heads": 2, "ffn": 8}
LIMIT = "data.limit=3000"
SMALL: dict[str, Any] = {"n_embd": 8, "n_layer": 1, "n_head": 2, "initializer_range": 0.5}


def gpt2(folder: Path, tokenizer: Any, **entries: Any) -> Any:
    """A random GPT-2 of transformers, saved with a tokenizer."""
    torch.manual_seed(0)
    ends: dict[str, Any] = {"bos_token_id": None, "eos_token_id": None} | entries
    model = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), n_positions=24, **SMALL, **ends)).eval()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model


@pytest.fixture(scope="module")
def by_bytes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("bytes")
    return folder, gpt2(folder, PreTrainedTokenizerFast(tokenizer_object=byte_tokenizer()))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "lines"
    train(read_recipe({**LINES, "model": TINY, "train": {"steps": 1, "batch": 4}}, "recipe"), out, quiet=True)
    return out


def test_a_folder_of_transformers_continues_as_its_own_generate_does(
    by_bytes: tuple[Path, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, model = by_bytes
    found = call(capsys, "generate", folder, "--prompt", "def ", "--tokens", 15, "--temperature", 0)
    wanted = model.generate(torch.tensor([list(b"def ")]), max_new_tokens=15, do_sample=False)[0, 4:]
    assert found["text"] == bytes(wanted.tolist()).decode(errors="replace")
    assert (found["model"], found["stopped_by"]) == (str(folder), None)


def test_text_ends_at_the_model_s_own_end_of_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=word_level([f"w{i}" for i in range(20)]))
    options = ("--prompt", "w1 w2", "--tokens", 12, "--temperature", 0)
    gpt2(tmp_path / "endless", tokenizer)
    endless = call(capsys, "generate", tmp_path / "endless", *options)["text"].split()
    last = next(word for word in endless if word != endless[0])
    gpt2(tmp_path / "ends", tokenizer, eos_token_id=int(last[1:]))
    found = call(capsys, "generate", tmp_path / "ends", *options)
    assert found["text"].split() == endless[: endless.index(last)]
    assert found["stopped_by"] == last


def test_a_run_s_model_folder_writes_and_scores_as_the_run_does(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(run / "model", tmp_path / "model"))
    words = ("--prompt", "import ", "--tokens", 30)
    assert call(capsys, "generate", folder, *words)["text"] == call(capsys, "generate", run, *words)["text"]
    found, wanted = call(capsys, "evaluate", folder, "--task", "stdlib", LIMIT), call(capsys, "evaluate", run)
    assert found["figures"] == pytest.approx(wanted["figures"], rel=1e-6)
    assert found["scheme"] == wanted["scheme"]


def test_a_byte_model_of_transformers_is_scored_as_by_hand(
    by_bytes: tuple[Path, Any],
) -> None:
    folder, model = by_bytes
    found = evaluate_model(folder, "stdlib", [LIMIT], "valid")
    made = task("stdlib", {"limit": 3_000, "length": 24})
    assert isinstance(made, corpora.Language)
    losses: list[float] = []
    tokens = torch.from_numpy(made.arrays["valid"].astype("int64"))
    for start, first in spans(len(tokens), 24, 12):
        ids = tokens[start : start + 24]
        logs = model(ids[None]).logits[0].log_softmax(-1)
        losses += [-logs[i - 1, ids[i]].item() for i in range(first, len(ids))]
    assert found.figures["loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-5)
    assert (len(losses), found.scheme) == (len(tokens) - 1, None)


def test_models_that_do_not_fit_are_one_line(
    run: Path, tmp_path: Path, by_bytes: tuple[Path, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    small: dict[str, Any] = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    bert, swapped, many = tmp_path / "bert", tmp_path / "swapped", tmp_path / "many"
    BertModel(BertConfig(vocab_size=20, **small)).save_pretrained(bert)
    gpt2(swapped, PreTrainedTokenizerFast(tokenizer_object=word_level([f"w{i}" for i in range(256)])))
    gpt2(many, PreTrainedTokenizerFast(tokenizer_object=word_level(["a", "b"])))
    capsys.readouterr()  # saving draws bars
    assert "holds a BertModel, which does not continue text" in refusal(capsys, "generate", bert)
    for model, name, message in (
        (bert, "stdlib", 'holds a BertModel, and task "stdlib" needs a SplitstepForCausalLM: name a task'),
        (many, "stdlib", 'has vocab_size 2, and task "stdlib" has 256'),
        (swapped, "stdlib", 'has a tokenizer with other tokens than task "stdlib"'),
        (by_bytes[0], "digits", 'holds a GPT2LMHeadModel, and task "digits" needs a SplitstepForImageClassification'),
        (by_bytes[0], "numbers", '"numbers" needs a run: splitstep evaluate RUN'),
        (by_bytes[0], "text", "option train is missing"),
        (run, "stdlib", "is a run, which has its own task: leave out --task stdlib"),
    ):
        assert message in refusal(capsys, "evaluate", model, "--task", name)
    words = ("evaluate", by_bytes[0], "--task", "stdlib")
    assert "model.width=8 does not belong to the task" in refusal(capsys, *words, "model.width=8")
    assert 'no option "lenght"; did you mean "length"?' in refusal(capsys, *words, "data.lenght=8")
    assert "which has its own data: leave out data.length=8" in refusal(capsys, "evaluate", run, "data.length=8")
    assert "leave out --beams" in refusal(capsys, *words, "--beams", 2)
    assert "has no split" in refusal(capsys, *words, "--split", "tost", LIMIT)
    assert "--task stdlib" in refusal(capsys, "evaluate", by_bytes[0])
