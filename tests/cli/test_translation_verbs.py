"""The verbs of translation: a run is enough to translate with, and what goes in comes out line by line."""

import ast
import io
import json
import re
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from transformers import AutoTokenizer

from splitstep import cli
from splitstep.recipes import find_recipe
from splitstep.tasks.pairs.codec import Codec

OVERRIDES = [
    "train.steps=3", "train.batch=256", "model.width=16", "model.heads=2", "model.ffn=16", "data.train=300",
    "data.valid=70", "data.test=60",
]  # fmt: skip

UNNEEDED = (
    "dask", "datasets", "matplotlib", "pandas", "sacrebleu", "scipy", "sklearn", "tensorboard",
    "tensorflow", "torch.utils.tensorboard", "torchdiffeq", "torchvision", "splitstep.report", "splitstep.studies",
)  # fmt: skip
CODE = """
import gc, sys
gc.disable()
from splitstep.cli import main
assert main(["translate", sys.argv[1], "--beams", "2"]) == 0
assert "splitstep.models" in sys.modules
assert not gc.isenabled()
found = [name for name in sys.argv[2:] if name in sys.modules]
assert not found, found
"""


class Done(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: bytes
    stderr: bytes


def splitstep(*words: str, given: bytes = b"") -> Done:
    """The command in this process, with streams of bytes as a process has them."""
    source, out, err = (io.TextIOWrapper(io.BytesIO(data), "utf-8", newline="\n") for data in (given, b"", b""))
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr("sys.stdin", source)
        code = cli.main(words)
        out.flush()
        err.flush()
    return Done(code, *(stream.buffer.getvalue() for stream in (out, err)))  # pyright: ignore


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("numbers") / "run"
    recipe = find_recipe("numbers")
    done = splitstep("train", str(recipe), *OVERRIDES, "--out", str(out))
    assert done.returncode == 0, done.stderr.decode()
    for split, lines in (("valid", 70), ("test", 60)):  # a person sees that there is more to do, and when it is done
        for number in (0, lines):
            assert done.stderr.decode().count(f"  {split}: translated {number}/{lines} lines\n") == 1
    return out


def test_every_line_comes_back_in_its_place(run: Path) -> None:
    lines = ["seven", "", "three hundred and seven", "seven"]
    done = splitstep("translate", str(run), "--beams", "2", "--json", given="\n".join(lines).encode() + b"\n")
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout)["lines"]
    assert len(found) == len(lines)
    assert found[1] == ""
    assert found[0] == found[3]
    plain = splitstep("translate", str(run), "--beams", "2", given="\n".join(lines).encode() + b"\n")
    assert plain.stdout.decode() == "".join(f"{line}\n" for line in found)


def test_the_search_is_the_recipe_s_unless_told(run: Path) -> None:
    """The recipe has one beam and a penalty of one."""
    three, steep = ["--beams", "3"], ["--length-penalty", "0.6"]
    for words, beams, penalty in (([], 1, 1.0), (three, 3, 1.0), ([*three, *steep], 3, 0.6)):
        done = splitstep("translate", str(run), *words, "--json", given=b"seven\n")
        assert done.returncode == 0, done.stderr.decode()
        found = json.loads(done.stdout)
        assert (found["beams"], found["length_penalty"]) == (beams, penalty)


def test_figures_of_the_verb_are_those_of_the_run(run: Path) -> None:
    done = splitstep("evaluate", str(run), "--json")
    assert done.returncode == 0, done.stderr.decode()
    found, result = json.loads(done.stdout), json.loads((run / "result.json").read_text())
    assert found["metric"]["name"] in found["figures"]
    assert found["figures"] == pytest.approx(result["test"])
    assert found["translation"]["scores"] == result["splits"]["test"]["scores"]
    signatures = {one["name"]: one["signature"] for one in found["translation"]["scores"]}
    assert signatures.keys() > {"sacreBLEU", "chrF"}
    assert "tok:13a" in signatures["sacreBLEU"]
    assert result["kept"] == {"by": "best", "figure": "loss", "steps": [3]}
    assert (found["split"], found["translation"]["lines"]) == ("test", 60)
    plain = splitstep("evaluate", str(run))
    assert re.match(rb"numbers: exact match, % \d+\.\d\d on test\.\n\nsplit +test, 60 lines\n", plain.stdout)
    assert b"sacreBLEU" in plain.stdout


@pytest.mark.parametrize(
    ("words", "given", "message"),
    [
        (["translate", "RUN"], b"seven\n\xff\n", "line 2"),
        (["translate", "RUN"], b"seven \x00\xfe\n", "line 1"),
        (["translate", "."], b"seven\n", "is not a run of splitstep"),
        (["evaluate", "RUN", "--split", "train"], b"", "not of train"),
        (["translate", "RUN", "--beams", "0"], b"", "beams is 0, and needs at least 1 and at most 1,000"),
        (["translate", "RUN", "--length-penalty", "nan"], b"", "length_penalty is nan, and must be from -10 to 10"),
        (["translate", "RUN", "--length-penalty", "0.6"], b"", "there is only one: add --beams 5, or leave it out"),
    ],
)
def test_what_cannot_be_translated_is_one_line(run: Path, words: list[str], given: bytes, message: str) -> None:
    done = splitstep(*(str(run) if word == "RUN" else word for word in words), given=given)
    assert (done.returncode, done.stdout) == (2, b"")
    assert message in done.stderr.decode()
    assert len(done.stderr.decode().splitlines()) == 1


def test_other_subwords_than_the_run_s_are_refused(run: Path, tmp_path: Path) -> None:
    """As many of them, and two have changed places: nothing but their names would tell."""
    other = tmp_path / "run"
    shutil.copytree(run, other)
    file = other / "model" / "tokenizer.json"
    document = json.loads(file.read_text())
    vocabulary = document["model"]["vocab"]
    one, two = list(vocabulary)[-2:]
    vocabulary[one], vocabulary[two] = vocabulary[two], vocabulary[one]
    file.write_text(json.dumps(document))
    done = splitstep("evaluate", str(other))
    assert done.returncode == 2
    assert "was trained with other subwords" in done.stderr.decode()
    assert len(done.stderr.decode().splitlines()) == 1


def test_a_long_line_is_told_of(run: Path) -> None:
    """Twice as long as training's longest pair, and a token more."""
    longest = json.loads((run / "model" / "config.json").read_text())["max_positions"]
    lines = ["seven", "seven " * longest, "seven"]
    done = splitstep("translate", str(run), "--json", given="".join(f"{line}\n" for line in lines).encode())
    assert done.returncode == 0
    assert json.loads(done.stdout)["longer"] == [2]
    assert "1 line is more than twice as long as any in training, line 2 first." in done.stderr.decode()


def test_the_documented_way_from_a_folder_to_a_translation(run: Path) -> None:
    """In a process of its own, as a reader would; the translations are those of the verb."""
    text = (Path(__file__).parents[2] / "docs" / "guide" / "translation.md").read_text()
    [code] = [one for one in re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S) if "AutoModelForSeq2SeqLM" in one]
    code = code.replace("runs/numbers/model", str(run / "model"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    translated = splitstep(
        "translate", str(run), "--beams", "5", "--length-penalty", "1", given=b"seven\nforty-two\n"
    ).stdout.decode()
    assert ast.literal_eval(done.stdout.decode()) == translated.split("\n")[:-1]


def test_auto_tokenizer_gives_the_codecs_ids(run: Path) -> None:
    theirs: Any = AutoTokenizer.from_pretrained(run / "model")
    lines = ["seven", "three hundred and forty-two", "nine thousand"]
    ours = list(Codec.load(run / "model").encode(lines))
    assert theirs(lines).input_ids == ours
    padded = theirs(lines, padding=True, return_tensors="pt")
    assert padded.input_ids.shape == padded.attention_mask.shape == (3, max(map(len, ours)))
    assert theirs.batch_decode(padded.input_ids, skip_special_tokens=True) == lines


def test_translating_imports_nothing_that_other_verbs_need(run: Path) -> None:
    """Nor does importing the models switch the garbage collector on."""
    words = [sys.executable, "-c", CODE, str(run), *UNNEEDED]
    done = subprocess.run(words, input=b"seven\n", capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    assert len(done.stdout.splitlines()) == 1
