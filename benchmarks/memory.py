"""Bytes that training holds for its backward pass on one GPU, at 12 and 48 layers: reversible, rk4 and lie.

python benchmarks/memory.py --out results/memory
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import torch

from splitstep.models import CausalConfig, SplitstepForCausalLM

ROWS = ("lie", "rk4", "reversible")
BATCH, LENGTH = 16, 512


def held(scheme: str, layers: int) -> int:
    """Device memory between the forward and the backward pass, above the weights."""
    config = CausalConfig(
        scheme=scheme, layers=layers, width=256, heads=4, ffn=1024, vocab_size=256, max_positions=LENGTH, dropout=0.1
    )
    model = SplitstepForCausalLM(config).cuda().train()
    tokens = torch.randint(256, (BATCH, LENGTH), device="cuda")
    before = torch.cuda.memory_allocated()
    with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
        loss = model(tokens, labels=tokens).loss
    after = torch.cuda.memory_allocated()
    loss.backward()
    return after - before


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--commit", default="")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("This benchmark needs a CUDA device.", file=sys.stderr)
        return 2
    held("lie", 1)  # not counted: the libraries allocate their own buffers here
    rows = [{"scheme": s, "layers": n, "bytes": held(s, n)} for s in ROWS for n in (12, 48)]
    document = {
        "command": " ".join(["python", *sys.argv]), "card": torch.cuda.get_device_name(), "torch": torch.__version__,
        "commit": options.commit, "date": time.strftime("%Y-%m-%d"), "batch": [BATCH, LENGTH], "rows": rows,
    }  # fmt: skip
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "memory.json").write_text(json.dumps(document, indent=1) + "\n")
    for row in rows:
        print(f"{row['scheme']:12} {row['layers']:3} layers  {row['bytes'] / 2**20:10,.1f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
