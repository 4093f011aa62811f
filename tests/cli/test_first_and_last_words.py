"""What a long verb says before it loads anything, what Ctrl-C leaves, and programs without an entry of their own."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from commands import error_of

import splitstep as ss
from splitstep.tableau import TABLEAUX, Tableau
from splitstep.tasks import TASKS

TINY = "task: digits\nmodel: {layers: 1, width: 16, heads: 2, ffn: 64}\ntrain: {steps: 2, batch: 8}\n"
BEFORE_TORCH = """
import sys
class NotYet:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ImportError("not yet")
sys.meta_path.insert(0, NotYet())
from splitstep.cli import main
for line in sys.argv[1:]:
    try:
        main(line.split())
    except ImportError:
        print("torch", file=sys.stderr)
"""
LONG = {
    "train tiny.yaml": "train  to runs/train-tiny; loading PyTorch",
    "distil T S --text my.txt": "distil  to runs/distil-S; loading PyTorch",
    "compare tiny.yaml": "compare  to runs/compare-digits; loading PyTorch",
    "compare --text tiny.yaml --out out": "compare  to out; loading PyTorch",
    "compare glue --start a=b": "compare  to runs/compare-glue; loading PyTorch",
    "compare distil T S --text my.txt --methods ce": "compare  to runs/compare-distil; loading PyTorch",
    "ablate tiny.yaml": "ablate  to runs/ablate-digits; loading PyTorch",
    "converge tiny.yaml --depths 1,2": "converge  to runs/converge-digits-depths; loading PyTorch",
    "converge some-model": "converge  to runs/converge-some-model; loading PyTorch",
    "inspect some-model": "inspect  to runs/inspect-some-model; loading PyTorch",
    "approximate max": "approximate  to runs/approximate-max; loading PyTorch",
}


def test_a_long_verb_says_where_its_output_goes_before_it_imports_torch(tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY)
    words = [sys.executable, "-c", BEFORE_TORCH, *LONG]
    assert said_on_a_terminal(words, tmp_path) == [line for first in LONG.values() for line in (first, "torch")]
    piped = subprocess.run(words, cwd=tmp_path, text=True, capture_output=True).stderr.splitlines()
    assert piped == ["torch"] * len(LONG), "where nobody waits, an error is the only line"


def said_on_a_terminal(words: list[str], folder: Path) -> list[str]:
    """What a program says whose standard error is a terminal."""
    ours, its = os.openpty()
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=its):
        os.close(its)
        found = b""
        with suppress(OSError):  # Linux's way to say that the other end is closed
            while more := os.read(ours, 4096):
                found += more
    os.close(ours)
    return found.decode().splitlines()


@pytest.mark.slow
def test_a_refusal_after_the_first_words_is_the_last_line(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "splitstep", "inspect", "nowhere/at/all"]
    ended = subprocess.run(words, cwd=tmp_path, text=True, capture_output=True)
    assert (ended.returncode, ended.stdout, list(tmp_path.iterdir())) == (2, "", [])
    first, *told = said_on_a_terminal(words, tmp_path)
    assert first == "inspect  to runs/inspect-all; loading PyTorch"
    assert "nowhere/at/all is not there" in error_of(told, "inspect")
    assert told == ended.stderr.splitlines()


def test_a_folder_with_another_result_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text('{"study": "orders"}')
    for study in (ss.compare, ss.ablate):
        with pytest.raises(ValueError, match="holds the result of something else: name a new directory with --out"):
            study(task="digits", out=tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["result.json"]


def test_what_only_this_process_knows_is_refused_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for registry in (TASKS, TABLEAUX):
        monkeypatch.setattr(registry, "own", dict(registry.own))
        monkeypatch.setattr(registry, "here", set(registry.here))
    TASKS.add("mine", TASKS["digits"])
    TABLEAUX.add("mine", Tableau("mine", ((), (2 / 3,)), (1 / 4, 3 / 4)))
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(TINY.replace("digits", "mine"))
    with pytest.raises(ValueError, match=r"The task mine was added by this program.*splitstep\.tasks"):
        ss.compare(str(recipe), out=tmp_path / "out")
    with pytest.raises(ValueError, match=r"The tableau mine was added by this program.*splitstep\.tableaux"):
        ss.compare("digits", schemes=("lie", "A F @mine"), out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("piped", [False, True])
def test_a_program_may_compare_without_an_entry_of_its_own(tmp_path: Path, piped: bool) -> None:
    """A file without `if __name__ == "__main__"`, and standard input, which workers cannot run."""
    (tmp_path / "tiny.yaml").write_text(TINY)
    text = 'import splitstep as ss\nprint(len(ss.compare("tiny.yaml", schemes="lie,reverse-lie", seeds=1).rows))\n'
    (tmp_path / "program.py").write_text(text)
    words = [sys.executable, "-" if piped else "program.py"]
    done = subprocess.run(words, input=text if piped else "", cwd=tmp_path, text=True, capture_output=True)
    assert done.stdout == "2\n", done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("working", [False, True])
def test_two_quick_interrupts_leave_one_line(tmp_path: Path, working: bool) -> None:
    """While it starts, and while workers train."""
    (tmp_path / "tiny.yaml").write_text(TINY)
    words = ["compare", "tiny.yaml", "train.steps=1000000", "--schemes", "lie,reverse-lie", "--out", "out"]
    words = [sys.executable, "-m", "splitstep", *words]
    running = subprocess.Popen(words, cwd=tmp_path, text=True, stderr=subprocess.PIPE, start_new_session=True)
    assert running.stderr is not None
    said = [running.stderr.readline()]
    limit = time.monotonic() + 200
    while working and not list(tmp_path.glob("out/runs/*/metrics.jsonl")) and time.monotonic() < limit:
        assert running.poll() is None
        time.sleep(0.1)
    for _ in range(2):
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does
    said += running.communicate(timeout=200)[1].splitlines()
    assert running.returncode == 130
    assert not [line for line in said if "Traceback" in line or "KeyboardInterrupt" in line]
    assert [line for line in said if line.startswith("Error: interrupted")] == said[-1:]
