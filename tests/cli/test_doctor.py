"""`splitstep doctor` says what is installed; a shell completes verbs, options and names."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from commands import call

from splitstep import cli
from splitstep.studies.checkup import missing, requirements, to_mend

NOWHERE = "splitstep-is-not-a-package-of-this-name"


def test_versions_threads_and_folders_are_those_of_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sets").mkdir()
    found = call(capsys, "doctor", "--data", "sets")
    assert found["versions"]["torch"] == version("torch")
    assert ("none" in found["computer"]["GPU"]) is not torch.cuda.is_available()
    assert found["computer"]["threads"].startswith(f"{torch.get_num_threads()} thread")
    assert found["folders"]["data"].startswith(f"{tmp_path / 'sets'}, 0 items")
    assert found["wrong"] == []
    assert cli.main(["doctor"]) == 0
    assert "Everything that splitstep needs is installed." in capsys.readouterr().out


def test_what_is_missing_or_too_old_comes_with_the_command_that_installs_it() -> None:
    assert ("dask", "2025.1", "cluster") in list(requirements())
    assert ("numpy", "2", "") in list(requirements())
    assert {extra for *_, extra in requirements()} >= {"notebooks", "images", "cluster"}
    found = missing([(NOWHERE, "1", "images"), (NOWHERE, "1", "notebooks"), ("torch", "1", "cluster")])
    assert found["notebooks"].endswith(f"{NOWHERE} missing: pip install 'splitstep[notebooks]'")
    assert found["images"] == f"for your own images, {NOWHERE} missing: pip install 'splitstep[images]'"
    assert "cluster" not in found
    assert to_mend(NOWHERE, "1") == f"{NOWHERE} is missing: pip install {NOWHERE}"
    assert to_mend("torch", "999.1") == f"torch {version('torch')} is too old: pip install 'torch>=999.1'"
    assert to_mend("torch", "2") is None


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("splitstep tra", ["train", "translate"]),
        ("splitstep train digi", ["digits"]),
        ("splitstep train digits train.warm", ["train.warmup=", "train.warmup_from="]),
        ("splitstep schemes yosh", ["yoshida4"]),
        ("splitstep compare --see", ["--seeds"]),
    ],
)
def test_a_shell_completes(words: str, expected: list[str]) -> None:
    asked = {"_SPLITSTEP_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    found = subprocess.run(
        [sys.executable, "-m", "splitstep"], env=os.environ | asked, capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == expected


def test_completion_is_installed_for_a_shell(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "splitstep", "--show-completion", "bash"]
    shown = subprocess.run(words, capture_output=True, text=True, check=True, env=os.environ | {"HOME": str(tmp_path)})
    assert "_SPLITSTEP_COMPLETE=complete_bash" in shown.stdout
    assert shown.stdout.rstrip().endswith("splitstep")
