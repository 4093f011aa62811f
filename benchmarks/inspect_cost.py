"""What a close look at a layer costs, beside the plain way to the same answer.

    python benchmarks/inspect_cost.py --out results/inspect/cost.json

1. The full Jacobian of a single-token block of width 768 against `torch.func.jacrev` on the same layer written out by
   hand: at most 1.2 times its time.
2. The 10 leading singular values of a block on 8 tokens of width 576 without the matrix, against the dense Jacobian and
   its singular values: within 1%, in at most a thirtieth of the time.

Both ways take turns, so whatever else runs on the machine affects both; the figure is the median of the ratios of
neighbours. Peak memory is what a process of its own has at most, less what it has before it begins. Weights are random,
with the standard deviation of --std; larger ones make attention sharp.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from splitstep.fields import Context, exact_attention
from splitstep.integrate import Event
from splitstep.models import CausalConfig, SplitstepForCausalLM
from splitstep.probes.blocks import Layer, LayerBlocks, block_of, jacobian, token_block_of
from splitstep.probes.leading import leading_of
from splitstep.probes.probe import Figures, Pass

TIMES, PART, NEAR = 1.2, 1 / 30, 0.01


class Kept(LayerBlocks):
    """A probe that keeps the layers and nothing else."""

    def figures(self, passed: Pass) -> Figures:
        return {}


def layer_of(width: int, heads: int, tokens: int, std: float) -> Layer:
    """The second layer of a random pre-norm language model, with the state that reaches it."""
    torch.manual_seed(0)
    config = CausalConfig(layers=2, width=width, heads=heads, ffn=4 * width, vocab_size=100, init_std=std)
    model = SplitstepForCausalLM(config).eval()
    probe, events = Kept(), list[Event]()
    with torch.no_grad():
        model(torch.randint(100, (1, tokens)), observe=lambda e: (probe(e), events.append(e))[0])
    return Layer(model.body.stack.scheme, [probe.steps[1]], probe.starts[1], probe.context)


def by_hand(layer: Layer) -> Callable[[Tensor, Any], Tensor]:
    """x + A(x), then + F, without this package's integrator."""
    fields: Any = layer.steps[0].fields

    def block(x: Tensor, context: Any) -> Tensor:
        x = x + fields["A"](0.0, x, context)
        return x + fields["F"](0.0, x, context)

    return block


def plain_token(layer: Layer) -> Tensor:
    """The Jacobian of the last token by jacrev."""
    block = by_hand(layer)
    with exact_attention():
        found: Any = torch.func.jacrev(lambda u: block(u[None, None], Context())[0, 0])(layer.x[0, -1])
    return found.detach()


def probe_token(layer: Layer) -> Tensor:
    return jacobian(token_block_of(layer, 0), layer.x[0, -1])


def dense_leading(layer: Layer) -> Tensor:
    """The leading singular values by way of the whole matrix."""
    block, shape = by_hand(layer), layer.x.shape
    with exact_attention():
        found: Any = torch.func.jacrev(lambda u: block(u.view(shape), layer.context).flatten())(layer.x.flatten())
    return torch.linalg.svdvals(found.detach())[:10]


def free_leading(layer: Layer) -> Tensor:
    block = block_of(layer)
    return leading_of(lambda x: block(x, layer.context), layer.x).s


CASES: dict[str, tuple[tuple[int, int, int], Callable[[Layer], Tensor], Callable[[Layer], Tensor]]] = {
    "token jacobian": ((768, 12, 8), plain_token, probe_token),
    "leading": ((576, 9, 8), dense_leading, free_leading),
}


def seconds(work: Callable[[Layer], Tensor], layer: Layer) -> tuple[float, Tensor]:
    start = time.perf_counter()
    found = work(layer)
    return time.perf_counter() - start, found


def compare(name: str, pairs: int, std: float) -> dict[str, Any]:
    """Times of both ways, taking turns, and how far the answers are apart."""
    shape, plain, ours = CASES[name]
    layer = layer_of(*shape, std)
    ours(layer)
    rows = [(seconds(plain, layer), seconds(ours, layer)) for _ in range(pairs)]
    wanted, found = rows[-1][0][1].double(), rows[-1][1][1].double()
    away = (found - wanted).abs()
    return {
        "width": shape[0],
        "tokens": 1 if name == "token jacobian" else shape[2],
        "std": std,
        "pairs": pairs,
        "plain_s": statistics.median(one[0][0] for one in rows),
        "ours_s": statistics.median(one[1][0] for one in rows),
        "ratio": statistics.median(one[1][0] / one[0][0] for one in rows),
        "error": float((away / wanted).max() if wanted.ndim == 1 else away.max() / wanted.abs().max()),
        "plain_MiB": peak(name, 1, std),
        "ours_MiB": peak(name, 2, std),
    }


def peak(name: str, way: int, std: float) -> float:
    """Peak resident memory of one way in a process of its own, above what the layer takes."""
    command = [sys.executable, __file__, "--alone", name, "--way", str(way), "--std", str(std)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def alone(name: str, way: int, std: float) -> float:
    layer = layer_of(*CASES[name][0], std)
    layer.x @ layer.x.mT  # the libraries' own room
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    CASES[name][way](layer)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def machine() -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
    }


def measured(options: argparse.Namespace) -> dict[str, Any]:
    before = machine()
    token = compare("token jacobian", 4 * options.pairs, options.std)
    leading = [compare("leading", options.pairs, std) for std in (options.std, 5 * options.std)]
    passed = {
        "token jacobian": token["ratio"] <= TIMES,
        "leading": all(one["ratio"] <= PART and one["error"] <= NEAR for one in leading),
    }
    return {
        "machine": before,
        "load_after": os.getloadavg(),
        "token jacobian": token,
        "leading": leading,
        "pass": passed,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/inspect/cost.json"))
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--std", type=float, default=0.02)
    parser.add_argument("--alone", choices=CASES, help="run one way once, and print its peak memory")
    parser.add_argument("--way", type=int, choices=(1, 2), default=1)
    options = parser.parse_args()
    if options.alone:
        print(alone(options.alone, options.way, options.std))
        return
    found = measured(options)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
