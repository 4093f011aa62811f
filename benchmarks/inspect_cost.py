"""What a close look at a layer costs, beside the plain way to the same answer.

    python benchmarks/inspect_cost.py --out results/inspect/cost.json

1. The full Jacobian of a single-token block of width 768 against `torch.func.jacrev` on the same layer written out by
   hand: at most 1.2 times its time.
2. The 10 leading singular values of a block on 8 tokens of width 576 without the matrix, against the dense Jacobian and
   its singular values: within 1%, in at most a thirtieth of the time.

Both ways take turns in one process, and who begins alternates. The figure is the median of the ratios of neighbours, in
CPU time, because other work on the machine lengthens the wall time of short and long runs by different factors. Wall
time stands beside it, and so does the peak of resident memory above what the process had before, in the first run of
each way, ours being first (Linux only). Weights are random, with the standard deviations of --std and --leading-std:
with small ones singular values lie close together, the hard case.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from splitstep.fields import Context, exact_attention
from splitstep.integrate import Event
from splitstep.models import CausalConfig, SplitstepForCausalLM
from splitstep.probes.layer_maps import Layer, LayerBlocks, block_of, jacobian, token_block_of
from splitstep.probes.low_rank import leading_of
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
    return jacobian(token_block_of(layer, Context()), layer.x[0, -1])


def dense_leading(layer: Layer) -> Tensor:
    """The leading singular values by way of the whole matrix."""
    block, shape = by_hand(layer), layer.x.shape
    with exact_attention():
        found: Any = torch.func.jacrev(lambda u: block(u.view(shape), layer.context).flatten())(layer.x.flatten())
    return torch.linalg.svdvals(found.detach())[:10]


def free_leading(layer: Layer) -> Tensor:
    block = block_of(layer)
    return leading_of(lambda x: block(x, layer.context), layer.x, count=10).s


CASES: dict[str, tuple[tuple[int, int, int], Callable[[Layer], Tensor], Callable[[Layer], Tensor]]] = {
    "token jacobian": ((768, 12, 8), plain_token, probe_token),
    "leading": ((576, 9, 8), dense_leading, free_leading),
}


class Cost(NamedTuple):
    """CPU and wall seconds of one run, what it had of memory at most above what it began with, and its answer."""

    cpu: float
    wall: float
    MiB: float
    found: Tensor


def memory(key: str) -> float:
    """A line of this process's status, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{key}:"))


def run(work: Callable[[Layer], Tensor], layer: Layer) -> Cost:
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before, wall, cpu = memory("VmRSS"), time.perf_counter(), time.process_time()
    found = work(layer)
    return Cost(time.process_time() - cpu, time.perf_counter() - wall, memory("VmHWM") - before, found)


def pair(plain: Callable[[Layer], Tensor], ours: Callable[[Layer], Tensor], layer: Layer, number: int) -> list[Cost]:
    """The costs of (plain, ours); who begins alternates."""
    if number % 2 == 0:
        return [run(plain, layer), run(ours, layer)]
    return [run(ours, layer), run(plain, layer)][::-1]


def compare(name: str, pairs: int, std: float) -> dict[str, Any]:
    """The cost of both ways, taking turns, and how far the answers are apart."""
    shape, plain, ours = CASES[name]
    layer = layer_of(*shape, std)
    fresh = run(ours, layer)  # later runs reuse memory that the process has already
    rows = [pair(plain, ours, layer, number) for number in range(pairs)]
    wanted, found = (one.found.double() for one in rows[-1])
    away = (found - wanted).abs()
    out: dict[str, Any] = {"width": shape[0], "tokens": 1 if wanted.ndim == 2 else shape[2], "std": std, "pairs": pairs}
    for unit in ("cpu", "wall"):
        both = [(getattr(a, unit), getattr(b, unit)) for a, b in rows]
        out[f"plain_{unit}"], out[f"ours_{unit}"] = (statistics.median(one) for one in zip(*both, strict=True))
        out[f"ratio_{unit}"] = statistics.median(b / a for a, b in both)
        out[f"ratios_{unit}"] = [round(b / a, 4) for a, b in both]
    out |= {"plain_MiB": rows[0][0].MiB, "ours_MiB": fresh.MiB}
    return out | {"error": float((away / wanted).max() if wanted.ndim == 1 else away.max() / wanted.abs().max())}


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
    leading = [compare("leading", options.pairs, std) for std in options.leading_std]
    passed = {
        "token jacobian": token["ratio_cpu"] <= TIMES,
        "leading": all(one["ratio_cpu"] <= PART and one["error"] <= NEAR for one in leading),
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
    parser.add_argument("--leading-std", type=float, nargs="+", default=[0.02, 0.1])
    options = parser.parse_args()
    found = measured(options)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
