"""The package stays readable: no function and no file that needs more than a few screens; ruff holds the complexity."""

import ast
from pathlib import Path
from statistics import median

import splitstep

FILES = sorted(Path(splitstep.__file__).parent.rglob("*.py"))
LONGEST_FUNCTION, MEDIAN_FUNCTION, LONGEST_FILE = 50, 6, 400


def functions(path: Path) -> list[tuple[str, int]]:
    nodes = ast.walk(ast.parse(path.read_text()))
    found = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [(f"{path.name}:{f.name}", (f.end_lineno or f.lineno) - f.lineno + 1) for f in found]


def test_functions_are_short() -> None:
    lengths = [one for path in FILES for one in functions(path)]
    assert not [one for one in lengths if one[1] > LONGEST_FUNCTION]
    assert median(length for _, length in lengths) <= MEDIAN_FUNCTION


def test_files_are_short() -> None:
    assert not [(path.name, n) for path in FILES if (n := len(path.read_text().splitlines())) > LONGEST_FILE]
