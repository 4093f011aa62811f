"""Every command of the README and of the docs runs, in small: with fewer steps, narrower models and less data."""

import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pretrained_folders
import pytest
from inline import here
from PIL import Image

from splitstep import cli, own_letters
from splitstep.experiments import running
from splitstep.letters import LETTERS

ROOT = Path(__file__).parents[2]
FILES = ["README.md", "CONTRIBUTING.md", *sorted(str(file.relative_to(ROOT)) for file in ROOT.glob("docs/**/*.md"))]
PROGRAMS = ("splitstep", "make", "pip", "python", "accelerate", "torchrun", "dask", "echo", "cat")
LEFT_OUT_BECAUSE = {
    "tests/cli/test_install.py installs a built one": ["pip install ."],
    "the Makefile runs the tests, and not the other way round": ["make "],
    "it needs several processes, or machines; tests/training and tests/studies start some": [
        "torchrun ", "accelerate launch ", "dask ",
    ],
    "it is not a whole command": ["splitstep compare ..."],
    "it needs a model, a run or an inspection; the tests of the verb and of the study make some": [
        "splitstep converge some-org/", "splitstep converge path/to/model", "splitstep inspect path/to/model",
        "splitstep inspect A --against B", "splitstep inspect SmolLM2.gguf", "splitstep inspect runs/digits",
        "splitstep report runs/look", "splitstep compare distil ", "splitstep distil ",
    ],
    "it needs text of your own, enwik8, Europarl or WikiText-2; tests/training and tests/tasks have small texts": [
        "splitstep train mlm-small", "splitstep compare mlm-small", "python -m splitstep.text.wiki_text",
        "python benchmarks/pretraining_text.py", "splitstep train text data.train=enwik8.txt",
        "splitstep compare wikitext2",
    ],
    "it takes long, with a block and a config of transformers; tests/studies/test_compare_arms.py compares such arms": [
        "splitstep compare --text my.txt --arms lie,swiglu,mine", "splitstep compare --text my.txt --arms lie,mine",
    ],
    "it trains for hours; tests/docs/test_modifications_page.py reads what it wrote": [
        "python benchmarks/modifications.py",
    ],
    "it needs the images of MNIST, which are fetched": ["splitstep compare mnist"],
    "it needs the files of GLUE, which are fetched by hand; tests/studies/test_glue_study.py makes some up": [
        "splitstep train glue-mrpc", "splitstep predict runs/mrpc", "splitstep compare glue ",
        "splitstep report runs/glue", "splitstep compare glue-rte",
    ],
    "it is shown with what it prints, which test_docs.py compares": ["$ splitstep schemes"],
}  # fmt: skip
WITH_PYTHON = ("README.md", "docs/guide/tour.md")
LEFT_OUT = [start for starts in LEFT_OUT_BECAUSE.values() for start in starts]
NARROW = ["model.width=16", "model.heads=2", "model.ffn=32"]
SHALLOW = [*NARROW, "model.layers=1", "model.decoder_layers=1"]
SMALLER = {
    "digits": ["train.batch=4", "train.evaluate_every=0"],
    "stdlib": ["train.batch=2", "train.evaluate_every=0", "data.limit=20000", "data.valid_limit=1000"],
    "mlm": ["model.width=16", "train.batch=2", "data.vocab_size=600", "data.length=32", "data.valid_limit=320"],
    "numbers": [*SHALLOW, "train.batch=64", "data.train=300", "data.valid=20", "data.test=20"],
    "text": [*NARROW, "model.layers=1", "train.batch=2", "data.vocab_size=300"],
    "own-text": [*NARROW, "model.layers=1", "train.batch=2", "train.evaluate_every=0", "match=none"],
    "classify": [*NARROW, "train.batch=4"],
    "images": [*NARROW, "train.batch=4"],
    "translate": [*SHALLOW, "train.batch=256", "train.average_every=1", "train.average=1", "data.merges=60"],
}


class Block(NamedTuple):
    """A fenced block of a page: its language and its lines."""

    language: str
    text: str


def blocks(file: str) -> Iterator[Block]:
    for language, text in re.findall(r"^```(\w*)\n(.*?)^```$", (ROOT / file).read_text(), re.S | re.M):
        yield Block(language, text)


def commands(text: str) -> list[str]:
    """The command lines of a block, without their comments."""
    lines = [line.split("  #")[0].strip() for line in text.splitlines()]
    return [line for line in lines if line.removeprefix("$ ").split(" ")[0] in PROGRAMS]


ALL = [(file, line) for file in FILES for block in blocks(file) if not block.language for line in commands(block.text)]


def left_out(line: str) -> bool:
    return any(line.startswith(start) for start in LEFT_OUT)


def shrunk(words: list[str]) -> list[str]:
    """The command with a small recipe: two steps, or four if it says how many, and at most two seeds."""
    if words[0] == "converge" and "--depths" not in words:
        return [*words, "--examples", "8", "--substeps", "1,2", "--steps", "1,2"]
    if words == ["schemes", "--measure"]:
        return [*words, "lie", "macaron"]
    if words[0] == "approximate" and "--train-steps" not in words:
        return [*words, "--train-steps", "2"]
    if words[0] not in ("train", "compare", "ablate", "converge"):
        return words
    if "--text" in words:
        assert words[-2] == "--minutes"
        return [*words[:-2], "--seeds", "2", *SMALLER["own-text"], "train.warmup=1", "train.steps=2"]
    name = words[words.index("--task") + 1] if "--task" in words else words[1]
    steps = 4 if any(word.startswith("train.steps=") for word in words) else 2
    smaller = {"--seeds": "2", "--depths": "1,2,4"}
    few = [smaller.get(before, word) for before, word in zip(["", *words], words, strict=False)]
    return [
        *few,
        *SMALLER[name],
        "train.warmup=1",
        f"train.steps={steps}",
        *(["--engine", "local=1"] * (words[0] != "train")),
        *(["--seeds", "1"] * (words[0] == "ablate" and "--seeds" not in words)),
        *(["--rates", "1e-3"] * (words[0] == "ablate" and "--rates" not in words)),
    ]


def run(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    *given, command = [part.strip() for part in line.split(" | ")]
    if given:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(shlex.split(given[0])[1].encode() + b"\n")))
    program, *words = shlex.split(command)
    assert program == "splitstep", line
    assert cli.main(shrunk(words)) == 0, line


def labelled(folder: Path) -> None:
    """A spreadsheet of reviews, and photos in two folders."""
    rows = [f"film {i} was {word},{word}\n" for i in range(20) for word in ("good", "bad")]
    (folder / "reviews.csv").write_text("".join(["review,label\n", *rows]))
    for name, grey in (("dark", 20), ("light", 200)):
        (folder / "photos" / name).mkdir(parents=True)
        for i in range(10):
            Image.new("L", (8, 8), grey + i).save(folder / "photos" / name / f"{i}.png")


LONG = {f"docs/guide/{name}.md" for name in ("compare", "laboratory", "pretraining", "tour")}


def of_a_page(file: str) -> Any:
    """A page whose commands run; what takes long there, the README has in another form."""
    return pytest.param(file, marks=pytest.mark.nightly) if file in LONG else file


@pytest.mark.slow
@pytest.mark.parametrize(
    "file", [of_a_page(file) for file in FILES if any(one == file and not left_out(line) for one, line in ALL)]
)
def test_every_command_of_the_page_runs(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, in a new folder, where a small model has the name of a large one; Python of README and the tour runs
    between them. Runs of a comparison are made in this process: those of `make demo` have workers in tests/cli."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(LETTERS, "given", {})
    monkeypatch.setattr(own_letters, "SOURCES", {})
    Path("my.py").write_text((ROOT / "tests" / "helpers" / "my_letter.py").read_text())
    monkeypatch.setattr(running, "open_engine", here)
    for name in ("my.en", "my.de"):
        lines = [f"{word} {other} {i}" for i in range(20) for word in ("red", "blue") for other in (name, "house")]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    labelled(tmp_path)
    pretrained_folders.saved(tmp_path / "HuggingFaceTB" / "SmolLM2-135M-Instruct", pretrained_folders.llama())
    (tmp_path / "my.txt").write_text("".join(f"Dear reader {n}, this is note {n % 7}.\n" for n in range(3_000)))
    (tmp_path / "notes.txt").write_text(
        "".join(f"Dear {word} {n}, this is note {n % 7}.\n" for n in range(300) for word in "ab")
    )
    for block in blocks(file):
        for line in [] if block.language else commands(block.text):
            if not left_out(line):
                run(line, monkeypatch)
        if block.language == "python" and file in WITH_PYTHON:
            small = "layers=3, width=64, heads=4, ffn=256, vocab_size=64"
            exec(re.sub(r"layers=12.*?(?=\))", small, block.text), {})


def test_what_is_left_out_is_in_the_docs() -> None:
    for start in LEFT_OUT:
        assert any(line.startswith(start) for _, line in ALL), start
    assert len([line for _, line in ALL if not left_out(line)]) >= 15


def links() -> list[tuple[str, str]]:
    found = [(file, target) for file in FILES for target in re.findall(r"\]\(([^)\s]+)\)", (ROOT / file).read_text())]
    return [(file, target) for file, target in found if not target.startswith(("http://", "https://"))]


@pytest.mark.parametrize("file", FILES)
def test_links_lead_to_files(file: str) -> None:
    for page, target in links():
        path, _, heading = target.partition("#")
        there = (ROOT / page).parent / path if path else ROOT / page
        if page == file:
            assert there.exists(), f"{page}: {target}"
            if heading:
                anchors = [
                    re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-")
                    for head in re.findall(r"^#+ (.*)$", there.read_text(), re.M)
                ]
                assert heading in anchors, f"{page}: {target}"


@pytest.mark.parametrize("file", FILES)
def test_results_that_a_page_names_are_there(file: str) -> None:
    named = re.findall(r"(?<![\w/])results/[\w./-]*[\w]", (ROOT / file).read_text())
    own = {f"results/{page.name}" for page in (ROOT / "docs" / "results").glob("*.md")}
    for name in set(named) - own:
        assert (ROOT / name).exists(), f"{file}: {name}"


def test_every_page_is_in_the_index() -> None:
    index = {(ROOT / "docs" / target).resolve() for page, target in links() if page == "docs/README.md"}
    pages = {file.resolve() for file in ROOT.glob("docs/**/*.md")} - {ROOT.resolve() / "docs" / "README.md"}
    assert pages <= index


def test_the_picture_is_what_its_command_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["schemes", "lie", "macaron", "--svg", str(tmp_path / "picture.svg")]) == 0
    assert (tmp_path / "picture.svg").read_text() == (ROOT / "docs" / "picture.svg").read_text()
