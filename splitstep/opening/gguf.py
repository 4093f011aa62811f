"""Models in GGUF files, as plain models: unpacked, and rebuilt from a clean config so that they can be saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, GgufConfig
from transformers.initialization import no_init_weights

from ..support.gguf_file import gguf_source, gguf_tokenizer, is_gguf


def read_gguf(file: Path) -> tuple[Any, Any]:
    """The model and the tokenizer in a GGUF file."""
    check_file(file)
    try:
        with gguf_source(file) as where:
            config = AutoConfig.from_pretrained(**where)
            auto = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
            packed = auto.from_pretrained(**where, config=config, quantization_config=GgufConfig(dequantize=True))
            tokenizer = gguf_tokenizer(file, where)
    except ImportError as error:
        raise ValueError(f"{file} is a GGUF file, which needs another package: pip install gguf ({error})") from None
    except Exception as error:  # the content of the file can break its reader in any way
        raise ValueError(
            f"{file} does not open: it is damaged, or of a kind unknown to transformers ({error})"
        ) from None
    return rebuilt(packed, file), tokenizer


def check_file(file: Path) -> None:
    if not file.is_file():
        raise ValueError(f"there is no file {file}")
    if not is_gguf(file):
        raise ValueError(f"{file} is not a GGUF file, in spite of its name: it does not begin with GGUF")


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
