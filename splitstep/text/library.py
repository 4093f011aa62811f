"""English that every machine has: the docstrings of Python's standard library, one document a module."""

import ast
import hashlib
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from .documents import Chunk, parts_of

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


# Tests and their data, what is installed beside the library, generated help text, and programs rather than library.
LEFT_OUT = {"test", "tests", "idlelib", "site-packages", "dist-packages", "pydoc_data", "turtledemo", "__pycache__"}


def library_files(root: Path) -> list[Path]:
    """The library's modules, relative to its folder, sorted."""
    relative = (path.relative_to(root) for path in root.rglob("*.py"))
    # _sysconfigdata differs from machine to machine.
    return sorted(p for p in relative if not LEFT_OUT & set(p.parts) and not p.name.startswith("_sysconfigdata"))


def library() -> list[Path]:
    """The modules of the running Python."""
    root = Path(sysconfig.get_path("stdlib"))
    return [root / path for path in library_files(root)]


def library_hash() -> str:
    """The sha256 of all modules together."""
    found = hashlib.sha256()
    for path in library():
        found.update(path.read_bytes())
    return found.hexdigest()


def read_docstrings() -> Iterator[Chunk]:
    """The docstrings of each module, joined."""
    for path in library():
        yield from parts_of(docstrings_of(path.read_bytes()))


def docstrings_of(source: bytes) -> str:
    """The docstrings of one module in their order, with blank lines between them."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, DOCUMENTED)]
    nodes.sort(key=lambda node: getattr(node, "lineno", 0))
    return "\n\n".join(filter(None, map(ast.get_docstring, nodes)))
