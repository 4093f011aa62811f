"""What it costs to capture the states of a model at every half step, beside the plain pass and other ways.

    python benchmarks/inspect_capture.py --out results/inspect/capture.json

All states between the parts of all layers (resid_pre, resid_mid, resid_post) are kept while a batch of 8 x 64 tokens
passes through a decoder of the shape of SmolLM2-135M (30 layers, width 576) and an encoder of the shape of BERT-base
(12 layers, width 768), with random weights. The bar: at most 1.10 times the model's own pass.

The ways take turns in one process, and another one begins each round. The figure is the median over rounds of the ratio
to the plain pass of the same round, in CPU time, because other work on the machine lengthens wall time, which stands
beside it. Every way runs once before that: there ours learns where the states are, and `first_cpu` says for how long.
`states` is how many tensors a way keeps. `hooks` are written by hand for these two models. `output_hidden_states` has
the states of whole layers only. nnsight and TransformerLens run if they can be imported and take the model;
TransformerLens has a copy of it, with the attention that it needs (eager).
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from splitstep.flows import Capture
from splitstep.opening import load

BAR, BATCH = 1.10, (8, 64)
Way = Callable[[], int]  # runs the model, and says how many states it kept


def decoder() -> Any:
    config = transformers.LlamaConfig(
        vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
        num_key_value_heads=3, max_position_embeddings=2048, tie_word_embeddings=True,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config).eval()


def encoder() -> Any:
    return transformers.BertForMaskedLM(transformers.BertConfig()).eval()


def norms(model: Any) -> list[nn.Module]:
    """The modules whose inputs, or outputs in the encoder, are states: what an adapter has to know."""
    if model.config.model_type == "llama":
        return [one for layer in model.model.layers for one in (layer.input_layernorm, layer.post_attention_layernorm)]
    return [
        one for layer in model.bert.encoder.layer for one in (layer.attention.output.LayerNorm, layer.output.LayerNorm)
    ]


def plain(model: Any, ids: Tensor) -> Way:
    def run() -> int:
        model(ids, use_cache=False) if model.config.model_type == "llama" else model(ids)
        return 0

    return run


def ours(model: Any, ids: Tensor) -> Way:
    capture = Capture(load(model))
    return lambda: len(capture(ids).states)


def hooks(model: Any, ids: Tensor) -> Way:
    run = plain(model, ids)

    def hooked() -> int:
        seen: list[Tensor] = []

        def keep(module: nn.Module, args: Any, result: Tensor) -> None:
            seen.extend((args[0],) if model.config.model_type == "llama" else (args[0], result))

        handles = [one.register_forward_hook(keep) for one in norms(model)]
        run()
        for handle in handles:
            handle.remove()
        return len(seen)

    return hooked


def output_hidden_states(model: Any, ids: Tensor) -> Way:
    named = {"use_cache": False} if model.config.model_type == "llama" else {}
    return lambda: len(model(ids, output_hidden_states=True, **named).hidden_states)


def nnsight(model: Any, ids: Tensor) -> Way:
    from nnsight import NNsight  # pyright: ignore[reportMissingImports]

    wrapped = NNsight(model)
    places = norms(wrapped)

    def run() -> int:
        with wrapped.trace(ids):
            saved = [place.input.save() for place in places]
        return len(saved)

    return run


def transformer_lens(model: Any, ids: Tensor) -> Way:
    from transformer_lens.model_bridge import TransformerBridge  # pyright: ignore[reportMissingImports]

    own = copy.deepcopy(model)
    bridge = TransformerBridge.boot_transformers("model", hf_model=own, tokenizer=None, device="cpu")

    def run() -> int:
        _, cache = bridge.run_with_cache(ids, names_filter=lambda name: "hook_resid_" in name)
        return len(cache)

    return run


WAYS: Mapping[str, Callable[[Any, Tensor], Way]] = {
    "plain": plain,
    "ours": ours,
    "hooks": hooks,
    "output_hidden_states": output_hidden_states,
    "nnsight": nnsight,
    "TransformerLens": transformer_lens,
}
MODELS: Mapping[str, Callable[[], Any]] = {"decoder 30 x 576": decoder, "encoder 12 x 768": encoder}


def timed(way: Way) -> tuple[float, float, int]:
    wall, cpu = time.perf_counter(), time.process_time()
    kept = way()
    return time.process_time() - cpu, time.perf_counter() - wall, kept


def rotated(names: list[str], rounds: int) -> Iterator[list[str]]:
    for number in range(rounds):
        first = number % len(names)
        yield names[first:] + names[:first]


def ways_of(model: Any, ids: Tensor) -> tuple[dict[str, Way], dict[str, float], dict[str, str]]:
    """The ways that run, the CPU seconds of their first time, and why the others do not."""
    ways, first, absent = dict[str, Way](), dict[str, float](), dict[str, str]()
    for name, make in WAYS.items():
        try:
            way = make(model, ids)
            first[name], ways[name] = timed(way)[0], way
        except Exception as error:  # other people's packages
            if name in ("plain", "ours", "hooks", "output_hidden_states"):
                raise
            absent[name] = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:120]}"
    return ways, first, absent


def compared(model: Any, rounds: int) -> dict[str, Any]:
    """All ways, taking turns."""
    ids = torch.randint(1, 30000, BATCH, generator=torch.Generator().manual_seed(0))
    ways, first, absent = ways_of(model, ids)
    times = [{name: timed(ways[name]) for name in order} for order in rotated(list(ways), rounds)]
    found: dict[str, Any] = {}
    for name in ways:
        cpu, wall = (statistics.median(one[name][unit] for one in times) for unit in (0, 1))
        ratios = [sorted(one[name][unit] / one["plain"][unit] for one in times) for unit in (0, 1)]
        found[name] = {
            "states": times[0][name][2],
            "ratio_cpu": statistics.median(ratios[0]),
            "ratio_wall": statistics.median(ratios[1]),
            "lowest_cpu": ratios[0][0],
            "highest_cpu": ratios[0][-1],
            "cpu": cpu,
            "wall": wall,
            "first_cpu": first[name],
        }
    return {"ways": found, "absent": absent, "pass": found["ours"]["ratio_cpu"] <= BAR}


def installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def machine() -> dict[str, Any]:
    packages = {name: installed(name) for name in ("torch", "transformers", "nnsight", "transformer-lens")}
    load = [round(one, 1) for one in os.getloadavg()]
    threads = torch.get_num_threads()
    return {"python": platform.python_version(), **packages, "threads": threads, "cores": os.cpu_count(), "load": load}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/inspect/capture.json"))
    parser.add_argument("--rounds", type=int, default=12)
    options = parser.parse_args()
    torch.manual_seed(0)
    found: dict[str, Any] = {"machine": machine(), "batch": BATCH, "rounds": options.rounds, "bar": BAR, "models": {}}
    with torch.no_grad():
        for name, make in MODELS.items():
            found["models"][name] = compared(make(), options.rounds)
    found["load_after"] = [round(one, 1) for one in os.getloadavg()]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
