"""A run begins from weights: what is taken over, what is new, what is refused, and that the start is needed once."""

import hashlib
import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from children import Child, everything, killed, trained
from safetensors.torch import load_file
from torch import Tensor

import splitstep as ss
from splitstep import cli
from splitstep.inference.predict import predict_run
from splitstep.models.inputs import Text
from splitstep.recipe import override
from splitstep.tasks import Task
from splitstep.text.subwords import learn_bpe, learn_wordpiece
from splitstep.text.tokenizers import save_tokenizer
from splitstep.training import RunDirectory, read_recipe, train
from splitstep.training.networks import build_model
from splitstep.training.processes import Processes
from splitstep.training.run import Run

SHAPE = {"layers": 2, "width": 16, "heads": 2, "ffn": 32}
TRAIN = {"steps": 4, "batch": 16, "warmup": 2, "evaluate_every": 2, "evaluate_batch": 400, "log_every": 2}
DIGITS: dict[str, Any] = {"task": "digits", "model": SHAPE, "train": TRAIN}
LISTOPS: dict[str, Any] = {
    "task": "listops", "data": {"train": 40, "valid": 10, "test": 10},
    "model": {**SHAPE, "positions": "rotary"}, "train": TRAIN,
}  # fmt: skip
LEARNED: dict[str, Any] = {**SHAPE, "positions": "learned"}
TEXTS = [f"the {film} {verb} {word}" for film in ("film", "plot") for verb in ("is", "was") for word in ("good", "bad")]
ALONE = Processes(0, 1, torch.device("cpu"))


def begun(document: dict[str, Any], out: Path, task: Task | None = None) -> Run:
    """A run that has not made a step."""
    given = read_recipe(document, "recipe")
    return Run(given, RunDirectory(out), task or given.load_task(), ALONE)


def weights(model: torch.nn.Module) -> dict[str, Tensor]:
    return {name: p.detach() for name, p in model.named_parameters()}


def fresh(document: dict[str, Any], task: Task) -> dict[str, Tensor]:
    """The weights of a run that starts from nothing."""
    return weights(build_model(read_recipe({**document, "start": None}, "recipe"), task))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("finished") / "run"
    trained(DIGITS, out)
    return out


def test_a_run_begins_with_the_weights_that_another_kept(finished: Path, tmp_path: Path) -> None:
    """All of them, bit for bit, from the run and from its model's folder; other dropouts and steps do no harm."""
    stored = load_file(finished / "model" / "model.safetensors")
    for start in (finished, finished / "model"):
        other = {**DIGITS, "start": str(start), "model": {**SHAPE, "dropout": 0.3}, "train": {**TRAIN, "seed": 5}}
        found = begun(other, tmp_path / "other")
        assert weights(found.model).keys() == stored.keys()
        assert all(torch.equal(x, stored[name]) for name, x in weights(found.model).items())
        assert (found.start.path, found.start.loaded, found.start.new, found.start.left) == (
            str(start), len(stored), [], [],
        )  # fmt: skip


def test_a_head_for_other_classes_is_new_and_comes_from_the_seed(tmp_path: Path) -> None:
    given = read_recipe(DIGITS, "recipe")
    task = given.load_task()
    config = given.config(task)
    config.num_labels = 7
    model = ss.SplitstepForImageClassification(config)  # pyright: ignore[reportArgumentType]
    model.save_pretrained(tmp_path / "seven")
    document = {**DIGITS, "start": str(tmp_path / "seven"), "train": {**TRAIN, "seed": 3}}
    found = begun(document, tmp_path / "run", task)
    assert (found.start.new, found.start.left) == (["head.weight", "head.bias"], ["head.bias", "head.weight"])
    theirs, new = weights(model), fresh(document, task)
    for name, x in weights(found.model).items():
        assert torch.equal(x, (new if name.startswith("head.") else theirs)[name]), name


@pytest.fixture
def masked(tmp_path: Path) -> tuple[Path, ss.SplitstepForMaskedLM, Task]:
    """A masked language model over the tokens of ListOps."""
    given = read_recipe(LISTOPS, "recipe")
    task = given.load_task()
    config = given.config(task)
    entries = {name: getattr(config, name) for name in ss.MaskedConfig.entries() if name in config.entries()}
    model = ss.SplitstepForMaskedLM(ss.MaskedConfig(**entries))
    model.save_pretrained(tmp_path / "masked")
    return tmp_path / "masked", model, task


def test_a_classifier_begins_with_the_encoder_of_a_masked_language_model(
    masked: tuple[Path, ss.SplitstepForMaskedLM, Task], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its states are the masked model's; the head is its own, and the other model's is left."""
    folder, model, task = masked
    document = {**LISTOPS, "start": str(folder)}
    found = begun(document, tmp_path / "run", task)
    assert isinstance(found.model, ss.SplitstepForSequenceClassification)
    ids = torch.randint(1, 5, (3, 9))
    assert torch.equal(found.model.eval().encoder(Text(ids)), model.eval().encoder(Text(ids)))
    new = fresh(document, task)
    assert all(torch.equal(weights(found.model)[name], new[name]) for name in ("head.weight", "head.bias"))
    result = train(read_recipe(document, "recipe"), tmp_path / "run")
    first = capsys.readouterr().err.splitlines()[0]
    loaded = len(weights(model.encoder))
    told = f"; starts from {folder}: {loaded} tensors loaded; new: head.weight, head.bias; left: "
    assert told in first
    assert result.start == found.start
    assert found.start.sha256 == hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    written = json.loads((tmp_path / "run" / "environment.json").read_text())["start"]
    assert written == result.document()["start"] == found.start._asdict()


@pytest.mark.parametrize(("changes", "needle"), [
    ({"model": {**SHAPE, "width": 32}}, "has width 16 (here 32): type model.width=16"),
    ({"model": {**SHAPE, "layers": 3}}, "has layers 2 (here 3): type model.layers=2"),
    ({"model": {**SHAPE, "heads": 4}}, "has heads 2 (here 4): type model.heads=2"),
    ({"model": {**SHAPE, "norm": "rms"}}, "has norm layer (here rms): type model.norm=layer"),
    ({"scheme": "F/2 A F/2"}, 'has scheme A F (here F/2 A F/2): type scheme="A F"'),
    ({"scheme": "macaron"}, 'ffn 32 (here [15, 15, 15, 16]): type scheme="A F" model.ffn=32 match=none'),
    ({"data": {"patch": 4}}, "use the data that it was trained on, which decide its patch"),
], ids=str)  # fmt: skip
def test_weights_that_mean_something_else_are_refused(
    changes: dict[str, Any], needle: str, finished: Path, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"^start: ") as caught:
        trained({**DIGITS, **changes, "start": str(finished)}, tmp_path / "run")
    assert needle in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_another_vocabulary_and_a_model_without_an_encoder_are_refused(
    masked: tuple[Path, ss.SplitstepForMaskedLM, Task], finished: Path, tmp_path: Path
) -> None:
    document = {**LISTOPS, "model": SHAPE, "start": str(finished)}
    with pytest.raises(ValueError, match="has no weights that this kind of model takes: name a model of the same kind"):
        trained(document, tmp_path / "run")
    folder, model, _ = masked
    model.resize_token_embeddings(99)
    model.save_pretrained(folder)
    with pytest.raises(ValueError, match=r"has vocab_size 99 \(here \d+\): use the data that it was trained on"):
        trained({**LISTOPS, "start": str(folder)}, tmp_path / "run")


def compared(place: Path) -> None:
    (place / "runs" / "lie-seed0").mkdir(parents=True)
    (place / "runs" / "lie-seed0" / "recipe.yaml").touch()


NO_START: list[tuple[Callable[[Path], Any], str]] = [
    (shutil.rmtree, "holds no model: name a finished run"),
    (lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"), "is a pickle, which can run code"),
    (lambda f: (f / "model.safetensors").write_bytes(b"{" * 100), "is damaged "),
    (
        lambda f: (f / "config.json").write_text("[]"),
        r"json is not a JSON object: copy it again, or train again",
    ),
    (lambda f: (f / "config.json").write_text('{"model_type": "bert"}'), "is a bert model: name one that splitstep"),
    (lambda f: (f / "recipe.yaml").write_text("task: digits\n"), "holds no model: name a finished run"),
    (compared, "holds several runs: name one of them"),
]


@pytest.mark.parametrize(("spoil", "needle"), NO_START, ids=range(len(NO_START)))
def test_what_is_no_start_is_one_line(
    spoil: Callable[[Path], Any], needle: str, finished: Path, tmp_path: Path
) -> None:
    start = Path(shutil.copytree(finished / "model", tmp_path / "place"))
    spoil(start)
    with pytest.raises(ValueError, match=needle) as caught:
        trained({**DIGITS, "start": str(start)}, tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_run_that_has_begun_needs_its_start_no_more(finished: Path, tmp_path: Path) -> None:
    """Killed after its first checkpoint, with the start gone: the same bits as a run that was never killed."""
    start, out = tmp_path / "start", tmp_path / "run"
    shutil.copytree(finished, start)
    document = {**DIGITS, "start": str(start), "train": {**TRAIN, "checkpoint_seconds": 0.0}}
    _, operations = Child(document, tmp_path / "whole").result()
    killed(document, out, operations * 6 // 10)
    assert list(out.glob("checkpoints/step-*"))
    shutil.rmtree(start)
    trained(document, out)
    assert everything(out) == everything(tmp_path / "whole")


def test_a_start_that_changed_before_the_first_checkpoint_is_refused(finished: Path, tmp_path: Path) -> None:
    start, out = tmp_path / "start", tmp_path / "run"
    shutil.copytree(finished / "model", start)
    document = {**DIGITS, "start": str(start)}
    trained(document, out)
    shutil.rmtree(out / "checkpoints")
    (out / "result.json").unlink()
    found = begun(DIGITS, tmp_path / "other")
    found.model.save_pretrained(start)
    with pytest.raises(ValueError, match=r"began with other weights to start from, by the hashes in environment\.json"):
        trained(document, out)


def fluent(folder: Path, **more: Any) -> Path:
    """The folder of a masked language model with its tokenizer. Its vocabulary is larger than the tokenizer's, and
    position 40 is the last."""
    torch.manual_seed(0)
    config = {**LEARNED, "vocab_size": 320, "max_positions": 40, "token_types": 2, "init_std": 0.3} | more
    ss.SplitstepForMaskedLM(ss.MaskedConfig(**config)).save_pretrained(folder)
    save_tokenizer(folder, learn_wordpiece(TEXTS * 2, 300), {"pad_token": "[PAD]"})
    return folder


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fluent(tmp_path_factory.mktemp("masked"))


def classifier(start: Path, **more: Any) -> dict[str, Any]:
    model = {**LEARNED, "pool": "first", "head_start": "zero"}
    return {"task": "classify", "model": model, "train": TRAIN, "start": str(start), **more}


def vocabulary(folder: Path) -> dict[str, int]:
    return json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]


def test_the_body_and_the_tokens_are_those_of_the_start_and_the_head_is_zero(start: Path, tmp_path: Path) -> None:
    run = begun(classifier(start), tmp_path / "run")
    task: Any = run.task
    assert task.reader.tokenizer.get_vocab() == vocabulary(start)
    assert task.shape == {"vocab_size": 320, "max_length": 40, "labels": 2, "token_types": 2}
    stored, now = load_file(start / "model.safetensors"), weights(run.model)
    body = [name for name in now if name.startswith("encoder.")]
    assert body
    assert all(torch.equal(now[name], stored[name]) for name in body)
    assert set(now) - set(body) == {"head.weight", "head.bias"}
    assert not now["head.weight"].any()
    told = f"starts from {start}: {len(body)} tensors loaded; new: head.weight, head.bias; left: "
    assert run.start.summary().startswith(told)


def test_a_finished_run_no_longer_needs_its_start(start: Path, tmp_path: Path, capsys: Any) -> None:
    """It is evaluated and used for predictions with the tokenizer in its own folder; its figures are the same. Another
    run starts from it, with two texts after one: the tokenizer, the types and the positions are passed on."""
    copy = Path(shutil.copytree(start, tmp_path / "start"))
    result = trained(classifier(copy), tmp_path / "one")
    shutil.rmtree(copy)
    assert vocabulary(tmp_path / "one/model") == vocabulary(start)
    assert cli.main(["evaluate", str(tmp_path / "one"), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)["figures"]
    assert figures["accuracy"] == pytest.approx(result.test["accuracy"])
    assert len(predict_run(tmp_path / "one", ["the film is good"]).outputs) == 1
    rows = "".join(f"{a},{b},{a[-3:] == b[-3:]}\n" for a in TEXTS for b in TEXTS)
    (tmp_path / "pairs.csv").write_text(f"text,text2,label\n{rows}")
    given = classifier(tmp_path / "one", data={"train": str(tmp_path / "pairs.csv")})
    assert not trained(given, tmp_path / "two").start.new  # as many classes, so even the head is taken


def test_what_the_refusal_of_another_scheme_says_to_type_is_accepted(tmp_path: Path) -> None:
    document = classifier(fluent(tmp_path / "start", scheme="macaron", ffn=[15, 16, 16, 17]))
    with pytest.raises(ValueError, match="match=none") as error:
        begun(document, tmp_path / "run")
    typed = shlex.split(str(error.value).partition(": type ")[2])
    assert begun(override(document, typed), tmp_path / "run").model.config.ffn == [15, 16, 16, 17]


def test_a_start_without_the_marks_of_sentences_or_with_fewer_positions_is_refused(start: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(start, tmp_path / "start"))
    with pytest.raises(ValueError, match=r"option length is 100, and .* reads 40 tokens: use at most 40"):
        begun(classifier(folder, data={"length": 100}), tmp_path / "run")
    document = json.loads(learn_bpe(TEXTS, 300).to_str())
    document["added_tokens"] = []
    for mark in ("[CLS]", "[SEP]"):
        document["model"]["vocab"][mark.strip("[]")] = document["model"]["vocab"].pop(mark)
    (folder / "tokenizer.json").write_text(json.dumps(document))
    with pytest.raises(ValueError, match=r"start has a tokenizer without \[CLS\] and \[SEP\]"):
        begun(classifier(folder), tmp_path / "run")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ValueError, match=r"start holds no tokenizer.json: name a finished run"):
        begun(classifier(folder), tmp_path / "run")
