"""A wheel has all that the command needs, and a wrong word is answered before torch is imported."""

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

import pytest

import splitstep
from splitstep.cli import VERBS

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


def copied(source: Path) -> Path:
    """A folder with what a wheel is built from."""
    shutil.copytree(ROOT / "splitstep", source / "splitstep", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    return source


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which a wheel of this checkout is installed. It is built from a copy: setuptools writes there."""
    pytest.importorskip("setuptools")
    place = tmp_path_factory.mktemp("install")
    pip("wheel", "--no-build-isolation", "--wheel-dir", place / "wheels", copied(place / "source"), cwd=place)
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
    assert (tmp_path / "runs" / "train-digits" / "model" / "model.safetensors").is_file()


@pytest.mark.slow
def test_a_wheel_has_every_file_of_the_package(installed: Path) -> None:
    def files(folder: Path) -> set[str]:
        found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
        return {str(path) for path in found if "__pycache__" not in path.parts}

    assert files(installed / "splitstep") == files(ROOT / "splitstep")
    assert "py.typed" in files(installed / "splitstep")


def contents(wheel: Path) -> dict[str, bytes]:
    with ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.nightly
def test_an_sdist_builds_the_same_wheel_and_both_may_be_published(tmp_path: Path) -> None:
    source, build = copied(tmp_path / "source"), (sys.executable, "-m", "build", "--no-isolation")
    run(*build, "--wheel", "--outdir", tmp_path / "direct", source, cwd=tmp_path)
    shutil.rmtree(source / "build")
    run(*build, "--outdir", tmp_path / "dist", source, cwd=tmp_path)  # the wheel is built from the sdist
    [direct], [wheel] = (list((tmp_path / name).glob("*.whl")) for name in ("direct", "dist"))
    assert contents(wheel) == contents(direct)
    [sdist] = (tmp_path / "dist").glob("*.tar.gz")
    said = run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist, cwd=tmp_path, NO_COLOR="1")
    assert said.count("PASSED") == 2


WITHOUT_TORCH = """
import sys
from splitstep.cli import main
codes = [main(line.split()) for line in sys.argv[1:]]
heavy = {"torch", "transformers", "scipy"} & set(sys.modules)
sys.exit(f"imported {sorted(heavy)}" if heavy else str(codes))
"""
WRONG = (
    "trian digits", "train digits --ouut run", "train digist --out run", "train digits train.stepz=3",
    "train digits scheme=macron", "train", "compare digist --out run", "compare --task digist --out run",
    "compare --schemes lie --out run", "compare digits --schemes lie,macron", "compare digits --seeds 0 --out run",
    "compare digits train.stepz=3", "ablate digits train.stepz=3", "compare gleu", "compare digits --arms lie,macron",
    "compare digits --arms lie,A@mid", "ablate digits --arms full,no-nrom",
    "compare glue digits --start run --out run", "compare distil T --text rows.jsonl --methods ce --out run",
    "recipes digist", "tasks --marksdown", "schemes wrong", "generate", "",
)  # fmt: skip
LISTINGS = ["recipes", "tasks", "arms", "schemes lie macaron", "recipes digits", "report -h", "compare glue -h", "-h"]


def without_torch(lines: Sequence[str], folder: Path) -> tuple[list[int], list[str]]:
    """The exit codes of commands in one process that must not import torch, and the lines on standard error."""
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH, *lines], cwd=folder, text=True, capture_output=True)
    *errors, codes = done.stderr.splitlines()
    return ast.literal_eval(codes), errors


def test_a_wrong_word_is_answered_in_one_line_without_torch(tmp_path: Path) -> None:
    codes, errors = without_torch(WRONG, tmp_path)
    assert set(codes) == {2}
    assert len(errors) == len(WRONG)
    assert all(line.startswith("Error: ") for line in errors)


def test_listings_and_help_need_no_torch(tmp_path: Path) -> None:
    lines = [*LISTINGS, *(f"{verb} --help" for verb in VERBS)]
    assert without_torch(lines, tmp_path) == ([0] * len(lines), [])


def test_the_version_is_that_of_the_project(tmp_path: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert run(sys.executable, "-m", "splitstep", "--version", cwd=tmp_path) == f"splitstep {project['version']}\n"
    assert version("splitstep") == splitstep.__version__ == project["version"]


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
        shrunk += {"compare": ["train.steps=2", "--engine", "local=1"], "schemes": ["lie"]}.get(shrunk[0], [])
        run(sys.executable, "-m", "splitstep", *shrunk, cwd=tmp_path, PYTHONPATH=path)
    assert {str(page.relative_to(tmp_path)) for page in tmp_path.rglob("report.html")} == {
        "runs/demo/orders/report.html",
        "runs/demo/digits/report.html",
    }
    assert (tmp_path / "runs" / "demo" / "digits" / "report.html").read_text().count("data-tips=") == 7
    blocked = [sys.executable, "-c", "import dask"]
    assert subprocess.run(blocked, env=os.environ | {"PYTHONPATH": path}, capture_output=True).returncode == 1
