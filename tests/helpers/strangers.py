"""Networks that others might bring: blocks as source text, and configs of transformers."""

import json
from pathlib import Path
from typing import Any

HEAD = """
import torch
from torch import nn
from torch.nn import functional as F
"""

GOOD = (
    HEAD
    + """
class Layer(nn.Module):
    def __init__(self, width, heads, ffn):
        super().__init__()
        self.heads, self.norms = heads, nn.ModuleList([nn.RMSNorm(width), nn.RMSNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, ffn), nn.Linear(ffn, width)
        self.register_buffer("scale", torch.tensor(0.5), persistent=False)
        nn.init.constant_(self.out.bias, 0.25)

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in self.qkv(self.norms[0](x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.scale * self.down(F.relu(self.up(self.norms[1](x))).square())


def block(width, heads, layer, ffn):
    return Layer(width, heads, ffn)
"""
)

FUTURE = GOOD.replace("is_causal=True", "is_causal=False")
CLOSED = FUTURE.replace("nn.init.constant_(self.out.bias, 0.25)", "nn.init.zeros_(self.out.weight)")
DROPS = GOOD.replace(
    "F.relu(self.up(self.norms[1](x)))", "F.dropout(F.relu(self.up(self.norms[1](x))), 0.5, self.training)"
)
CHUNKS = GOOD.replace(
    "y = F.scaled_dot_product_attention(q, k, v, is_causal=True)",
    "t = torch.arange(x.shape[1]) // 16\n"
    "        y = F.scaled_dot_product_attention(q, k, v, attn_mask=t[:, None] >= t)",
)  # each chunk of 16 tokens sees all of itself
BATCH_NORM = (
    HEAD
    + """
class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up = nn.BatchNorm1d(width), nn.Linear(width, width)

    def forward(self, x):
        return x + self.up(self.norm(x.transpose(1, 2)).transpose(1, 2)).relu()


def block(width, heads, layer):
    return Layer(width)
"""
)
SINGLE = BATCH_NORM.replace("self.norm(x.transpose(1, 2)).transpose(1, 2)", "x @ torch.eye(x.shape[-1])")


def write_block(folder: Path, text: str = GOOD, name: str = "block") -> str:
    """A file with the block, and how an arm names it."""
    (folder / "mine.py").write_text(text)
    return f"{folder / 'mine.py'}:{name}"


def write_config(folder: Path, config: Any, name: str = "") -> str:
    """The config.json of a model of transformers."""
    file = folder / f"{name or config.model_type}.json"
    file.write_text(json.dumps(config.to_dict()))
    return str(file)


def llama(**entries: Any) -> Any:
    from transformers import LlamaConfig

    return LlamaConfig(**{"architectures": ["LlamaForCausalLM"], **entries})


def gpt2(**entries: Any) -> Any:
    from transformers import GPT2Config

    return GPT2Config(**entries)
