"""Imports point one way, and the core needs torch and nothing else."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import splitstep

ROOT = Path(splitstep.__file__).parent
PAGE = ROOT.parent / "docs" / "architecture.md"


def drawn_levels() -> tuple[tuple[str, ...], ...]:
    """The rooms in the drawing of docs/architecture.md, from the ground up; rooms in one line are neighbours."""
    [block] = [one for one in re.findall(r"```\n(.*?)```", PAGE.read_text(), re.DOTALL) if one.startswith("cli ")]
    lines = [re.split(r"\s{2,}", line)[0] for line in block.splitlines()]
    return ("__main__",), *(tuple(line.split()) for line in lines)


LEVELS = drawn_levels()[::-1]
[MATHEMATICS] = (level for level in LEVELS if "tableau" in level)
LEVEL = {part: level for level, parts in enumerate(LEVELS) for part in parts}
CORE = [part for part in LEVEL if LEVEL["recipes"] < LEVEL[part] <= LEVEL["fields"]]
FILES = {path.relative_to(ROOT).with_suffix("").parts: path for path in ROOT.rglob("*.py")}
MODULES = [parts for parts in FILES if parts != ("__init__",)]


def imported(parts: tuple[str, ...]) -> Iterator[str]:
    """The absolute names of all modules that a file imports, wherever in the file."""
    package = ("splitstep", *parts[:-1])
    for node in ast.walk(ast.parse(FILES[parts].read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *([node.module] if node.module else [])))
            if module == "splitstep":
                yield from (f"splitstep.{alias.name}" for alias in node.names)
            else:
                yield module


def own(parts: tuple[str, ...]) -> set[str]:
    """The parts of the package that a file imports."""
    return {name.split(".")[1] for name in imported(parts) if name.startswith("splitstep.")}


def foreign(parts: tuple[str, ...]) -> set[str]:
    return {name.split(".")[0] for name in imported(parts)} - {"splitstep"} - sys.stdlib_module_names


@pytest.mark.parametrize("parts", MODULES, ids=".".join)
def test_imports_point_one_way(parts: tuple[str, ...]) -> None:
    assert parts[0] in LEVEL, f"give splitstep/{parts[0]} its line in the drawing of docs/architecture.md"
    assert "splitstep" not in set(imported(parts)), "import the module that defines the name, not the package"
    unknown = own(parts) - LEVEL.keys()
    assert not unknown, f"import from the module that defines it, not from splitstep/__init__.py: {unknown}"
    assert not {part for part in own(parts) if LEVEL[part] > LEVEL[parts[0]]}


def test_neighbours_do_not_import_each_other_in_a_circle() -> None:
    for level in LEVELS:
        if level == MATHEMATICS:
            continue
        edges = {(p[0], other) for p in MODULES if p[0] in level for other in own(p) if other in level}
        assert not {(a, b) for a, b in edges if a != b and (b, a) in edges}


@pytest.mark.parametrize("part", MATHEMATICS)
def test_the_mathematics_imports_the_standard_library_only(part: str) -> None:
    assert foreign((part,)) == set()


@pytest.mark.parametrize("parts", [p for p in MODULES if p[0] in CORE], ids=".".join)
def test_the_core_imports_torch_and_nothing_else(parts: tuple[str, ...]) -> None:
    spared = {"triton"} if parts[-1].endswith("_kernels") else set[str]()  # imported on first use, on GPUs
    assert foreign(parts) - spared <= {"torch"}


def test_the_package_and_its_verbs_bring_torch_and_transformers_on_first_use() -> None:
    code = (
        "import sys, splitstep.cli; assert 'torch' not in sys.modules; assert 'rich.table' not in sys.modules; "
        "splitstep.Stack; assert 'torch' in sys.modules; "
        "assert 'transformers' not in sys.modules; assert 'scipy' not in sys.modules; "
        "assert not [name for name in sys.modules if name.endswith('_kernel') and 'splitstep' in name]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
