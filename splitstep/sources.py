"""What others wrote of a network, as a recipe stores it: the source of a block, or the config.json of a causal model.

Nothing here runs code or needs torch.
"""

import ast
import hashlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .support.documents import decode, read_json
from .support.words import nearest

AS_IS = ":as-is"  # after a config's name: the size in it stays
MOST = 10**6  # bytes of a file with a block


@dataclass(frozen=True)
class BlockSource:
    """A function `block(width, heads, layer)`, which may take `ffn` too: its file and name as in mine.py:block, and
    the text of the whole file."""

    file: str
    text: str

    @property
    def function(self) -> str:
        return self.file.rpartition(":")[2]

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True)
class ConfigSource:
    """The document of a config.json; `kept`: the network has the size in it, not the recipe's; `ffn`: the width of its
    feed-forward networks, if it was chosen for a cost."""

    file: str
    document: dict[str, Any]
    kept: bool = False
    ffn: int | None = None


def is_network(name: str) -> bool:
    """Whether the text of an arm names a file, and no scheme or modification."""
    return ".py:" in name or name.removesuffix(AS_IS).endswith((".py", ".json"))


def read_block(named: str) -> BlockSource:
    """The block that FILE.py:NAME names."""
    path, _, name = named.rpartition(":") if ".py:" in named else (named, "", "")
    file = Path(path).expanduser()
    if file.is_file() and not name:
        raise ValueError(f"{named} is a file: name what it defines, such as {block_meant(path, file)}")
    if not path or not name.isidentifier():
        raise ValueError(f"{named!r} does not name a block: type FILE.py:NAME, such as mine.py:block")
    if not file.is_file():
        raise ValueError(f"there is no file {path}: type FILE.py:NAME, such as mine.py:block")
    if file.stat().st_size > MOST:
        raise ValueError(f"{path} is larger than {MOST:,} bytes: keep a block in a file of its own")
    text = decode(file.read_bytes(), path)
    return checked_block(BlockSource(f"{file.name}:{name}", text))


def block_meant(path: str, file: Path) -> str:
    """What to type for a file alone: the functions and classes that it defines."""
    with suppress(SyntaxError, ValueError):
        nodes = ast.parse(file.read_bytes()).body
        names = [one.name for one in nodes if isinstance(one, ast.FunctionDef | ast.ClassDef)]
        return " or ".join(f"{path}:{name}" for name in names[:3]) or f"{path}:NAME"
    return f"{path}:NAME"


def checked_block(source: BlockSource) -> BlockSource:
    """The block, unless its text is not Python or does not define it."""
    file = source.file.rpartition(":")[0]
    try:
        names = set(defined(ast.parse(source.text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise ValueError(f"{file}{line} is not Python: {getattr(error, 'msg', None) or 'it cannot be read'}") from None
    if source.function not in names:
        near = nearest(source.function, names)
        hint = f"did you mean {file}:{near}?" if near else "define block(width, heads, layer) there"
        raise ValueError(f"{file} defines no {source.function}: {hint}")
    return source


def defined(module: ast.Module) -> Iterator[str]:
    """The names that the top level of a module defines or imports."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.ImportFrom | ast.Import):
            yield from (one.asname or one.name for one in node.names)
        elif isinstance(node, ast.Assign):
            yield from (one.id for target in node.targets for one in ast.walk(target) if isinstance(one, ast.Name))


def read_config(named: str) -> ConfigSource:
    """The config that FILE.json or FILE.json:as-is names."""
    path, kept = named.removesuffix(AS_IS), named.endswith(AS_IS)
    file = Path(path).expanduser()
    if not file.is_file():
        raise ValueError(f"there is no file {path}: name the config.json of a causal model")
    return checked_config(ConfigSource(file.name + AS_IS * kept, read_json(file), kept))


def checked_config(source: ConfigSource) -> ConfigSource:
    """The config, unless it does not say of which type its model is."""
    if not isinstance(source.document.get("model_type"), str):
        raise ValueError(f"{source.file} is not the config of a model: it has no model_type")
    return source
