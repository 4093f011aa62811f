"""Every verb that writes survives a full disk, an end at any moment, a read-only folder and a second command."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from functools import cache
from pathlib import Path
from random import uniform
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import made_up
import made_up_glue
import pretrained_folders
import pytest
import strangers
from children import NUMBERS, RECIPE, trained
from disasters import OUT, Command, Ended, bytes_of, fill, kept_results, left_by, mounted, small_disk

from splitstep import cli

TINY = {**RECIPE, "train": {**RECIPE["train"], "steps": 4, "evaluate_every": 2, "accumulate": 1}}
TEXT: dict[str, Any] = {
    "task": "text", "data": {"path": ["book.txt"], "length": 16},
    "model": {"layers": 1, "width": 16, "heads": 2, "ffn": 32}, "train": {"steps": 2, "batch": 4},
}  # fmt: skip
FEW = "train.batch=2 train.steps=4 train.evaluate_every=2 data.length=64 data.valid=2 data.template={prompt}"
QUICKLY = "train.steps=2 train.batch=4"
JUDGED = f"--answer-tokens 8 data.test=2 {FEW}"
CLASSES: dict[str, Any] = {**TEXT, "task": "classify", "data": {"train": "rows.csv"}}
MASKED: dict[str, Any] = {
    "task": "mlm", "data": {"train": "many.txt", "vocab_size": 300, "length": 32},
    "model": {**TEXT["model"], "token_types": 2}, "train": TEXT["train"],
}  # fmt: skip
VERBS = {
    "train": "train tiny.yaml",
    "distil": f"distil llama --student-layers 2 --text rows.jsonl {FEW}",
    "compare": "compare tiny.yaml --schemes lie,reverse-lie --seeds 1",
    "compare arms": "compare book.yaml train.precision=float32 --arms lie,INPUTS/mine.py:block --null --seeds 1",
    "compare glue": f"compare glue --start lie=INPUTS/masked --data INPUTS/data --seeds 1 --tasks rte {QUICKLY}",
    "compare distil": f"compare distil llama --student-layers 2 --text rows.jsonl --methods ce --seeds 1 {JUDGED}",
    "ablate": "ablate tiny.yaml --arms no-norm --seeds 1 --rates 1e-3",
    "converge depths": "converge tiny.yaml --depths 1,2,4",
    "converge run": "converge digits --examples 16 --schemes lie --substeps 1,2 --steps 1,2",
    "converge model": "converge llama --text prompts.txt --tokens 8 --schemes lie --substeps 1,2 --steps 1,2",
    "inspect": "inspect llama --text prompts.txt --tokens 8 --save states --cut 2 --probes drift,attention,jacobian",
    "approximate": "approximate max --tokens 2 --eps 0.3 --train-steps 0",
    "schemes": "schemes lie macaron",
    "recipes": "recipes",
    "tasks": "tasks",
    "arms": "arms",
    "doctor": "doctor",
    "evaluate": "evaluate digits",
    "generate": "generate book --tokens 4",
    "translate": "translate numbers",
    "predict": "predict classes",
    "report": "report stored",
}
RUNS = {"digits": TINY, "book": TEXT, "numbers": NUMBERS, "classes": CLASSES, "masked": MASKED}
QUICK = ("train", "compare", "schemes", "inspect")
BLOCK = 4096  # bytes, the least that a file takes
SHARES = (0.02, 0.2, 0.4, 0.6, 0.8, 0.95)


@cache
def inputs() -> Path:
    """A folder of what the commands read, made once; it goes with the process."""
    folder = Path(HELD.name) / "inputs"
    folder.mkdir()
    (folder / "tiny.yaml").write_text(json.dumps(TINY))
    (folder / "book.yaml").write_text(
        json.dumps({**TEXT, "data": {**TEXT["data"], "path": [str(folder / "book.txt")]}})
    )
    strangers.write_block(folder)
    (folder / "prompts.txt").write_text("the cat sat on the mat\nthe dog ran over the bridge and sat\n")
    rows = [{"instruction": f"say {n}", "response": f"the cat {n} sat"} for n in range(12)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "rows.csv").write_text("text,label\n" + "".join(f"word {n % 7} {n},{'ab'[n % 2]}\n" for n in range(60)))
    made_up_glue.made_up(folder / "data", "rte")
    (folder / "many.txt").write_text("".join(f"he said {n * n} and {n * 317} to it\n" for n in range(400)) * 2)
    (folder / "book.txt").write_text("the cat sat on the mat and the dog ran over the bridge\n" * 40)
    made_up.comparison([made_up.trial(text, seed, 0.9) for text in ("lie", "macaron") for seed in range(3)]).save(
        folder / "stored"
    )
    pretrained_folders.saved(folder / "llama", pretrained_folders.llama(3))
    before = Path.cwd()
    os.chdir(folder)
    try:
        for name, document in RUNS.items():
            trained(document, Path(name))
    finally:
        os.chdir(before)
    return folder


HELD = TemporaryDirectory(prefix="disasters-")


class Scene(NamedTuple):
    """A verb that runs in a folder of its own."""

    verb: str
    folder: Path  # in which OUT lies
    notes: Path

    def begin(self, **given: Any) -> Command:
        """Start the command; `at` and `number`: a signal right before a file operation."""
        words = [str(inputs() / word) if (inputs() / word).exists() else word for word in VERBS[self.verb].split()]
        words = [word.replace("INPUTS", str(inputs())) for word in words]
        return Command([*words, "--out", str(OUT)], self.folder, self.notes, lines="one\ntwo\n", **given)

    def run(self, **given: Any) -> Ended:
        shutil.rmtree(self.notes, ignore_errors=True)
        return self.begin(**given).ended()

    @property
    def left(self) -> dict[str, Any]:
        return left_by(self.folder / OUT)


def scene(verb: str, folder: Path) -> Scene:
    place = folder / "place"
    if not place.is_mount():
        place.mkdir(exist_ok=True)
    return Scene(verb, place, folder / "notes")


@cache
def whole(verb: str) -> tuple[dict[str, Any], Ended, int]:
    """What a command leaves that nothing befell, how it ended, and the room that it took."""
    folder = Path(HELD.name) / verb.replace(" ", "-")
    folder.mkdir()
    one = scene(verb, folder)
    ended = one.run()
    assert ended.code == 0, ended.told
    assert "result.json" in one.left
    return one.left, ended, bytes_of(folder / "place")


def check_one_line(ended: Ended, code: int) -> None:
    """The last line says what is wrong, and nothing else does."""
    assert ended.code == code, ended
    assert "Traceback" not in "".join(ended.told)
    [line] = [line for line in ended.told if line.startswith("Error:")]
    assert line == ended.told[-1]


def check_finishes(one: Scene) -> None:
    """The same command ends as one that nothing befell, and finished runs are not done again."""
    kept = kept_results(one.folder / OUT)
    ended = one.run()
    assert ended.code == 0, ended.told
    assert one.left == whole(one.verb)[0]
    assert kept.items() <= kept_results(one.folder / OUT).items()


def selected(*quick: str) -> list[Any]:
    """All verbs; but for these, nightly."""
    return [pytest.param(verb, marks=() if verb in quick else pytest.mark.nightly) for verb in VERBS]


def test_disasters_befall_every_verb_of_the_shell() -> None:
    assert {line.split()[0] for line in VERBS.values()} == {name.split()[0] for name in cli.VERBS}
    assert {name for name in cli.VERBS if " " in name} <= VERBS.keys()


@pytest.mark.parametrize("verb", selected("train", "compare", "schemes"))
def test_a_full_disk_is_one_line_and_with_room_again_it_goes_on(verb: str, tmp_path: Path) -> None:
    left, _, room = whole(verb)
    for number, share in enumerate((0.5,) if verb in QUICK else SHARES):
        folder = tmp_path / str(number)
        folder.mkdir()
        with small_disk(folder / "place", f"size={max(BLOCK, int(share * room) // BLOCK * BLOCK)}") as disk:
            if room <= BLOCK:
                fill(disk)
            one = scene(verb, folder)
            ended = one.run()
            check_one_line(ended, 2)
            place, _, why = ended.told[-1].removeprefix("Error: ").partition(": ")
            assert str(one.folder / place).startswith(str(one.folder / OUT))  # jobs name the whole path
            assert why == f"{os.strerror(28)}." or why.startswith("the disk is full")
            assert not list(disk.rglob(".part-*"))
            assert one.left.keys() <= left.keys()  # and each is whole
            mounted(disk, "remount,size=64m")
            check_finishes(one)
            fill(disk)
            again = one.run()
            assert again.code == 0 or check_one_line(again, 2) is None
            assert one.left == left


@pytest.mark.parametrize("verb", selected("compare", "inspect"))
def test_killed_and_begun_again_it_ends_as_one_that_never_was(verb: str, tmp_path: Path) -> None:
    _, ended, _ = whole(verb)
    for number, share in enumerate((0.6,) if verb in QUICK else SHARES):
        folder = tmp_path / str(number)
        folder.mkdir()
        one = scene(verb, folder)
        assert one.run(at=max(1, round(share * ended.operations))).code == -signal.SIGKILL
        check_finishes(one)


@pytest.mark.nightly
@pytest.mark.parametrize("verb", VERBS)
def test_killed_after_any_time_it_ends_as_one_that_never_was(verb: str, tmp_path: Path) -> None:
    """From outside, wherever it is then; other times each night."""
    left, ended, _ = whole(verb)
    for number in range(5):
        (folder := tmp_path / str(number)).mkdir()
        one, seconds = scene(verb, folder), uniform(0.0, ended.seconds)
        process = one.begin().process
        process.join(seconds)
        process.kill()
        process.join()
        assert process.exitcode in (0, -signal.SIGKILL), seconds
        if process.exitcode:
            check_finishes(one)
        assert one.left == left, seconds


@pytest.mark.slow
def test_an_inspection_that_is_killed_at_ten_moments_says_the_same_in_the_end(tmp_path: Path) -> None:
    """Each time the same command goes on; what is there is not measured again."""
    one, (left, ended, _) = scene("inspect", tmp_path), whole("inspect")
    kept, codes = dict[Path, int](), list[int]()
    for _ in range(10):
        codes.append(one.run(at=ended.operations // 16).code)
        now = {file: file.stat().st_mtime_ns for file in (one.folder / OUT).rglob("units/*/*/*.safetensors")}
        assert kept.items() <= now.items()
        kept = now
    assert codes == [-signal.SIGKILL] * 10
    assert kept
    check_finishes(one)
    assert one.left == left


@pytest.mark.slow
def test_an_inspection_that_is_interrupted_has_a_page_with_what_there_is(tmp_path: Path) -> None:
    one = scene("inspect", tmp_path)
    ended = one.run(at=round(0.6 * whole("inspect")[1].operations), number=signal.SIGINT)
    assert ended.code == 130
    document = json.loads((one.folder / OUT / "result.json").read_text())
    assert re.search("[0-9]+ of [0-9]+ ", document["unfinished"])
    assert f"Interrupted; not finished: {document['unfinished']}" in (one.folder / OUT / "report.html").read_text()
    assert any(document["unfinished"] in line for line in ended.told)
    check_finishes(one)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("verb", selected("schemes"))
def test_a_signal_ends_in_one_line(verb: str, number: int, tmp_path: Path) -> None:
    one, last = scene(verb, tmp_path), whole(verb)[1].operations
    share = 0.2 if verb == "distil" else 0.4  # a run of four steps: in the last one it is too late to stop
    ended = one.run(at=max(1, round(share * last)), number=number)
    assert ended.code == 128 + number, ended
    assert "Traceback" not in "".join(ended.told)
    assert "interrupted" in ended.told[-1] or "The run stopped" in ended.told[-1]
    check_finishes(one)


@pytest.mark.parametrize("verb", selected("train", "compare", "schemes", "inspect", "report"))
def test_a_folder_that_cannot_be_written_is_one_line_at_once(verb: str, tmp_path: Path) -> None:
    with small_disk(tmp_path / "place", "ro"):
        one = scene(verb, tmp_path)
        ended = one.run()
        check_one_line(ended, 2)
        assert f"{OUT}" in ended.told[-1]
        assert ended.seconds < 2
    (one.folder / OUT).write_text("a file")
    ended = one.run()
    check_one_line(ended, 2)
    assert ended.seconds < 2
    assert (one.folder / OUT).read_text() == "a file"


@pytest.mark.parametrize("verb", selected("train", "schemes"))
def test_two_commands_in_one_folder_do_no_harm(verb: str, tmp_path: Path) -> None:
    """One of them is refused in one line, or both end right."""
    one = scene(verb, tmp_path)
    first, second = one.begin(), one._replace(notes=tmp_path / "other").begin()
    codes = [ended.code for ended in (first.ended(), second.ended())]
    for ended in (first.ended(), second.ended()):
        assert ended.code == 0 or check_one_line(ended, 2) is None
    assert 0 in codes, [first.ended().told[-1], second.ended().told[-1]]
    assert one.left == whole(verb)[0]
