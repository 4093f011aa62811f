"""A classifier starts from a masked language model: its tokenizer, its body, a new head; what differs is refused."""

import json
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from splitstep import cli
from splitstep.inference.predict import predict_run
from splitstep.models import MaskedConfig, SplitstepForMaskedLM
from splitstep.recipe import override
from splitstep.text.subwords import learn_bpe, learn_wordpiece
from splitstep.text.tokenizers import save_tokenizer
from splitstep.training import Recipe, RunDirectory, read_recipe, train
from splitstep.training.processes import Processes
from splitstep.training.run import Run

SHAPE: dict[str, Any] = {"layers": 2, "width": 16, "heads": 2, "ffn": 32, "positions": "learned"}
TRAIN = {"steps": 4, "batch": 16, "warmup": 2, "evaluate_every": 2, "evaluate_batch": 64}
TEXTS = [f"the {film} {verb} {word}" for film in ("film", "plot") for verb in ("is", "was") for word in ("good", "bad")]
ALONE = Processes(0, 1, torch.device("cpu"))


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPLITSTEP_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def masked(folder: Path, **more: Any) -> Path:
    """The folder of a masked language model with its tokenizer. Its vocabulary is larger than the tokenizer's, and
    position 40 is the last."""
    torch.manual_seed(0)
    config = {**SHAPE, "vocab_size": 320, "max_positions": 40, "token_types": 2, "init_std": 0.3} | more
    SplitstepForMaskedLM(MaskedConfig(**config)).save_pretrained(folder)
    save_tokenizer(folder, learn_wordpiece(TEXTS * 2, 300), {"pad_token": "[PAD]"})
    return folder


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return masked(tmp_path_factory.mktemp("masked"))


def recipe(start: Path, **more: Any) -> Recipe:
    model = {**SHAPE, "pool": "first", "head_start": "zero", **more.pop("model", {})}
    document = {"task": "classify", "model": model, "train": TRAIN, "start": str(start), **more}
    return read_recipe(document, "recipe")


def begun(given: Recipe, out: Path) -> Run:
    return Run(given, RunDirectory(out), given.load_task(), ALONE)


def test_the_body_is_that_of_the_start_and_the_head_is_zero(start: Path, tmp_path: Path) -> None:
    run = begun(recipe(start), tmp_path / "run")
    stored, now = load_file(start / "model.safetensors"), dict(run.model.named_parameters())
    body = [name for name in now if name.startswith("encoder.")]
    assert body
    assert all(torch.equal(now[name], stored[name]) for name in body)
    assert set(now) - set(body) == {"head.weight", "head.bias"}
    assert not now["head.weight"].any()
    assert run.start is not None
    assert run.start.summary().startswith(
        f"starts from {start}: {len(body)} tensors loaded; new: head.weight, head.bias"
    )
    assert "left: " in run.start.summary()


def test_the_tokens_are_those_of_the_start(start: Path, tmp_path: Path) -> None:
    given = recipe(start)
    task: Any = given.load_task()
    tokenizer = json.loads((start / "tokenizer.json").read_text())["model"]["vocab"]
    assert task.reader.tokenizer.get_vocab() == tokenizer
    assert task.shape == {"vocab_size": 320, "max_length": 40, "labels": 2, "token_types": 2}
    train(given, tmp_path / "run", quiet=True)
    saved = json.loads((tmp_path / "run/model/tokenizer.json").read_text())["model"]["vocab"]
    assert saved == tokenizer


def test_a_finished_run_no_longer_needs_its_start(start: Path, tmp_path: Path, capsys: Any) -> None:
    """It is evaluated and used for predictions with the tokenizer in its own folder; its figures are the same."""
    copy = tmp_path / "start"
    shutil.copytree(start, copy)
    result = train(recipe(copy), tmp_path / "run", quiet=True)
    shutil.rmtree(copy)
    assert cli.main(["evaluate", str(tmp_path / "run"), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)["figures"]
    assert result.test is not None
    assert figures["accuracy"] == pytest.approx(result.test["accuracy"])
    assert len(predict_run(tmp_path / "run", ["the film is good"]).outputs) == 1


def test_a_classifier_starts_from_a_run_of_a_classifier(start: Path, tmp_path: Path) -> None:
    """Two texts after one: the tokenizer, the types and the positions are passed on from start to start."""
    train(recipe(start), tmp_path / "one", quiet=True)
    rows = "".join(f"{a},{b},{a[-3:] == b[-3:]}\n" for a in TEXTS for b in TEXTS)
    (tmp_path / "pairs.csv").write_text(f"text,text2,label\n{rows}")
    given = recipe(tmp_path / "one", data={"train": str(tmp_path / "pairs.csv")})
    result = train(given, tmp_path / "two", quiet=True)
    assert result.start is not None
    assert not result.start.new  # as many classes, so even the head is taken


def test_a_zero_head_gives_all_classes_the_same_probability(tmp_path: Path) -> None:
    for head, equal in (("zero", True), ("drawn", False)):
        given = read_recipe({"task": "classify", "model": {**SHAPE, "head_start": head}, "train": TRAIN}, "recipe")
        run = begun(given, tmp_path / head)
        batch = run.task.batch(0, 0, 8)
        with torch.no_grad():
            logits = run.model(**{name: x for name, x in batch.items() if name != "labels"}).logits
        assert bool((logits == 0).all()) == equal


@pytest.mark.parametrize(
    ("there", "here", "message"),
    [
        ({"width": 32}, {}, r"has width 32 \(here 16\): type model.width=32"),
        ({"scheme": "macaron"}, {}, r'has scheme F0/2 A F1/2 \(here A F\): type scheme="F0/2 A F1/2"'),
        ({"layers": 3}, {}, r"has layers 3 \(here 2\): type model.layers=3"),
        ({}, {"data": {"length": 100}}, r"option length is 100, and .* reads 40 tokens: use at most 40"),
    ],
)
def test_a_start_of_another_shape_is_refused_with_what_to_type(
    there: dict[str, Any], here: dict[str, Any], message: str, tmp_path: Path
) -> None:
    folder = masked(tmp_path / "start", **there)
    with pytest.raises(ValueError, match=message) as error:
        begun(recipe(folder, **here), tmp_path / "run")
    assert "\n" not in str(error.value)


def test_what_the_refusal_of_another_scheme_says_to_type_is_accepted(tmp_path: Path) -> None:
    folder = masked(tmp_path / "start", scheme="macaron", ffn=[15, 16, 16, 17], layers=2)
    with pytest.raises(ValueError, match="match=none") as error:
        begun(recipe(folder), tmp_path / "run")
    typed = shlex.split(str(error.value).partition(": type ")[2])
    document = override(recipe(folder).document(), typed)
    run = begun(read_recipe(document, "recipe"), tmp_path / "run")
    assert run.start is not None
    assert run.model.config.ffn == [15, 16, 16, 17]


def test_a_start_without_the_marks_of_sentences_is_refused(start: Path, tmp_path: Path) -> None:
    shutil.copytree(start, tmp_path / "start")
    words = learn_bpe(TEXTS, 300)
    document = json.loads(words.to_str())
    document["added_tokens"] = []
    for mark in ("[CLS]", "[SEP]"):
        document["model"]["vocab"][mark.strip("[]")] = document["model"]["vocab"].pop(mark)
    (tmp_path / "start/tokenizer.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match=r"start has a tokenizer without \[CLS\] and \[SEP\]"):
        begun(recipe(tmp_path / "start"), tmp_path / "run")
    (tmp_path / "start/tokenizer.json").unlink()
    with pytest.raises(ValueError, match=r"start holds no tokenizer.json"):
        begun(recipe(tmp_path / "start"), tmp_path / "run")


def test_a_missing_start_is_one_line(tmp_path: Path, capsys: Any) -> None:
    words = ["train", "classify", f"start={tmp_path / 'nowhere'}", "--out", str(tmp_path / "run")]
    assert cli.main(words) == 2
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert "nowhere holds no tokenizer.json: name a finished run" in printed
