"""A device without memory ends every verb with one line that says what to do, and exit code 2."""

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch
from commands import failure
from distil_pairs import bpe, gpt2, instructions, llama, saved
from inline import forked
from jobs import fill_device, fill_device_in_training

from splitstep import cli
from splitstep.distillation import teacher as teachers
from splitstep.experiments import running
from splitstep.studies import slopes
from splitstep.support.memory import no_memory
from splitstep.training import loop

TINY = ["model.layers=1", "model.width=8", "model.heads=2", "model.ffn=8"]
QUICK = ["train.steps=2", "train.batch=4", "train.warmup=1", "train.evaluate_every=1", "train.log_every=1"]


@pytest.mark.parametrize(
    ("error", "whether"),
    [
        (torch.OutOfMemoryError("CUDA out of memory."), True),
        (MemoryError(), True),
        (RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be ..."), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes."), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
        (ValueError("CUDA error: out of memory"), False),
    ],
)
def test_which_errors_say_that_memory_is_lacking(error: Exception, whether: bool) -> None:
    assert no_memory(error) == whether


def test_any_verb_says_it_in_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(slopes, "integrate", fill_device)
    assert failure(capsys, "schemes", "--measure")[-1] == (
        "Error: the device has too little memory: end what else runs there, or write CUDA_VISIBLE_DEVICES= before the "
        "command to use the CPU."
    )


def test_another_error_of_the_same_kind_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> None:
        raise RuntimeError("shapes do not fit")

    monkeypatch.setattr(slopes, "integrate", broken)
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        cli.main(["schemes", "--measure"])


@pytest.mark.parametrize("at", ["begin", "fit", "finish"])
def test_training_says_to_lower_the_batch(
    at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(loop, at, fill_device)
    line = failure(capsys, "train", "digits", *TINY, *QUICK, "--out", str(tmp_path / "run"))[-1]
    assert "too little memory: lower train.batch, raise train.accumulate" in line


SEVERAL = "for 2 jobs at once: start the same command with --engine local=1; it continues, and finished runs are kept."
ALONE = "end what else runs there, and start the same command again, which continues; or lower train.batch"


@pytest.mark.parametrize(
    ("act", "processes", "advice"), [(fill_device, 2, SEVERAL), (fill_device_in_training, 1, ALONE)]
)
def test_a_worker_says_to_run_fewer_jobs(
    act: Any, processes: int, advice: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A full device in a job, and in its training."""
    monkeypatch.setattr(running, "run_one", act)
    words = ["compare", "--task", "digits", "--schemes", "lie,reverse-lie", "--seeds", "1", *TINY, *QUICK]
    with forked(), TemporaryDirectory() as folder:
        line = failure(capsys, *words, "--engine", f"local={processes}", "--out", f"{folder}/study")[-1]
    assert re.match(r"Error: runs/(reverse-)?lie-seed0: ", line), "whichever of two jobs is first"
    assert advice in line


def test_a_teacher_without_memory_is_told_apart_from_its_student(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The batch of the student has no part in it; after more memory is there, the same command continues."""
    teacher = saved(llama(bpe(), 2, 8), bpe(), tmp_path / "teacher")
    student = saved(gpt2(bpe(), 2, 8), bpe(), tmp_path / "student")
    text = instructions(tmp_path / "text.jsonl")
    words = ["distil", teacher, student, "--text", text, "--method", "skl", "--out", str(tmp_path / "run"), *QUICK]
    with monkeypatch.context() as patch:
        patch.setattr(teachers, "fill", fill_device)
        line = failure(capsys, *words)[-1]
    assert "too little memory for the teacher to read 16 rows at once" in line
    assert "lower data.length, with another --out" in line
    assert cli.main(words) == 0
