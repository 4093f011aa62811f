"""A tiny Llama in a GGUF file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

BEGIN, END = 1, 0
BYTES = {33: "!", 97: "a", 98: "b", 99: "c", 32: "Ġ"}
TOKENS = ["<|end|>", "<|begin|>", *BYTES.values(), "ab", "abc", "Ġa"]
LAYERS, WIDTH, HEADS, FFN = 2, 16, 2, 24
SQUARE, WIDE = (WIDTH, WIDTH), (FFN, WIDTH)
SHAPES = {
    "attn_q": SQUARE, "attn_k": SQUARE, "attn_v": SQUARE, "attn_output": SQUARE, "ffn_gate": WIDE, "ffn_up": WIDE,
    "ffn_down": WIDE[::-1], "attn_norm": (WIDTH,), "ffn_norm": (WIDTH,),
}  # fmt: skip


def write_gguf(file: Path, layers: int = LAYERS, **special: int) -> Path:
    """A Llama with random weights and a byte-level BPE of ten tokens."""
    gguf: Any = pytest.importorskip("gguf")
    writer, random = gguf.GGUFWriter(file, "llama"), np.random.default_rng(0)
    for name, value in {
        "context_length": 64, "embedding_length": WIDTH, "block_count": layers, "feed_forward_length": FFN,
        "head_count": HEADS, "head_count_kv": HEADS, "layer_norm_rms_eps": 1e-5,
        "rope_dimension_count": WIDTH // HEADS, "vocab_size": len(TOKENS), "tokenizer_model": "gpt2",
        "token_list": TOKENS, "token_merges": ["a b", "ab c", "Ġ a"],
        "token_types": [3, 3, *[1] * (len(TOKENS) - 2)],
        **{f"{name}_token_id": number for name, number in special.items()},
    }.items():  # fmt: skip
        getattr(writer, f"add_{name}")(value)
    shapes = {f"blk.{layer}.{name}.weight": shape for layer in range(layers) for name, shape in SHAPES.items()}
    for name, shape in {"token_embd.weight": (len(TOKENS), WIDTH), "output_norm.weight": (WIDTH,), **shapes}.items():
        writer.add_tensor(name, random.normal(size=shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file
