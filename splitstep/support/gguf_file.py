"""GGUF files as transformers reads them, but once, alone, and with the special tokens that they name."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

MAGIC = b"GGUF"  # with which such a file begins
CHANGING = Lock()  # of the package gguf
SPECIAL = ("bos_token", "eos_token")


def is_gguf(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(len(MAGIC)) == MAGIC


@contextmanager
def gguf_source(file: Path) -> Iterator[dict[str, str]]:
    """The file by itself in a folder, as transformers wants it named: it would read other files beside it as well. It
    is read once."""
    with TemporaryDirectory() as folder, quick_reader():
        (Path(folder) / file.name).symlink_to(file.resolve())
        yield {"pretrained_model_name_or_path": folder, "gguf_file": file.name}


@contextmanager
def quick_reader() -> Iterator[None]:
    """The package gguf with a memory: transformers reads a file four times, and asks for the names of tensors once for
    each module. It draws no progress bar."""
    import gguf
    import numpy as np
    from transformers import modeling_gguf_pytorch_utils as loading

    class Reader(gguf.GGUFReader):
        """A reader with a plain array: slices of a memory map take five times as long, and it makes a million."""

        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value.view(np.ndarray) if isinstance(value, np.memmap) else value)

    readers = cache(Reader)

    def reader(path: str | os.PathLike[str]) -> Any:
        return readers(os.path.realpath(path))

    with CHANGING:
        before = {"GGUFReader": gguf.GGUFReader, "get_tensor_name_map": gguf.get_tensor_name_map}
        gguf.__dict__.update(GGUFReader=reader, get_tensor_name_map=cache(gguf.get_tensor_name_map))
        bar, loading.__dict__["tqdm"] = loading.__dict__.get("tqdm"), lambda tensors, desc: tensors
        try:
            yield
        finally:
            gguf.__dict__.update(before)
            loading.__dict__["tqdm"] = bar


def gguf_tokenizer(file: Path, where: dict[str, str]) -> Any:
    """The tokenizer in a file of `gguf_source`. Its beginning and its end are those that the file names: transformers
    takes the one for the other in files of Llama's kind."""
    import gguf
    from transformers import AutoTokenizer

    made, reader = AutoTokenizer.from_pretrained(**where), gguf.GGUFReader(file)
    for name in SPECIAL:
        field = reader.get_field(f"tokenizer.ggml.{name}_id")
        setattr(made, name, None if field is None else made.convert_ids_to_tokens(int(field.contents())))
    made.name_or_path = str(file)
    return made
