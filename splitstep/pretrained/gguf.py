"""Models in GGUF files, as plain models: unpacked, and rebuilt from a clean config so that they can be saved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

import numpy as np
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer, GgufConfig
from transformers.initialization import no_init_weights

MAGIC = b"GGUF"
CHANGING = Lock()  # of the package gguf


def read_gguf(file: Path) -> tuple[Any, Any]:
    """The model and the tokenizer in a GGUF file."""
    check_file(file)
    try:
        with alone(file) as where, quick_reader():
            config = AutoConfig.from_pretrained(**where)
            auto = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
            packed = auto.from_pretrained(**where, config=config, quantization_config=GgufConfig(dequantize=True))
            tokenizer = AutoTokenizer.from_pretrained(**where)
    except ImportError as error:
        raise ValueError(f"{file} is a GGUF file, which needs another package: pip install gguf ({error})") from None
    except Exception as error:  # the content of the file can break its reader in any way
        raise ValueError(
            f"{file} does not open: it is damaged, or of a kind unknown to transformers ({error})"
        ) from None
    tokenizer.name_or_path = str(file)
    return rebuilt(packed, file), tokenizer


def check_file(file: Path) -> None:
    if not file.is_file():
        raise ValueError(f"there is no file {file}")
    with file.open("rb") as opened:
        if opened.read(len(MAGIC)) != MAGIC:
            raise ValueError(f"{file} is not a GGUF file, in spite of its name: it does not begin with GGUF")


@contextmanager
def alone(file: Path) -> Iterator[dict[str, str]]:
    """The file by itself in a folder, as transformers wants it named; it would read other files beside it as well."""
    with TemporaryDirectory() as folder:
        (Path(folder) / file.name).symlink_to(file.resolve())
        yield {"pretrained_model_name_or_path": folder, "gguf_file": file.name}


@contextmanager
def quick_reader() -> Iterator[None]:
    """The package gguf with a memory: transformers reads a file four times, and asks for the names of tensors once for
    each module."""
    import gguf

    class Reader(gguf.GGUFReader):
        """A reader with a plain array: slices of a memory map take five times as long, and it makes a million."""

        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value.view(np.ndarray) if isinstance(value, np.memmap) else value)

    with CHANGING:
        before = {"GGUFReader": gguf.GGUFReader, "get_tensor_name_map": gguf.get_tensor_name_map}
        gguf.__dict__.update(GGUFReader=cache(Reader), get_tensor_name_map=cache(gguf.get_tensor_name_map))
        try:
            yield
        finally:
            gguf.__dict__.update(before)


def rebuilt(packed: Any, file: Path) -> Any:
    """The same weights in a model of a clean config: transformers refuses to save what it has read from a GGUF file."""
    config = packed.config
    vars(config).pop("quantization_config", None)
    with no_init_weights():
        model = type(packed)._from_config(config, dtype=packed.dtype)
    model.load_state_dict(packed.state_dict(), assign=True)
    model.tie_weights()
    model.generation_config = packed.generation_config
    model.name_or_path = config.name_or_path = str(file)
    return model.eval()
