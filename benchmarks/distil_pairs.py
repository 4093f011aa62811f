"""The runs of pairs (e) and (f) in docs/results/distil.md: teacher, students, rates and studies, several at once.

    python benchmarks/distil_pairs.py FOLDER --seeds 4 --seconds 1500

FOLDER holds SmolLM2-135M-Instruct as a folder of Hugging Face's or as SmolLM2-135M-Instruct.gguf, dolly.jsonl.xz,
self-instruct.jsonl, wikitext2.txt, and enwik8.txt of `benchmarks/pretraining_text.py`. All commands run there, each
with a log in FOLDER/logs; FOLDER/status.json says how far each is. A command that fails is started once more, and
continues. After `--seconds`, studies are stopped, and the seeds that all methods have finished are their result. On a
GPU, NVIDIA's MPS daemon lets the processes work at the same time.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from splitstep.support.files import write_atomically

SMOL, TUNED = "SmolLM2-135M-Instruct", "runs/tuned"
RATES = ("3e-5", "1e-4", "3e-4")
SPLITS = ("data.valid=320", "data.test=500")
TRIES, INTERRUPT = 2, 10.0  # how often a command is started; seconds that it has to end
DOLLY = ("--text", "dolly.jsonl.xz")
EXAM = ("--questions", "self-instruct.jsonl", "--plain", "wikitext2.txt")
TUNE = [
    "distil", SMOL, SMOL, *DOLLY, "--method", "ce", "--out", TUNED,
    "train.steps=350", "train.batch=32", "train.lr=1e-4", *SPLITS,
]  # fmt: skip
CUT = [
    "distil", SMOL, "--student-layers", "10", "--text", "enwik8.txt", "--method", "skl", "--online",
    "--out", "runs/cut", "train.steps=2500", "train.batch=32", "train.lr=1e-3", "data.valid=200", "data.test=200",
]  # fmt: skip
TRAINED = [
    "train", "text", "data.train=enwik8.txt", "data.tokens=bpe", "data.vocab_size=16000", "data.length=512",
    "model.width=512", "model.heads=8", "model.ffn=2048", "model.dropout=0", "model.max_positions=1024",
    "train.steps=4000", "train.mode=compile+capture", "--out", "runs/student",
]  # fmt: skip


class Pair(NamedTuple):
    """A student, the command that makes it, the methods, the folder of the study, and how many of its jobs run at once:
    together, those of both pairs fit into the memory of an H200."""

    student: str
    made_by: Sequence[str]
    methods: str
    out: str
    workers: int

    def study(self, rate: str, seeds: int, *more: str) -> list[str]:
        return [
            "compare", "distil", TUNED, self.student, *DOLLY, *EXAM, "--methods", self.methods, "--seeds", str(seeds),
            "--out", self.out, *more, "train.steps=600", "train.batch=32", f"train.lr={rate}", SPLITS[0],
        ]  # fmt: skip

    def trial(self, rate: str) -> list[str]:
        """The run that a rate is judged by."""
        return [
            "distil", TUNED, self.student, *DOLLY, "--method", "ce", "--out", self.trial_folder(rate),
            "train.steps=600", "train.batch=32", f"train.lr={rate}", "train.seed=10", *SPLITS,
        ]  # fmt: skip

    def trial_folder(self, rate: str) -> str:
        return f"{self.out}-{rate}"

    def seeds_done(self, folder: Path) -> int:
        """How many of the first seeds all methods have finished."""
        runs, seed = folder / self.out / "runs", 0
        while all((runs / f"{method}-seed{seed}" / "judged.json").is_file() for method in self.methods.split(",")):
            seed += 1
        return seed


PAIRS = {
    "e": Pair("runs/cut", CUT, "ce,kl,skl,skl+mta,kl+mta", "runs/same", 8),
    "f": Pair("runs/student", TRAINED, "ce,uld-paper,sra", "runs/other", 4),
}


class Runner:
    """Starts commands in a folder, and notes how far each is."""

    def __init__(self, folder: Path, seconds: float, program: Sequence[str] = (sys.executable, "-m", "splitstep")):
        self.folder, self.program, self.begin = folder, program, time.monotonic()
        self.end, self.state, self.lock = self.begin + seconds, dict[str, Any](), threading.Lock()
        (folder / "logs").mkdir(parents=True, exist_ok=True)

    def note(self, name: str, **more: Any) -> None:
        with self.lock:
            self.state[name] = {**self.state.get(name, {}), **more, "at": round(time.monotonic() - self.begin)}
            write_atomically(self.folder / "status.json", json.dumps(self.state, indent=1) + "\n")

    def run(self, name: str, words: Sequence[str], stops: bool = False) -> bool:
        """Whether a command ended well; one that `stops` is interrupted when the time is over."""
        for number in range(TRIES):
            self.note(name, state="runs", tries=number + 1)
            with (self.folder / "logs" / f"{name}.log").open("ab") as log:
                process = subprocess.Popen([*self.program, *words], cwd=self.folder, stdout=log, stderr=log)
                code = self.wait(process, stops)
            self.note(name, state="stopped" if code is None else f"exit code {code}")
            if not code:
                return code == 0
        return False

    def wait(self, process: subprocess.Popen[bytes], stops: bool) -> int | None:
        """The exit code; None if the time was over."""
        while process.poll() is None:
            time.sleep(0.2)
            if stops and time.monotonic() > self.end:
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(INTERRUPT)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                return None
        return process.returncode


def together(tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    """What functions return that run at the same time."""
    found: list[Any] = [None] * len(tasks)

    def call(number: int) -> None:
        found[number] = tasks[number]()

    threads = [threading.Thread(target=call, args=(number,)) for number in range(len(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def unpack_teacher(folder: Path) -> None:
    """Write the teacher as a folder, which opens faster than its GGUF file."""
    if (folder / SMOL).is_dir():
        return
    from splitstep.opening import open_model

    opened = open_model(folder / f"{SMOL}.gguf")
    opened.model.float().save_pretrained(folder / SMOL)
    opened.needs_tokenizer().save_pretrained(folder / SMOL)


def best_rate(runner: Runner, pair: Pair) -> str | None:
    """The rate with the lowest validation loss; None if a trial failed."""
    trials = [lambda r=rate: runner.run(f"{Path(pair.out).name}-{r}", pair.trial(r)) for rate in RATES]
    if not all(together(trials)):
        return None
    files = {rate: runner.folder / pair.trial_folder(rate) / "result.json" for rate in RATES}
    losses = {rate: json.loads(file.read_text())["valid"]["loss"] for rate, file in files.items()}
    runner.note(f"{Path(pair.out).name}-rates", losses=losses)
    return min(losses, key=lambda rate: losses[rate])


def run_pair(runner: Runner, pair: Pair, tuned: threading.Thread, seeds: int) -> bool:
    """Make the student, choose the rate, and run the study; whether there is a result."""
    name = Path(pair.out).name
    made = runner.run(Path(pair.student).name, pair.made_by)
    tuned.join()
    if not made or not (runner.folder / TUNED / "result.json").is_file():
        return False
    rate = best_rate(runner, pair)
    engine = ("--engine", f"local={pair.workers}")
    if rate is None:
        return False
    if runner.run(name, pair.study(rate, seeds, *engine), stops=True):
        return True
    done = pair.seeds_done(runner.folder)
    return done > 0 and runner.run(f"{name}-collected", pair.study(rate, done, *engine))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pairs", nargs="+", choices=sorted(PAIRS), default=sorted(PAIRS))
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="after which studies are stopped")
    given = parser.parse_args()
    runner = Runner(given.folder, given.seconds)
    unpack_teacher(given.folder)
    tuned = threading.Thread(target=runner.run, args=("tuned", TUNE))
    tuned.start()
    pairs = [PAIRS[name] for name in given.pairs]
    found = together([lambda p=pair: run_pair(runner, p, tuned, given.seeds) for pair in pairs])
    tuned.join()
    runner.note("all", state="done" if all(found) else "some failed")
    return 0 if all(found) else 1


if __name__ == "__main__":
    sys.exit(main())
