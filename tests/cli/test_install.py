"""A wheel has all that the command needs, and a wrong word is answered before torch is imported."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import splitstep

ROOT = Path(__file__).parents[2]


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    """The standard output of a command that ends well."""
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=os.environ | environment, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def pip(*words: str | Path, cwd: Path) -> None:
    run(sys.executable, "-m", "pip", *words, "--no-deps", "--no-index", "-q", cwd=cwd)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which a wheel of this checkout is installed. It is built from a copy: setuptools writes there."""
    pytest.importorskip("setuptools")
    place = tmp_path_factory.mktemp("install")
    source = place / "source"
    shutil.copytree(ROOT / "splitstep", source / "splitstep", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip("wheel", "--no-build-isolation", "--wheel-dir", place / "wheels", source, cwd=place)
    [wheel] = (place / "wheels").iterdir()
    pip("install", "--target", place / "site", wheel, cwd=place)
    return place / "site"


@pytest.mark.slow
def test_an_installed_wheel_trains_a_recipe_by_name_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    imported = run(
        sys.executable, "-c", "import splitstep; print(splitstep.__file__)", cwd=tmp_path, PYTHONPATH=str(installed)
    )
    assert Path(imported.strip()) == installed / "splitstep" / "__init__.py"
    words = ("train", "digits", "train.steps=3", "train.evaluate_every=3", "--json")
    printed = run(installed / "bin" / "splitstep", *words, cwd=tmp_path, PYTHONPATH=str(installed))
    result = json.loads(printed)
    assert (result["status"], result["task"], result["steps"]) == ("finished", "digits", 3)
    assert (tmp_path / "runs" / "digits" / "model" / "model.safetensors").is_file()


@pytest.mark.slow
def test_a_wheel_has_every_file_of_the_package(installed: Path) -> None:
    def files(folder: Path) -> set[str]:
        found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
        return {str(path) for path in found if "__pycache__" not in path.parts}

    assert files(installed / "splitstep") == files(ROOT / "splitstep")


WITHOUT_TORCH = """
import sys
from splitstep.cli import main
code = main(sys.argv[1:])
heavy = {"torch", "transformers", "numpy", "scipy", "rich.table"} & set(sys.modules)
sys.exit(f"imported {sorted(heavy)}" if heavy else code)
"""


@pytest.mark.parametrize(
    "words",
    [
        ("trian", "digits"),
        ("train", "digits", "--ouut", "run"),
        ("train", "digist", "--out", "run"),
        ("train",),
        ("compare", "digist", "--schemes", "lie", "--out", "run"),
        ("compare", "--task", "digist", "--schemes", "lie", "--out", "run"),
        ("compare", "--schemes", "lie", "--out", "run"),
        ("compare", "digits", "--schemes", "lie", "--seeds", "0", "--out", "run"),
        ("compare", "gleu"),
        ("compare", "glue", "digits", "--start", "run", "--out", "run"),
        ("compare", "distil", "T", "--text", "rows.jsonl", "--methods", "ce", "--out", "run"),
        ("recipes", "digist"),
        ("tasks", "--marksdown"),
        ("schemes", "wrong"),
        ("generate",),
        (),
    ],
    ids=" ".join,
)
def test_a_wrong_word_is_answered_without_torch(words: tuple[str, ...], tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH, *words], cwd=tmp_path, text=True, capture_output=True)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [("--version",), ("-h",), ("train", "-h"), ("compare", "glue", "-h"), ("recipes", "-h"), ("recipes", "digits")],
)
def test_help_version_and_a_recipe_need_no_torch(words: tuple[str, ...], tmp_path: Path) -> None:
    printed = run(sys.executable, "-c", WITHOUT_TORCH, *words, cwd=tmp_path)
    assert printed.strip()


def test_the_version_is_that_of_the_project(tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert run(sys.executable, "-m", "splitstep", "--version", cwd=tmp_path) == f"splitstep {project['version']}\n"
    assert version("splitstep") == project["version"]


def test_every_public_name_is_listed_and_there() -> None:
    assert set(splitstep.__all__) <= set(dir(splitstep))
    assert [name for name in splitstep.__all__ if getattr(splitstep, name, None) is None] == []


BLOCK = """
from importlib.machinery import PathFinder

find = PathFinder.find_spec
PathFinder.find_spec = lambda name, path=None, target=None: None if name in {names!r} else find(name, path, target)
"""
DEMO = re.findall(r"^\t\$\(BIN\)/splitstep (.*)$", (ROOT / "Makefile").read_text(), re.M)


def optional_packages() -> set[str]:
    """The names of all optional packages that no other package needs: accelerate needs psutil."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names = {re.split(r"[\[<>=]", text)[0].replace("-", "_") for given in extras.values() for text in given}
    return names - {"splitstep", "setuptools", "psutil"}


@pytest.mark.slow
def test_the_demo_needs_no_optional_package(tmp_path: Path) -> None:
    """Its commands, shrunk, in a Python that cannot import optional packages."""
    assert {words.split()[0] for words in DEMO} == {"schemes", "compare"}
    (tmp_path / "sitecustomize.py").write_text(BLOCK.format(names=optional_packages()))
    path = f"{tmp_path}{os.pathsep}{ROOT}"
    for words in DEMO:
        shrunk = shlex.split(words.partition(" > ")[0].replace("--seeds 3", "--seeds 1"))
        shrunk += {"compare": ["train.steps=2"], "schemes": ["lie"]}.get(shrunk[0], [])
        run(sys.executable, "-m", "splitstep", *shrunk, cwd=tmp_path, PYTHONPATH=path)
    assert {str(page.relative_to(tmp_path)) for page in tmp_path.rglob("report.html")} == {
        "runs/demo/orders/report.html",
        "runs/demo/digits/report.html",
    }
    blocked = [sys.executable, "-c", "import dask"]
    assert subprocess.run(blocked, env=os.environ | {"PYTHONPATH": path}, capture_output=True).returncode == 1
