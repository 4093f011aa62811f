"""Ctrl-C and SIGTERM end `splitstep train` after a checkpoint, and the command that it names continues."""

import json
import os
import shlex
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from children import RECIPE, Program, everything, free_port, launched, lines, trained

from splitstep.training import loop, read_recipe, train
from splitstep.training import run as running
from splitstep.training.processes import Stop, Stopped

DOCUMENT: dict[str, Any] = {
    **RECIPE,
    "train": {**RECIPE["train"], "steps": 300, "evaluate_every": 150, "log_every": 20, "checkpoint_seconds": 1e6},
}


def begun(folder: Path, **environment: str) -> Program:
    """`splitstep train` in a process of its own."""
    (folder / "recipe.json").write_text(json.dumps(DOCUMENT))
    return Program(["train", "recipe.json", "--out", "a run"], folder, **environment)


def wait_for_updates(folder: Path, process: Program) -> None:
    metrics = folder / "a run" / "metrics.jsonl"
    while not (metrics.is_file() and len(metrics.read_text().splitlines()) > 2):
        assert process.returncode is None, process.communicate(0)
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)])
def test_a_signal_saves_and_says_how_to_go_on(number: signal.Signals, tmp_path: Path) -> None:
    """No update is lost, and the command that is named ends with the bits of a run that nobody stopped."""
    process = begun(tmp_path)
    wait_for_updates(tmp_path, process)
    process.send_signal(number)
    printed, told = process.communicate(timeout=60)
    assert (process.returncode, printed) == (128 + number, "")
    [folder] = (tmp_path / "a run" / "checkpoints").iterdir()
    step = json.loads((folder / "state.json").read_text())["step"]
    assert 0 <= step - lines(tmp_path / "a run")[-1]["step"] < 20
    words = "splitstep train recipe.json --out 'a run'"
    assert told.splitlines()[-1] == f"The run stopped after step {step:,}, which is saved. To continue: {words}"
    assert "Traceback" not in told
    again = Program(shlex.split(words)[1:], tmp_path)
    told = again.communicate(timeout=300)[1]
    assert again.returncode == 0, told
    assert f"continues after step {step:,}" in told
    trained(DOCUMENT, tmp_path / "whole")
    assert everything(tmp_path / "a run") == everything(tmp_path / "whole")


def test_of_several_processes_all_save_together(tmp_path: Path) -> None:
    """One of them is asked to stop; all stop after the same step, and write one checkpoint."""
    port = free_port()
    processes = [begun(tmp_path, **launched(rank, 2, port)) for rank in range(2)]
    wait_for_updates(tmp_path, processes[0])
    processes[1].send_signal(signal.SIGTERM)
    processes[1].send_signal(signal.SIGTERM)  # as a launcher does that the terminal has interrupted too
    told = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [128 + signal.SIGTERM] * 2
    [folder] = (tmp_path / "a run" / "checkpoints").iterdir()
    step = json.loads((folder / "state.json").read_text())["step"]
    assert f"The run stopped after step {step:,}, which is saved." in told[0]
    assert "The run stopped" not in told[1]
    assert lines(tmp_path / "a run")[-1]["step"] == step


def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    """In evaluation, say, which may take longer than somebody is ready to wait."""

    def interrupted(*arguments: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(60)

    document = {**DOCUMENT, "train": {**DOCUMENT["train"], "evaluate_every": 2}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "evaluate", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train(read_recipe(document, "recipe"), tmp_path / "run", quiet=True, stop=Stop(signal.SIGINT))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_signals_are_heard_during_training_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before and after, they do what they did; a run that nobody lets hear them is interrupted as ever."""
    handlers = []
    advance = running.Run.advance

    def watched(own: running.Run, *arguments: Any) -> None:
        handlers.append(signal.getsignal(signal.SIGTERM))
        if own.state.step == 5:
            os.kill(os.getpid(), signal.SIGTERM)
        advance(own, *arguments)

    monkeypatch.setattr(running.Run, "advance", watched)
    with pytest.raises(Stopped, match="stopped after step 6, which is saved") as caught:
        train(read_recipe(DOCUMENT, "recipe"), tmp_path / "run", quiet=True, stop=Stop(signal.SIGTERM))
    assert caught.value.number == signal.SIGTERM
    assert handlers[0] is not signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
