"""Training in processes of their own, which a test may kill. A server that has imported everything forks them."""

import atexit
import json
import multiprocessing
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import torch
from safetensors.torch import load_file

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload([
    "splitstep.training", "splitstep.models", "splitstep.order",
    "splitstep.training.networks", "splitstep.tasks.images", "splitstep.tasks.pairs.corpora",
    "splitstep.tasks.listops",
    "splitstep.cli", "splitstep.studies.compare", "splitstep.studies.distil.inputs",
    "sklearn.datasets", "sacrebleu", "rouge_score.tokenizers",
])  # fmt: skip
MOMENT = ("tokens_per_second", "seconds", "date", "commit")  # what may differ between two equal runs

RECIPE: dict[str, Any] = {
    "task": "digits",
    "model": {"layers": 2, "width": 16, "heads": 2, "ffn": 32, "dropout": 0.1},
    "train": {
        "steps": 7, "batch": 16, "accumulate": 2, "warmup": 2, "log_every": 3, "evaluate_every": 4,
        "evaluate_batch": 400, "checkpoint_seconds": 0.0,
    },
}  # fmt: skip

NUMBERS: dict[str, Any] = {  # a translator that ends with the mean of its last weights, in the middle of an epoch
    "task": "numbers",
    "data": {"highest": 999, "train": 200, "valid": 6, "test": 6, "beams": 2},
    "model": {"layers": 1, "decoder_layers": 1, "width": 16, "heads": 2, "ffn": 16, "dropout": 0.1},
    "train": {
        "steps": 9, "batch": 512, "warmup": 2, "log_every": 3, "evaluate_every": 4, "keep": "average", "average": 3,
        "average_every": 2, "checkpoint_seconds": 0.0,
    },
}  # fmt: skip


FILES = frozenset({"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate", "shutil.rmtree"})


def count_and_kill(out: Path, kill_at: int, number: int = signal.SIGKILL) -> list[int]:
    """A counter of file operations under `out`; right before number `kill_at` the process gets a signal."""
    counter, begin = [0], (str(out), str(out.absolute()))

    def hook(event: str, arguments: Any) -> None:
        given = arguments if event in FILES else ()
        if any(isinstance(x, str | os.PathLike) and os.fspath(x).startswith(begin) for x in given):
            counter[0] += 1
            if counter[0] == kill_at:
                os.kill(os.getpid(), number)

    sys.addaudithook(hook)
    return counter


def trained(document: Mapping[str, Any], out: Path) -> Any:
    """The result of training."""
    from splitstep.training import read_recipe, train

    return train(read_recipe(document, "recipe"), out, quiet=True)


Act = Callable[[Mapping[str, Any], Path], Any]


def child(
    document: Mapping[str, Any], out: Path, kill_at: int, environment: Mapping[str, str], act: Act, pipe: Any
) -> None:
    import objectives  # noqa: F401  # recipes of tests may name them

    os.environ.update(environment)
    torch.set_num_threads(1)
    counter = count_and_kill(out, kill_at)
    try:
        result = act(document, out)
    except (ValueError, OSError) as error:
        result = error
    pipe.send((result, counter[0]))


class Child:
    """One process that trains, or does something else; `kill_at` numbers the file operation before which it is
    killed."""

    def __init__(
        self,
        document: Mapping[str, Any],
        out: Path,
        kill_at: int = 0,
        environment: Mapping[str, str] | None = None,
        act: Act = trained,
    ) -> None:
        self.pipe, other = SERVER.Pipe(duplex=False)
        self.process = SERVER.Process(target=child, args=(document, out, kill_at, environment or {}, act, other))
        self.process.start()
        other.close()

    def result(self) -> tuple[Any, int]:
        """What `train` returned, and the number of file operations."""
        try:
            received = self.pipe.recv()
        finally:
            self.process.join(60)
        if isinstance(received[0], Exception):
            raise received[0]
        return received

    def wait(self) -> int | None:
        self.process.join(120)
        return self.process.exitcode


class Program:
    """`splitstep` with these words in a folder, in a process and a session of its own that has imported everything
    already. Like a `Popen` with pipes."""

    def __init__(self, words: Sequence[str], folder: Path, **environment: str) -> None:
        self._folder = folder
        self._process = SERVER.Process(target=program, args=(words, folder, environment))
        self._process.start()
        atexit.register(self._process.kill)  # of a test that failed: Python would wait for its end
        self.pid: int = self._process.pid or 0

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def communicate(self, timeout: float) -> tuple[str, str]:
        """What it printed on both streams before it ended."""
        self._process.join(timeout)
        assert self.returncode is not None, "it still runs"
        printed, told = (file.read_text() for file in streams(self._folder, self.pid))
        return printed, told


def streams(folder: Path, pid: int) -> list[Path]:
    """The files with what a program printed."""
    return [folder / f"{name} of {pid}" for name in ("stdout", "stderr")]


def program(words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
    from splitstep.__main__ import main

    os.setsid()
    os.chdir(folder)
    os.environ.update(environment)
    for number, file in enumerate(streams(folder, os.getpid()), start=1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), number)
    sys.argv = ["splitstep", *words]
    sys.exit(main())


def run(document: Mapping[str, Any], out: Path, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Train in one process, to the end."""
    return Child(document, out, 0, environment).result()[0]


def free_port() -> str:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def launched(rank: int, processes: int, port: str) -> dict[str, str]:
    """The environment that torchrun gives a process."""
    return {
        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes),
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
    }  # fmt: skip


def together(
    document: Mapping[str, Any],
    out: Path,
    processes: int,
    kill_at: int = 0,
    environment: Mapping[str, str] | None = None,
    act: Act = trained,
    victim: int = 0,
) -> list[Child]:
    """Several processes that train together; if one is killed, it is the `victim`."""
    port, more = free_port(), environment or {}
    return [
        Child(document, out, kill_at if rank == victim else 0, launched(rank, processes, port) | more, act)
        for rank in range(processes)
    ]


def begun(document: Mapping[str, Any], out: Path, processes: int = 1, **given: Any) -> list[Child]:
    """One process that trains, or several together; the victim of a kill is the first of the list."""
    if processes == 1:
        return [Child(document, out, **given)]
    victim = given.get("victim", 0)
    children = together(document, out, processes, **given)
    return [children[victim], *children[:victim], *children[victim + 1 :]]


def operations_of(document: Mapping[str, Any], out: Path, processes: int = 1, **given: Any) -> int:
    """Train to the end; the number of file operations of the process that would be the victim of a kill."""
    operations, *_ = [child.result()[1] for child in begun(document, out, processes, **given)]
    return operations


def killed(document: Mapping[str, Any], out: Path, kill_at: int, processes: int = 1, **given: Any) -> None:
    """A run that is killed right before a file operation; of several processes the others end too. Its model is whole
    or not there."""
    victim, *others = begun(document, out, processes, kill_at=max(1, kill_at), **given)
    assert victim.wait() == -signal.SIGKILL
    for other in others:
        other.process.kill()
        other.wait()
    if (out / "model").exists():
        assert {"config.json", "model.safetensors"} <= {p.name for p in (out / "model").iterdir()}
        load_file(out / "model" / "model.safetensors")


def check_killed(
    document: Mapping[str, Any], folder: Path, share: float = 0.5, processes: int = 1, **given: Any
) -> None:
    """Killed after this share of its file operations and begun again, a run leaves what one leaves that never was."""
    operations = operations_of(document, folder / "whole", processes, **given)
    killed(document, folder / "killed", round(share * operations), processes, **given)
    operations_of(document, folder / "killed", processes, **given)
    assert everything(folder / "killed") == everything(folder / "whole")


def without_moments(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key not in MOMENT}


def lines(out: Path) -> list[dict[str, Any]]:
    """The metrics; every line must be whole."""
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def newest(out: Path) -> Path:
    """The newest checkpoint of a run."""
    return max(out.glob("checkpoints/step-*"))


def stored(checkpoint: Path) -> dict[str, dict[str, torch.Tensor]]:
    """The tensors of a checkpoint by group, put together from the rows that each process wrote."""
    parts: dict[str, dict[str, list[tuple[int, torch.Tensor]]]] = {}
    for name, entry in json.loads((checkpoint / "state.json").read_text())["files"].items():
        for key, x in load_file(checkpoint / name).items():
            parts.setdefault(entry["group"], {}).setdefault(key, []).append((entry["starts"].get(key, 0), x))
    return {
        group: {
            key: torch.cat([x for _, x in sorted(rows, key=lambda row: row[0])]) if len(rows) > 1 else rows[0][1]
            for key, rows in tensors.items()
        }
        for group, tensors in parts.items()
    }


def everything(out: Path) -> dict[str, Any]:
    """All that a finished run leaves behind, but for moments, times and the checkpoint before the last; tensors as
    bytes."""
    files = [file for folder in (newest(out), out / "model") for file in sorted(folder.glob("*.safetensors"))]
    tensors = {
        f"{file.parent.name}/{file.name}/{name}": (tuple(x.shape), x.numpy().tobytes())
        for file in files
        for name, x in load_file(file).items()
    }
    result = json.loads((out / "result.json").read_text())
    hidden = [p.name for p in out.rglob(".*")]
    return {
        "translations": {p.name: p.read_text() for p in sorted(out.glob("translations/*"))},
        "tensors": tensors,
        "metrics": [without_moments(line) for line in lines(out)],
        "result": without_moments(result),
        "hidden": hidden,
    }
