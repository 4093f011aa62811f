"""What probes of `splitstep inspect --deep` and a layer left out cost: before, now, and what they cannot do without.

    git worktree add /tmp/before COMMIT
    OMP_NUM_THREADS=1 python benchmarks/inspect_cost.py --before /tmp/before --out results/inspect/cost.json

Both versions take turns in one process, on the same model and texts, and who begins alternates. Figures are CPU seconds
for a text, medians over turns; `ratio` is the median over neighbours, and `difference` the largest relative difference
of any figure. Without --before there is no comparison. The model is a random Llama of 30 layers of width 576 unless
--model gives a path, or --small is there.

A floor is the CPU time of the mathematics alone, in this process: fields and heads as often as each of their values is
needed, products with J as passes through the fields, linear algebra by LAPACK. The layer is the one in the middle.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch

DEEP = ("commutator", "jacobian", "products", "communities", "leading")
DEFAULT = ("trajectory", "drift", "clustering", "rank", "cka_layers", "attention", "rollout", "lens")
CUT = "layer left out"
NAMES = (*DEFAULT, *DEEP, CUT)
NEAR = 1e-5
BRIEF = 0.05  # seconds: ratios of less are noise
HERE = Path(__file__).resolve().parent.parent
Figures = Mapping[str, Mapping[str, Any]]  # by probe and series


class Tree:
    """A checkout whose package runs in this process beside another one of the same name."""

    def __init__(self, path: Path) -> None:
        self.path, self.modules = path, dict[str, Any]()

    @contextmanager
    def active(self) -> Iterator[None]:
        others = taken_out()
        sys.modules.update(self.modules)
        sys.path.insert(0, str(self.path))
        try:
            yield
        finally:
            sys.path.remove(str(self.path))
            self.modules = taken_out()
            sys.modules.update(others)


def taken_out() -> dict[str, Any]:
    """The package's modules, which are no longer imported."""
    return {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "splitstep"}


class Turn(NamedTuple):
    """What one pass cost, by probe, and what it found."""

    seconds: dict[str, float]
    figures: Figures


def flow_of(options: argparse.Namespace, inputs: dict[str, torch.Tensor]) -> Any:
    """The model as a scheme with fields, in float32."""
    opening = importlib.import_module("splitstep.opening")
    if options.model is not None:
        return opening.load(opening.open_model(options.model).model.float(), inputs)
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    layers, width, heads, shared = (3, 32, 4, 2) if options.small else (30, 576, 9, 3)
    config = LlamaConfig(
        num_hidden_layers=layers, hidden_size=width, intermediate_size=8 * width // 3, num_attention_heads=heads,
        num_key_value_heads=shared, vocab_size=2000,
    )  # fmt: skip
    return opening.load(LlamaForCausalLM(config).eval(), inputs)


def turn(flow: Any, inputs: dict[str, torch.Tensor]) -> Turn:
    """One pass with all of the probes; those that share the Jacobians of tokens find them made by the first. Then a
    layer left out of a pass that is there."""
    registry = importlib.import_module("splitstep.probes").PROBES
    watching, base = (importlib.import_module(f"splitstep.probes.{name}") for name in ("watching", "probe"))
    seconds: dict[str, float] = {name: 0.0 for name in NAMES}

    class Timed(base.Probe):
        def __init__(self, name: str) -> None:
            self.name, self.probe = name, registry.find(name)()

        def __call__(self, event: Any) -> None:
            with timed(self.name):
                self.probe(event)

        def figures(self, passed: Any) -> Any:
            with timed(self.name):
                return self.probe.figures(passed)

    @contextmanager
    def timed(name: str) -> Iterator[None]:
        start = time.process_time()
        yield
        seconds[name] += time.process_time() - start

    found = watching.watch_flow(flow, inputs, {name: Timed(name) for name in (*DEFAULT, *DEEP)})
    cuts, one = passed(flow, inputs)
    with timed(CUT):
        cost = cuts.left_out(one, [one.layers // 2])
    return Turn(seconds, {name: by_stack[flow.main] for name, by_stack in found.items()} | {CUT: {"cost": cost}})


def passed(flow: Any, inputs: dict[str, torch.Tensor]) -> tuple[Any, Any]:
    """What leaves layers out, and the pass where that begins."""
    cuts, judge = (importlib.import_module(f"splitstep.studies.inspect.{name}") for name in ("cuts", "judge"))
    return cuts, cuts.passed(flow, judge.Judge.of(flow, inputs), inputs)


def difference(one: Figures, other: Figures) -> dict[str, float]:
    """The largest relative difference of any figure, by probe."""
    out: dict[str, float] = {}
    for name, series in one.items():
        rows = [(torch.as_tensor(x).double(), torch.as_tensor(other[name][key]).double()) for key, x in series.items()]
        away = [((a - b).abs() / b.abs().clamp(min=1e-12)).nan_to_num(0.0).max() for a, b in rows]
        assert all(torch.equal(a.isnan(), b.isnan()) for a, b in rows), name
        out[name] = float(torch.stack(away).max())
    return out


def least(work: Callable[[], Any]) -> float:
    """CPU seconds of the quickest of 3 runs."""
    seconds: list[float] = []
    for _ in range(3):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


@torch.no_grad()
def light_floors(flow: Any, inputs: dict[str, torch.Tensor]) -> dict[str, tuple[float, str]]:
    """The least that a text costs by each probe that differentiates nothing, and without a layer; and what that is."""
    one, norm = passed(flow, inputs)[1], torch.linalg.vector_norm
    states, layers = torch.cat(one.starts), one.layers
    wide, attention = states.double(), flow.steps[layers // 2].fields["A"]
    gram, rest = wide @ wide.mT, (layers - layers // 2 - 1) / layers
    seconds = {
        "norm": least(lambda: norm(states, dim=-1, dtype=torch.float64)), "gram": least(lambda: wide @ wide.mT),
        "svd": least(lambda: torch.linalg.svdvals(wide)), "alike": least(lambda: gram.flatten(1) @ gram.flatten(1).T),
        "weights": layers * least(lambda: attention.weights(0.0, states[:1], one.context)),
        "head": least(lambda: flow.head(states[:1], one.context)), "pass": least(lambda: flow.model(**inputs)),
    }  # fmt: skip
    kinds = {
        "trajectory": ({"norm": 5}, "five lengths for each state"),
        "drift": ({"norm": 4}, "four lengths for each state"),
        "clustering": ({"gram": 1}, "the products of all pairs of tokens"),
        "rank": ({"svd": 2}, "two sets of singular values for each state"),
        "cka_layers": ({"gram": 1, "alike": 1}, "the products of all pairs of tokens, and of all pairs of states"),
        "attention": ({"weights": 1}, "each layer's weights once"),
        "rollout": ({"weights": 1}, "each layer's weights once"),
        "lens": ({"head": layers + 1}, "the head on each state"),
        CUT: ({"pass": rest, "head": 1 - rest}, "the later layers' share of a pass, and the head"),
    }
    return {name: (sum(n * seconds[part] for part, n in many.items()), said) for name, (many, said) in kinds.items()}


def deep_floors(flow: Any, inputs: dict[str, torch.Tensor]) -> dict[str, tuple[float, str]]:
    """The least that a text costs by each probe that differentiates, from the layer in the middle; and what that is."""
    from splitstep.probes import communities, layer_maps, low_rank, spectra, watching

    kept: dict[str, Any] = {}

    class Kept(layer_maps.LayerBlocks):
        def figures(self, passed: Any) -> Any:
            kept["layers"] = self.layers(passed)
            states = [layer.x[0, -1] for layer in kept["layers"]]
            kept["alone"] = layer_maps.token_context(self.context, 0, len(inputs["input_ids"][0]) - 1, states)
            return {}

    watching.watch_flow(flow, inputs, {"kept": Kept()})
    layers = kept["layers"]
    layer = layers[len(layers) // 2]
    token = layer_maps.token_block_of(layer, kept["alone"])
    j = layer_maps.jacobian(token, layer.x[0, -1]).double()
    weights, block = communities.coupling_graph([j]), low_rank.COUNT + low_rank.EXTRA
    products, layer_of = counted(low_rank, layer), layer_maps.block_of(layer)
    through = torch.func.vmap(lambda x: layer_of(x, layer.context))
    with layer_maps.differentiable(layer.x):
        a, f = (least(lambda one=one: one(0.0, layer.x, layer.context)) for one in layer.steps[0].fields.values())
        passes = least(lambda: through(layer.x.expand(block, *layer.x.shape)))
        rows = least(lambda: torch.func.jacrev(token, chunk_size=len(j))(layer.x[0, -1]))
    schur, svd, qr, product = (
        least(lambda g=g: g(j)) for g in (spectra.real_schur, torch.linalg.svdvals, torch.linalg.qr, lambda x: x @ x)
    )
    reads = communities.SEEDS * communities.ROUNDS
    found = {
        "commutator": (48 * a + 57 * f, "46 values of A and 55 of F, and a derivative of each as two more"),
        "jacobian": (rows + schur + 2 * svd, "jacrev, a Schur form, two sets of singular values"),
        "products": (2 * svd + qr + 3 * product, "two sets of singular values, a QR, three products"),
        "communities": (reads * least(lambda: weights.sum(1)), f"each weight read {reads} times: by seed and round"),
        "leading": (products * passes, f"{products} products with {block} vectors, each as a pass of {block} texts"),
    }
    return {name: (len(layers) * seconds, words) for name, (seconds, words) in found.items()}


def counted(low_rank: Any, layer: Any) -> int:
    """How many products with J and its transpose the leading singular values of a layer take."""
    calls, original = list[int](), low_rank.on_rows
    low_rank.on_rows = lambda *given: lambda rows: (calls.append(len(rows)), original(*given)(rows))[1]
    try:
        low_rank.leading_of(*low_rank.LeadingSingular().row(layer, 0))
    finally:
        low_rank.on_rows = original
    return len(calls)


def compared(options: argparse.Namespace) -> dict[str, Any]:
    """The costs of each probe."""
    words = torch.randint(2000, (options.texts, 1, options.tokens), generator=torch.Generator().manual_seed(1))
    texts = [{"input_ids": one} for one in words]
    trees = {"now": Tree(HERE)} | ({"before": Tree(options.before.resolve())} if options.before else {})
    flows, turns = {}, {name: list[Turn]() for name in trees}
    for name, tree in trees.items():
        with tree.active():
            flows[name] = flow_of(options, texts[0])
    for number in range(options.turns * len(texts)):
        for name in list(trees)[:: 1 if number % 2 else -1]:
            with trees[name].active():
                turns[name].append(turn(flows[name], texts[number % len(texts)]))
    with trees["now"].active():
        least_of = {k: v for floors in (light_floors, deep_floors) for k, v in floors(flows["now"], texts[0]).items()}
        stamp = importlib.import_module("splitstep.support.provenance").stamp()
    away = [difference(a.figures, b.figures) for a, b in zip(turns["now"], turns.get("before", ()), strict=False)]
    rows = {name: row(name, turns, away) for name in NAMES}
    for name, (seconds, words_of) in least_of.items():
        rows[name] |= {"floor": round(seconds, 4), "floor_is": words_of}
    slower = [name for name, one in rows.items() if one["now"] > BRIEF and one.get("ratio", 0.0) > 1.1]
    passed = not slower and all(one.get("difference", 0.0) <= NEAR for one in rows.values())
    return {
        "model": Path(options.model or f"random Llama, {'3 x 32' if options.small else '30 x 576'}").name,
        "texts": options.texts, "tokens": options.tokens, "turns": options.turns, "threads": torch.get_num_threads(),
        "cores": os.cpu_count(), "load": os.getloadavg(), "probes": rows, "pass": passed, **stamp,
    }  # fmt: skip


def row(name: str, turns: Mapping[str, list[Turn]], away: list[dict[str, float]]) -> dict[str, Any]:
    """What one probe costs."""
    seconds = {tree: [one.seconds[name] for one in found] for tree, found in turns.items()}
    out: dict[str, Any] = {tree: round(statistics.median(one), 4) for tree, one in seconds.items()}
    if away:
        pairs = zip(seconds["now"], seconds["before"], strict=True)
        out["ratio"] = round(statistics.median(a / b for a, b in pairs), 3)
        out["difference"] = max(one[name] for one in away)
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a folder or a GGUF file")
    parser.add_argument("--before", type=Path, help="a checkout of an earlier version")
    parser.add_argument("--small", action="store_true", help="a model of 3 layers of width 32")
    parser.add_argument("--texts", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = json.dumps(compared(options), indent=1)
    print(found)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(found + "\n")
    return 0 if json.loads(found)["pass"] else 1


if __name__ == "__main__":
    sys.exit(main())
