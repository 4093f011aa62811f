"""The run directory: resolved recipe, versions, metrics, checkpoints, model and result."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import yaml

PACKAGES = ("splitstep", "torch", "transformers", "accelerate", "tokenizers", "safetensors", "numpy")


def write_atomically(path: Path, text: str) -> None:
    """Write the whole file or leave what was there."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        part.unlink(missing_ok=True)


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def git_hash() -> str | None:
    """The commit of the package's own checkout, "+" where it has changes; None where it is installed without git."""
    here = Path(__file__).resolve().parent

    def git(*words: str) -> str:
        run = subprocess.run(["git", "-C", str(here), *words], capture_output=True, text=True, timeout=10, check=True)
        return run.stdout.strip()

    try:
        return git("rev-parse", "--short=12", "HEAD") + (
            "+" if git("status", "--porcelain", "--untracked-files=no") else ""
        )
    except (OSError, subprocess.SubprocessError):
        return os.environ.get("SPLITSTEP_COMMIT")


class RunDirectory:
    """One run on disk. Opening it claims it: a directory of another recipe is refused, one of the same is resumed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.metrics = path / "metrics.jsonl"
        self.model = path / "model"

    def claim(self, recipe: Mapping[str, Any]) -> None:
        text = yaml.safe_dump(dict(recipe), sort_keys=False)
        file = self.path / "recipe.yaml"
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{self.path} is not a directory: name a new one with --out")
        if file.exists():
            if yaml.safe_load(file.read_text()) != yaml.safe_load(text):
                raise ValueError(f"{self.path} belongs to another run (see {file}): name a new directory with --out")
            return
        if self.path.is_dir() and any(self.path.iterdir()):
            raise ValueError(f"{self.path} holds other files and no run of splitstep: name a new directory with --out")
        self.path.mkdir(parents=True, exist_ok=True)
        write_atomically(file, text)

    def recipe(self) -> dict[str, Any]:
        file = self.path / "recipe.yaml"
        if not file.is_file():
            raise ValueError(f"{self.path} is no run of splitstep: it has no recipe.yaml")
        return yaml.safe_load(file.read_text())

    def result(self) -> dict[str, Any] | None:
        file = self.path / "result.json"
        return json.loads(file.read_text()) if file.is_file() else None

    def write_result(self, document: Mapping[str, Any]) -> None:
        write_atomically(self.path / "result.json", json.dumps(document, indent=2, allow_nan=False) + "\n")

    def write_once(self, name: str, document: Mapping[str, Any]) -> None:
        if not (self.path / name).exists():
            write_atomically(self.path / name, json.dumps(document, indent=2) + "\n")

    def rewind(self, step: int) -> None:
        """Forget what was logged after the checkpoint that a run goes on from."""
        if self.metrics.is_file():
            lines = [line for line in self.metrics.read_text().splitlines() if _step(line) <= step]
            write_atomically(self.metrics, "".join(f"{line}\n" for line in lines))

    def log(self, record: Mapping[str, Any]) -> None:
        with self.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def logged(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.metrics.read_text().splitlines()] if self.metrics.is_file() else []


def _step(line: str) -> float:
    try:
        return json.loads(line)["step"]
    except (ValueError, KeyError):
        return float("inf")  # a line that a kill cut short
