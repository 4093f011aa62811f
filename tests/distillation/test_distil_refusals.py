"""What `splitstep distil` says: wrong input ends with one line on standard error, exit code 2 and no run left behind;
a cache tells what it keeps and what it loses."""

import re
from pathlib import Path

import pytest
from distil_pairs import bpe, characters_of, gpt2, llama, pieces, saved, three_models
from tokenizers import processors
from transformers import BertConfig, BertForMaskedLM, ByT5Tokenizer

from splitstep import cli


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = three_models(tmp_path_factory.mktemp("pairs"))
    tiny = dict(hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=8)
    saved(BertForMaskedLM(BertConfig(vocab_size=len(pieces()), **tiny)), pieces(), folder / "bert")
    symbols = characters_of("☃")
    saved(llama(symbols, 2, 8), symbols, folder / "symbols")
    saved(llama(ByT5Tokenizer(), 2, 8), ByT5Tokenizer(), folder / "slow")
    short = gpt2(bpe(), 2, 8, positions=64)
    saved(short, bpe(), folder / "short")
    short.save_pretrained(folder / "wordless")
    saved(gpt2(characters_of("abcdefg"), 2, 8), bpe(), folder / "few")
    twice = bpe()
    twice.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="$A <|endoftext|> $A", special_tokens=[("<|endoftext|>", twice.eos_token_id)]
    )
    saved(gpt2(twice, 2, 8, positions=600), twice, folder / "twice")
    padded = gpt2(bpe(), 2, 8)
    padded.resize_token_embeddings(len(bpe()) + 8)
    saved(padded, bpe(), folder / "padded")
    broken = gpt2(bpe(), 2, 8)
    broken.transformer.h[1].ln_1.weight.data[3] = float("nan")
    saved(broken, bpe(), folder / "broken")
    (folder / "empty").mkdir()
    (folder / "begun").mkdir()
    (folder / "begun" / "recipe.yaml").write_text("task: text\n")
    (folder / "rubbish.gguf").write_bytes(b"\xffrubbish")
    (folder / "blank.txt").write_text("\n \n")
    return folder


def refused(place: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The line that a command ends with; words that are names of folders here are those folders."""
    full = [str(place / word) if (place / word).exists() else word for word in words]
    out = place / "run"
    assert cli.main(["distil", *full, "--out", str(out)]) == 2
    assert not out.exists()
    [line] = errors(capsys)
    return line


def errors(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capsys.readouterr().err.splitlines() if line.startswith("Error: ")]


GIVEN = {"TEXT": "--text text.jsonl --online", "BOTH": "teacher student", "SRA": "--method sra", "ULD": "--method uld"}
LAYERS = "set --student-layers, in a recipe model.layers, to a number from 2 to 4$"
FEW = "has 4 layers; cannot keep {}: " + LAYERS
SHORT = "{} reads at most 64 tokens, and rows are padded to .*: set data.length=64"
WORDLESS = "wordless has no tokenizer: save one beside the model"
BERT = "bert is a BertForMaskedLM, which is not a causal language model"
WRONG = {  # by the words of a command, of which those of GIVEN stand for several
    "bert student TEXT": BERT,
    "teacher bert TEXT": BERT,
    "BOTH --method mta(words=9) TEXT": "The student has no layer 9: name layers from 1 to 2",
    "teacher --student-layers 9 TEXT": f"has only 4 layers; cannot keep 9: {LAYERS}",
    "teacher --student-layers 1 TEXT": FEW.format(1),
    "teacher --student-layers 0 TEXT": FEW.format(0),
    "teacher other --method skl TEXT": "the tokenizers of .* and the student differ: use sra, uld or ce",
    "symbols student SRA data.length=256 --text text.jsonl": "share no token, so there is no shared vocabulary",
    "BOTH --method klx TEXT": 'there is no term "klx"',
    "BOTH": "--text is missing",
    "teacher TEXT": "There is no student",
    "BOTH --student-layers 2 TEXT": "are two students",
    "BOTH other TEXT": "is a second student",
    "nowhere/at/all student TEXT": "nowhere/at/all is not there",
    "BOTH --text none.jsonl --online": 'there is no file or folder "none.jsonl"',
    "BOTH --text empty --online": "empty has no text files",
    "BOTH --text blank.txt --online": "blank.txt is empty: give a file with text",
    "BOTH --text rubbish.gguf --online": "rubbish.gguf, line 1: byte",
    "BOTH --cache x TEXT": "exclude each other",
    "BOTH --text text.jsonl objective.largest=5000": "5000 largest logits are to be kept and .* has",
    f"BOTH --text text.jsonl objective.largest={len(bpe())}": (
        f"{len(bpe())} largest logits are to be kept and .*: give fewer with objective.largest, or use --online"
    ),
    "teacher padded TEXT": r"compares logits, and .*teacher has \d+ of them and the student \d+: use a student",
    "twice other SRA TEXT": r"text.jsonl, line 1 cannot be aligned: .*twice puts a special token inside a text",
    "slow student SRA TEXT": "slow has a slow tokenizer",
    "teacher short TEXT": SHORT.format("the student"),
    "short student TEXT": SHORT.format("short"),
    "short other ULD TEXT": SHORT.format("short"),
    "teacher nowhere/at/all TEXT": "there is no folder or file nowhere/at/all, and no model of that name",
    "teacher few --method ce TEXT": "the student has 8 tokens, and its tokenizer makes number",
    "few other ULD TEXT": "few has 8 tokens, and its tokenizer makes number",
    "teacher empty TEXT": "empty is not a model: it has no config.json",
    "teacher wordless TEXT": WORDLESS,
    "wordless student TEXT": WORDLESS,
    "teacher begun TEXT": "begun has not finished: continue it with `splitstep train .*begun/recipe.yaml`",
    "teacher broken TEXT": r"broken: the weight transformer.h.1.ln_1.weight has a value that is not a number",
    "BOTH scheme=macaron TEXT": "scheme is macaron, and a pretrained .*: leave scheme out",
    "BOTH reference=strang TEXT": "reference is strang, and .*: leave reference out",
    "BOTH match=flops TEXT": "match is flops, and a pretrained .*: leave match out",
    "train.steps=4 TEXT": "There is no teacher: train.steps=4 is a recipe entry",
    "BOTH --method 1e400_kl TEXT": "the weight of kl is inf: give a finite one",
    "BOTH data.valid=300 TEXT": "are held out: give more rows, or lower data.valid and data.test",
    "teacher rubbish.gguf TEXT": "rubbish.gguf .*it is a file, and not a GGUF file",
    "teacher text.jsonl TEXT": "text.jsonl .*it is a file, and not a GGUF file",
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_input_is_one_line(place: Path, capsys: pytest.CaptureFixture[str], words: str) -> None:
    given = " ".join(GIVEN.get(word, word) for word in words.split()).split()
    assert re.search(WRONG[words], refused(place, capsys, *(word.replace("_", " ") for word in given)))
    assert not (place / "run-teacher").exists()  # nothing is asked of a teacher that a method cannot use


def distil(place: Path, out: Path, *words: str, student: str = "student") -> int:
    """The exit code of a short run."""
    names = [str(place / name) for name in ("teacher", student)]
    short = ["train.steps=1", "train.batch=2", "data.length=256", "train.mode=eager"]
    return cli.main(["distil", *names, "--text", str(place / "text.jsonl"), "--out", str(out), *short, *words])


def test_damage_inside_of_a_cache_is_one_line(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache = ["--cache", str(tmp_path / "cache"), "--method", "uld"]
    assert distil(place, tmp_path / "one", *cache) == 0
    file = tmp_path / "cache" / "ids.bin"
    for number in (b"\xff\x7f\xff\x7f", b"\xff\xff\xff\xff"):  # a large and a negative one
        file.write_bytes(number * (file.stat().st_size // 4))
        assert distil(place, tmp_path / "two", *cache) == 2
        [line] = errors(capsys)
        assert re.search(r"ids.bin has tokens that are not among .* so the cache is damaged: delete the folder", line)


@pytest.mark.parametrize(("largest", "much"), [(1, True), (300, False)])
def test_a_large_loss_of_a_cache_is_told_with_what_to_do(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], largest: int, much: bool
) -> None:
    assert distil(place, tmp_path / "run", f"objective.largest={largest}", "data.valid=1", "data.test=20") == 0
    [line] = [one for one in capsys.readouterr().err.splitlines() if one.startswith("from the teacher itself")]
    found = re.search(r"kl (\S+) - (\S+) = \S+(?: \((\d+)% less\); raise objective.largest .* --online)?$", line)
    assert found
    assert bool(found[3]) == much
    if much:
        assert abs(int(found[3]) - 100 * (1 - float(found[2]) / float(found[1]))) < 1
