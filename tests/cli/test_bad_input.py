"""Wrong input gets one clear line that says what was given, what is needed and what to do instead."""

import json
import math
import pickle
import re
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from children import Program
from commands import error_of
from inline import here
from rubbish import KINDS, sound, spoilt
from transformers.utils import logging

import splitstep as ss
from splitstep import cli
from splitstep.experiments import running
from splitstep.shape import FORMAT

TINY: dict[str, Any] = {"layers": 1, "width": 8, "heads": 2, "ffn": 8}


def refused(wrong: Callable[[], object], *words: str) -> None:
    """The call is refused in one line that holds these words."""
    with pytest.raises(ValueError, match=r".") as error:
        wrong()
    text = str(error.value)
    assert "\n" not in text
    for word in words:
        assert word in text, text


# Configurations; wrong notations are in tests/core/test_notation.py, and more in tests/models/test_model_refusals.py


CONFIGS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"scheme": "macron"}, ("macron", "Did you mean macaron?")),
    ({"scheme": "no-such-row"}, ("Unknown scheme 'no-such-row'", "lie, lie-postnorm", "F0/2 A F1/2")),
    ({"scheme": "A F F"}, ("Field F advances by 2",)),
    ({"scheme": "A G F"}, ("'A G F'", "needs a field G", "A (attention)", "F (feed-forward)", "N, M, P")),
    ({"kv_heads": 3}, ("2 heads cannot share 3 key-value heads",)),
    *(({name: 0}, (f"{name}=0", "positive")) for name in ("heads", "width", "ffn", "vocab_size", "kv_heads")),
    *(({name: -1}, (f"{name}=-1", "positive")) for name in ("layers", "kv_heads")),
    *(({name: -1.0}, (f"{name}=-1.0", "positive")) for name in ("norm_eps", "init_std")),
    *(({"step": x}, (f"step={x}", "positive")) for x in (0.0, math.nan, math.inf)),
    *(({name: 10**20}, (f"{name}={10**20} is too large",)) for name in ("max_positions", "vocab_size")),
    ({"token_types": 10**12}, (f"token_types={10**12}", "at most 100,000,000")),
    ({"layers": 10**8}, ("layers=100000000 is too large", "at most 10,000.")),
    ({"width": 10**12, "heads": 1}, (f"width={10**12} is too large", "at most 100,000,000.")),
    ({"ffn": 10**9}, ("ffn=1000000000 is too large", "at most 100,000,000.")),
    ({"ffn": [8, 8, 8]}, ("ffn lists 3 widths", "1 feed-forward field.")),
    ({"dropout": 1.0}, ("dropout=1.0", "[0, 1)")),
    ({"attention_dropout": -0.1}, ("attention_dropout=-0.1", "[0, 1)")),
    ({"activation": "gellu"}, ("activation='gellu'", "'gelu'")),
    ({"norm": "layr"}, ("norm='layr'", "Did you mean 'layer'?")),
    ({"dropuot": 0.1}, ("dropuot=0.1", "did you mean dropout?")),
    ({"n_layer": 3}, ("n_layer=3", "did you mean layers?")),
    ({"zzz": 3}, ("zzz=3", "the entries are", "scheme")),
    ({"pad_token_id": 300}, ("pad_token_id=300", "vocab_size=256")),
    ({"activation": {"F0": "relu"}}, ("activation={'F0': 'relu'}", "feed-forward fields: F.")),
    ({"activation": {"F": "rellu"}}, ("activation='rellu'", "Did you mean 'relu'?")),
    ({"letters": {"A": {"bias_start": 1.0}}}, ("letters.A.bias_start=1.0", "positions=rotary")),
    ({"rotary_bias": 1.0, "positions": "rotary", "bias": False}, ("letters.A.bias_start=1.0", "bias=true")),
    ({"rotary_bias": math.inf, "positions": "rotary"}, ("letters.A: option bias_start is inf", "finite")),
    ({"layers": "two"}, ("layers is 'two', and needs a whole number",)),
    ({"layers": True}, ("layers is True, and needs a whole number",)),
    ({"width": 8.0}, ("width is 8.0, and needs a whole number",)),
    ({"positions": "learnt"}, ('or "learned" or "rotary"; did you mean "learned"?',)),
    ({"init": "zeros"}, ('init is \'zeros\', and needs "normal" or "xavier"',)),
    ({"bias": 3}, ("bias is 3, and needs true or false",)),
    ({"ffn": "wide"}, ("ffn is 'wide', and needs a whole number or a list of whole numbers",)),
    ({"ffn": [8, 1.5]}, ("ffn[1] is 1.5, and needs a whole number",)),
    ({"activation": 3}, ("activation is 3, and needs text or entries of its own",)),
    ({"activation": {"F": 3}}, ("activation.F is 3, and needs text",)),
    ({"step": "1"}, ("step is '1', and needs a number",)),
    ({"kv_heads": "all"}, ("kv_heads is 'all', and needs a whole number or nothing",)),
    ({"norm": None}, ("norm is None, and needs text",)),
]
TOKENS = torch.zeros(1, 9, dtype=torch.long)
STEPS = ss.uniform({"A": lambda t, x, c: x, "G": lambda t, x, c: x}, 1.0, 1)
IMAGES, PAIRS = partial(ss.ImageConfig, image_size=8, patch=4, **TINY), partial(ss.TranslationConfig, **TINY)
REQUESTS: list[tuple[Callable[[], object], tuple[str, ...]]] = [
    (lambda: ss.integrate(ss.scheme("lie"), STEPS, TOKENS), ("'A F' needs A, F", "step has A, G", "has no field F")),
    (lambda: IMAGES(image_size=10), ("image_size=10 is not divisible by patch=4",)),
    (lambda: IMAGES(patch=0), ("patch=0 must be a positive number",)),
    (lambda: ss.SplitstepForImageClassification(IMAGES())(torch.zeros(2, 1, 12, 8)), ("(2, 1, 12, 8)",)),
    (lambda: PAIRS(decoder_layers=0), ("decoder_layers=0 must be a positive number",)),
    (lambda: PAIRS(label_smoothing=1.5), ("label_smoothing=1.5 is a probability",)),
    (lambda: ss.SplitstepForTranslation(PAIRS(decoder_layers=1))(TOKENS), ("labels or decoder_input_ids",)),
    *(
        (lambda config=config, build=build: build(config(max_positions=8, **TINY))(TOKENS),
         ("9 tokens ", "max_positions=8", "shorten the input"))
        for config, build in (
            (ss.CausalConfig, ss.SplitstepForCausalLM),
            (ss.MaskedConfig, ss.SplitstepForMaskedLM),
            (ss.SequenceConfig, ss.SplitstepForSequenceClassification),
        )
    ),
]  # fmt: skip


def causal(entries: dict[str, Any]) -> ss.SplitstepForCausalLM:
    return ss.SplitstepForCausalLM(ss.CausalConfig(**(TINY | entries)))


@pytest.mark.parametrize(
    ("wrong", "words"), [*((partial(causal, entries), words) for entries, words in CONFIGS), *REQUESTS]
)
def test_a_wrong_entry_or_input_is_refused_in_one_line(wrong: Callable[[], object], words: tuple[str, ...]) -> None:
    refused(wrong, *words)


# Checkpoints


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    ss.SplitstepForCausalLM(ss.CausalConfig(scheme="macaron", vocab_size=11, **TINY)).save_pretrained(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """transformers draws progress bars and a table of what did not fit."""
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    yield
    logging.set_verbosity(before)
    logging.enable_progress_bar()


def load(place: Path, **more: Any) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(place, **more)


@pytest.mark.parametrize("kept", [0.0, 0.001, 0.3, 0.999, None])
def test_a_truncated_checkpoint_and_another_file_are_refused(checkpoint: Path, kept: float | None) -> None:
    file = checkpoint / "model.safetensors"
    data = file.read_bytes()
    file.write_bytes(b"\x80\x04 what is this? " * 100 if kept is None else data[: int(kept * len(data))])
    refused(lambda: load(checkpoint), "damaged", str(checkpoint), "copy the checkpoint again")


class Bomb:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return (Path.touch, (self.mark,))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "pytorch_model-00001-of-00002.bin"])
@pytest.mark.parametrize("how", [{}, {"use_safetensors": False}, {"use_safetensors": True}, {"weights_only": False}])
def test_a_pickled_checkpoint_is_refused_and_never_opened(checkpoint: Path, name: str, how: dict[str, Any]) -> None:
    model = load(checkpoint)
    (checkpoint / "model.safetensors").unlink()
    mark = checkpoint / "mark"
    with (checkpoint / name).open("wb") as file:
        pickle.dump({**model.state_dict(), "bomb": Bomb(mark)}, file)
    refused(lambda: load(checkpoint, **how), "pickle", "does not open")
    refused(lambda: ss.SplitstepForCausalLM.from_pretrained(checkpoint, **how), "pickle")
    assert not mark.exists()
    pickle.loads((checkpoint / name).read_bytes())
    assert mark.exists()  # it would have gone off


def test_a_pickle_beside_the_safetensors_is_left_alone(checkpoint: Path) -> None:
    mark = checkpoint / "mark"
    (checkpoint / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb(mark)))
    load(checkpoint)
    assert not mark.exists()


def rewrite(checkpoint: Path, **entries: Any) -> None:
    file = checkpoint / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **entries}))


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"width": 16}, ("has shape [8], not [16]", "more like it")),
        ({"vocab_size": 12}, ("embedding.tokens.weight has shape [11, 8], not [12, 8]",)),
        ({"layers": 2}, ("layers.1.A.norm.bias is missing",)),
        ({"scheme": "A F"}, ("layers.0.F.down.bias is missing",)),
        ({"bias": False}, ("bias is unknown to this config",)),
    ],
)
def test_a_checkpoint_that_does_not_fit_its_config_is_refused(
    checkpoint: Path, entries: dict[str, Any], words: tuple[str, ...]
) -> None:
    rewrite(checkpoint, **entries)
    refused(lambda: load(checkpoint), "does not fit its config", str(checkpoint), "config.json", *words)


def test_a_config_from_a_newer_version_is_refused(checkpoint: Path) -> None:
    rewrite(checkpoint, format=FORMAT + 1, something_new="yes")
    for read in (load, transformers.AutoConfig.from_pretrained, ss.CausalConfig.from_pretrained):
        refused(partial(read, checkpoint), "newer", f"format {FORMAT + 1}", "pip install -U splitstep")


@pytest.mark.parametrize("format", ["2", None, 0, -1, 1.5])
def test_a_format_that_is_no_version_is_refused(checkpoint: Path, format: Any) -> None:
    rewrite(checkpoint, format=format)
    with pytest.raises(ValueError, match=r"format=.* is not a version"):
        load(checkpoint)


def test_entries_of_a_newer_transformers_are_read_over_but_typing_mistakes_are_not(checkpoint: Path) -> None:
    rewrite(checkpoint, something_of_transformers=3)
    load(checkpoint)
    rewrite(checkpoint, stepp=0.5)
    with pytest.raises(ValueError, match=r"stepp=0\.5: did you mean step\?"):
        load(checkpoint)


def test_another_task_may_start_from_a_part_of_the_weights(tmp_path: Path) -> None:
    """Fine-tuning a masked model as a classifier is no mistake: the encoder comes along, the head starts anew."""
    masked = ss.SplitstepForMaskedLM(ss.MaskedConfig(**TINY))
    masked.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"does not fit"):
        ss.SplitstepForSequenceClassification.from_pretrained(tmp_path, num_labels=3)
    classifier = ss.SplitstepForSequenceClassification.from_pretrained(
        tmp_path, num_labels=3, ignore_mismatched_sizes=True
    )
    assert classifier.head.weight.shape == (3, 8)
    for name, p in classifier.encoder.named_parameters():
        assert torch.equal(p, masked.encoder.get_parameter(name))


# Files: every kind of rubbish, through every command that reads it

SECONDS = 2.0
CASES = [(name, one) for name, kind in KINDS.items() for one in kind.lines]
WRONG_ANYWAY = re.compile("r.yaml|x.gguf|start=llama|evaluate llama|data.tokenizer=")
FEW = {(name, kind.lines[n % len(kind.lines)]) for n, (name, kind) in enumerate(KINDS.items())}


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The server of processes has imported everything."""
    Program(["--version"], tmp_path_factory.mktemp("warm")).communicate(200)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sound files of all kinds."""
    folder = tmp_path_factory.mktemp("place")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        sound(folder)
    return folder


def listing(folder: Path) -> dict[str, int]:
    """All files with the times of their last changes, and all folders."""
    return {str(p): p.stat().st_mtime_ns if p.is_file() else 0 for p in folder.rglob("*")}


def words_of(line: str) -> list[str]:
    words = line.split()
    return words if "--out" in words or words[0] == "report" else [*words, "--out", "out"]


ENTRIES = ("Scheme ", "start: ", "the model has ", "there is no ", "option ")


def check_line(told: str, verb: str, file: str) -> None:
    """It names the file or its folder; if that was readable, the entry of a recipe that is wrong."""
    line = error_of(told.splitlines(), verb.split()[0])
    entries = ENTRIES if file in ("r.yaml", "book.txt") else ()
    assert any(name in line for name in (Path(file).parts[0], *entries)), line


@pytest.mark.nightly
@pytest.mark.parametrize("line", sorted({one for _, one in CASES if not WRONG_ANYWAY.search(one)}))
def test_nothing_but_the_rubbish_is_wrong(
    place: Path, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(place, tmp_path / "place")
    monkeypatch.chdir(tmp_path / "place")
    monkeypatch.setenv("SPLITSTEP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(running, "open_engine", here)
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"one\n")))
    assert cli.main(words_of(line)) == 0


@pytest.mark.parametrize(
    ("name", "line"), [pytest.param(*case, marks=() if case in FEW else pytest.mark.nightly) for case in CASES]
)
def test_rubbish_gets_one_line_soon_and_nothing_is_left(
    place: Path, name: str, line: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("SPLITSTEP_CACHE", str(place.parent / "cache"))
    monkeypatch.setattr(running, "open_engine", here)
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"one\n")))
    kind = KINDS[name]
    with spoilt(kind, place):
        before, begin = listing(place), time.process_time()
        code = cli.main(words_of(line))
        seconds, after = time.process_time() - begin, listing(place)
    printed = capfd.readouterr()
    assert (code, printed.out) == (2, ""), printed
    assert after == before
    assert seconds < SECONDS
    check_line(printed.err, line, kind.file)


@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("r.yaml: deep entries", "train r.yaml"),
        ("llama/model.safetensors: not a number", "generate llama"),
        ("llama/config.json: a list", "train digits.yaml start=llama"),
        ("prompts.jsonl: deep", "inspect llama --text prompts.jsonl"),
    ],
)
def test_rubbish_gets_one_line_in_a_process_of_its_own(place: Path, name: str, line: str, tmp_path: Path) -> None:
    folder = tmp_path / "place"
    shutil.copytree(place, folder)
    with spoilt(KINDS[name], folder):
        begin = time.monotonic()
        program = Program(words_of(line), folder)
        printed, told = program.communicate(60)
        seconds = time.monotonic() - begin
    assert (program.returncode, printed) == (2, "")
    check_line(told, line, KINDS[name].file)
    assert seconds < SECONDS
