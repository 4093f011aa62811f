"""Masked pre-training on one GPU: this package beside transformers' BertForMaskedLM, compiled, in one run.

    python benchmarks/mlm_throughput.py --out results/pretrain/throughput.json
    python benchmarks/mlm_throughput.py --tiny --out /tmp/throughput.json                # a quick look, on any machine

BERT-base's shape with 512 positions, bf16, dropout .1 everywhere, fused AdamW, gradients clipped. The shape of
`splitstep` is that of the recipe bert-base, and its updates are those of `splitstep train`: captured, which is the
default on a GPU, or compiled and captured (train.mode=compile+capture).

Two kinds of text: documents that fill a row each, and a mixture of lengths. transformers gets a document a row, padded
to 512, and labels for all positions, as its forward takes them; no attention mask if there is nothing to mask. This
package gets packed rows with `seq_idx` and `masked_positions`, from its own packer, whatever the text. Real tokens are
those of the text: no [CLS], [SEP] or [PAD]. Bars: 1.25 times on full rows; on the mixture .9 * 1.25 / (share of real
tokens in padded rows). The ways take turns; a ratio is the median over rounds. The file is written after each round.
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from splitstep.models import KINDS
from splitstep.support.files import write_atomically
from splitstep.support.provenance import stamp
from splitstep.tasks.masked.mlm import FIRST, Choice, as_arrays, mask
from splitstep.tasks.masked.packing import Packer, row_type
from splitstep.tasks.task import tensors
from splitstep.text.subwords import CLS, MASK, PAD, SEP
from splitstep.training import TrainOptions, load_recipe
from splitstep.training.objective import Learner, UpdateBatch, dropout_seed
from splitstep.training.processes import Processes
from splitstep.training.update import choose_precision, make_optimizer, make_update
from splitstep.training.weights import spread

BAR, KEPT = 1.25, 0.9  # on full rows; the share of it that must be left on the mixture
BATCHES = 4  # batches that a way goes through; made before the clock starts
MEDIAN, SIGMA, SHORTEST = 0.25, 1.0, 8  # the mixture: log-normal lengths, the median as a share of a row; cut at a row
MASKED, DROPOUT = 0.15, 0.1
THEIRS = "transformers BERT"
LR = 1e-4
Update = Callable[[int], object]  # the update on batch number i


class Shape(NamedTuple):
    """The size of both networks; `modes`: how this package's updates are run."""

    layers: int = 12
    width: int = 768
    heads: int = 12
    ffn: int = 3072
    vocab_size: int = 30522
    length: int = 512
    modes: tuple[str, ...] = ("capture", "compile+capture")


TINY = Shape(2, 32, 2, 64, 512, 64, ("eager",))


class Texts(NamedTuple):
    """The documents of one kind of text, as rows [N, length]: one in each, padded, and packed."""

    padded: np.ndarray
    packed: np.ndarray

    @property
    def share(self) -> float:
        """The share of real tokens in padded rows."""
        return float((self.padded >= FIRST).mean())


class Ours(NamedTuple):
    """How this package trains: a scheme, and a mode of `splitstep train`."""

    scheme: str
    mode: str

    def __str__(self) -> str:
        return f"splitstep {self.scheme}, {self.mode}"


class Way(NamedTuple):
    """A network in training: its update for each kind of text, real tokens of an update, and what it took."""

    name: str
    updates: dict[str, Update]
    tokens: dict[str, float]
    about: dict[str, Any]


def lengths(kind: str, shape: Shape, random: np.random.Generator) -> Iterator[int]:
    """Tokens of one document after another, without [CLS] and [SEP]."""
    most = shape.length - 2
    while True:
        drawn = most if kind == "full rows" else round(random.lognormal(np.log(MEDIAN * shape.length), SIGMA))
        yield min(max(drawn, SHORTEST), most)


def make_texts(kind: str, shape: Shape, rows: int) -> Texts:
    """As many padded and packed rows of random documents."""
    random, file, dtype = np.random.default_rng(0), io.BytesIO(), row_type(shape.vocab_size)
    packer, padded = Packer(file, shape.length, dtype), np.full((rows, shape.length), PAD, dtype)
    for number, n in enumerate(lengths(kind, shape, random)):
        tokens = random.integers(FIRST, shape.vocab_size, n).astype(dtype)
        if number < rows:
            padded[number, : n + 2] = [CLS, *tokens, SEP]
        packer.add(tokens, True)
        if number >= rows and packer.rows >= rows:
            break
    packer.finish()
    return Texts(padded, np.frombuffer(file.getvalue(), dtype).reshape(-1, shape.length)[:rows])


def real_tokens(rows: np.ndarray) -> float:
    """Real tokens of an update."""
    return float((rows >= FIRST).sum()) / BATCHES


def their_batches(rows: np.ndarray, whole: bool, device: torch.device) -> list[dict[str, Tensor]]:
    """Padded rows with labels for all positions; the attention mask is left out if rows are full."""
    random, batches = np.random.default_rng(1), []
    for part in np.split(rows.astype(np.int64), BATCHES):
        chosen = (random.random(part.shape) < MASKED) & (part >= FIRST)
        batch = {"input_ids": np.where(chosen, MASK, part), "labels": np.where(chosen, part, -100)}
        if not whole:
            batch["attention_mask"] = (part != PAD).astype(np.int64)
        batches.append({name: torch.from_numpy(x).to(device) for name, x in batch.items()})
    return batches


def our_works(rows: np.ndarray, shape: Shape, device: torch.device) -> list[UpdateBatch]:
    """Packed rows as the task `mlm` makes them."""
    random, count = np.random.default_rng(1), max(1, round(MASKED * shape.length))

    def work(number: int, part: np.ndarray) -> UpdateBatch:
        batch = tensors(as_arrays(part, mask(part, Choice(count, shape.vocab_size), random)))
        items = torch.tensor(float(len(part) * count))
        return UpdateBatch([batch], [dropout_seed(0, number, 0, 0)], items, part.size).to(device)

    return [work(number, part) for number, part in enumerate(np.split(rows, BATCHES))]


def their_way(shape: Shape, texts: dict[str, Texts], device: torch.device) -> Way:
    """BertForMaskedLM with sdpa, compiled on a GPU, one graph for each kind of text."""
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=shape.vocab_size, hidden_size=shape.width, num_hidden_layers=shape.layers, pad_token_id=PAD,
        num_attention_heads=shape.heads, intermediate_size=shape.ffn, max_position_embeddings=shape.length,
        hidden_dropout_prob=DROPOUT, attention_probs_dropout_prob=DROPOUT, attn_implementation="sdpa",  # pyright: ignore[reportCallIssue]
    )  # fmt: skip
    model: Any = BertForMaskedLM(config)
    model = model.to(device).train()
    called: Any = torch.compile(model, dynamic=False) if device.type == "cuda" else model
    optimizer = torch.optim.AdamW(model.parameters(), LR, weight_decay=0.01, fused=True)

    def updates(batches: list[dict[str, Tensor]]) -> Update:
        def update(number: int) -> Tensor:
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                loss = called(**batches[number % BATCHES]).loss
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            return loss.detach()

        return update

    ways = {kind: updates(their_batches(one.padded, kind == "full rows", device)) for kind, one in texts.items()}
    tokens = {kind: real_tokens(one.padded) for kind, one in texts.items()}
    return Way(THEIRS, ways, tokens, {"parameters": parameters(model)})


def our_way(given: Ours, shape: Shape, texts: dict[str, Texts], device: torch.device) -> Way:
    """The recipe's network, updated as `splitstep train` does."""
    names = ("layers", "width", "heads", "ffn")
    sizes = [f"model.{name}={getattr(shape, name)}" for name in names]
    drops = [f"model.dropout={DROPOUT}", f"model.attention_dropout={DROPOUT}"]
    recipe = load_recipe("bert-base", [f"scheme={given.scheme}", *sizes, *drops])
    data = {"vocab_size": shape.vocab_size, "max_length": shape.length, "pad_token_id": PAD}
    task: Any = SimpleNamespace(model="masked", shape=data, labels=(), length=shape.length)
    model: Any = KINDS["masked"].model(recipe.config(task))
    model = model.to(device).train()
    options, world = TrainOptions(lr=LR), Processes(0, 1, device)
    learner, optimizer = Learner(model), make_optimizer(model, options, device)
    precision = choose_precision("auto", device)
    update = make_update(learner, spread(learner, "none", world), optimizer, options, precision, given.mode, world)
    works = {kind: our_works(one.packed, shape, device) for kind, one in texts.items()}

    def updates(kind: str) -> Update:
        return lambda number: update(works[kind][number % BATCHES], LR)[0]

    tokens = {kind: real_tokens(one.packed) for kind, one in texts.items()}
    about = {"parameters": parameters(model), **given._asdict()}
    return Way(str(given), {kind: updates(kind) for kind in texts}, tokens, about)


def parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def settled(device: torch.device) -> float:
    """The time, after the device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def ready(make: Callable[[], Way], device: torch.device) -> Way:
    """A way after its first updates, in which code is compiled and recorded, with seconds and highest memory."""
    cuda, begun = device.type == "cuda", settled(device)
    before = torch.cuda.memory_allocated() if cuda else 0
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    torch.manual_seed(0)
    way = make()
    losses = {kind: [float(update(number)) for number in range(BATCHES)][-1] for kind, update in way.updates.items()}  # pyright: ignore
    seconds = settled(device) - begun
    memory = (torch.cuda.max_memory_allocated() - before) / 2**30 if cuda else 0.0
    if cuda:
        torch.cuda.empty_cache()  # a graph's own memory cannot use what others have cached
    print(f"{way.name}: ready in {seconds:.0f} s, {memory:.1f} GiB, losses {losses}", file=sys.stderr, flush=True)
    return way._replace(about={**way.about, "ready_seconds": seconds, "memory_gib": memory, "losses": losses})


def turn(update: Update, count: int, device: torch.device) -> float:
    """Seconds of an update, after one that does not count."""
    update(0)
    begun = settled(device)
    for number in range(count):
        update(number)
    return (settled(device) - begun) / count


Times = dict[tuple[str, str], list[float]]  # seconds of an update, by way and kind of text, round by round


def rows_of(ways: list[Way], times: Times, texts: dict[str, Texts], batch: int) -> list[dict[str, Any]]:
    """The table: rates of each way on each kind of text, and how they compare with theirs."""
    rows, their = [], next((way for way in ways if way.name == THEIRS), None)
    for way in ways:
        for kind, one in texts.items():
            found = times[way.name, kind]
            if not found or their is None:
                continue
            gain = way.tokens[kind] / their.tokens[kind]
            ratios = [gain * b / a for a, b in zip(found, times[THEIRS, kind], strict=False)]
            second, bar = statistics.median(found), BAR if kind == "full rows" else KEPT * BAR / one.share
            rows.append(
                {
                    "way": way.name, "text": kind, "batch": batch, "updates_per_second": 1 / second,
                    "real_tokens_per_second": way.tokens[kind] / second, "ratio": statistics.median(ratios),
                    "ratios": ratios, "bar": None if way is their else bar,
                    "spread": (max(found) - min(found)) / second, **way.about,
                }
            )  # fmt: skip
    return rows


def left(end: float) -> float:
    return end - time.monotonic()


def prepared(
    shape: Shape, ours: list[Ours], texts: dict[str, Texts], device: torch.device, end: float
) -> Iterator[Way]:
    """The ways, theirs first, those that need no compiler before the others. One of ours is left out if it fails, or if
    there is no time for it: it takes as long as others of its mode, or half as long as theirs, which are two graphs."""
    yield (theirs := ready(lambda: their_way(shape, texts, device), device))
    half, known = float(theirs.about["ready_seconds"]) / 2, dict[str, float]()
    for one in ours:
        if left(end) < known.get(one.mode, half):
            print(f"{one}: left out for want of time", file=sys.stderr, flush=True)
            continue
        try:
            yield (way := ready(partial(our_way, one, shape, texts, device), device))
        except Exception as error:  # of memory, of the compiler: the others go on
            reason = (str(error).splitlines() or [""])[0]
            print(f"{one}: left out, {type(error).__name__}: {reason}", file=sys.stderr, flush=True)
        else:
            known[one.mode] = way.about["ready_seconds"]


def measure(
    shape: Shape, batch: int, given: Any, device: torch.device, end: float, keep: Callable[[list[Any]], None]
) -> dict[str, float]:
    """All ways with batches of this size; `keep` gets the table after each round. Returns shares of real tokens."""
    texts = {kind: make_texts(kind, shape, batch * BATCHES) for kind in ("full rows", "mixture")}
    timing = 0.25 * max(left(end), 0)  # what is left to the rounds
    ours = [Ours(scheme, mode) for mode in given.modes or shape.modes for scheme in given.schemes]
    ways = list(prepared(shape, ours, texts, device, end - timing))
    times: Times = {(way.name, kind): [] for way in ways for kind in texts}
    for number in range(given.rounds):
        begun = time.monotonic()
        for way in ways if number % 2 == 0 else ways[::-1]:
            for kind, update in way.updates.items():
                times[way.name, kind].append(turn(update, given.updates, device))
        keep(rows_of(ways, times, texts, batch))
        if left(end) < time.monotonic() - begun:
            break
    return {kind: one.share for kind, one in texts.items()}


def table(rows: list[dict[str, Any]]) -> str:
    """The table as text."""
    head = f"{'':40} {'text':10} {'batch':>5} {'updates/s':>9} {'real tokens/s':>13} {'ratio':>6} {'bar':>6} {'GiB':>6}"
    lines = [
        f"{row['way']:40} {row['text']:10} {row['batch']:>5} {row['updates_per_second']:>9.2f} "
        f"{row['real_tokens_per_second']:>13,.0f} {row['ratio']:>6.3f} {row['bar'] or 0:>6.3f} "
        f"{row['memory_gib']:>6.1f}"
        for row in rows
    ]
    return "\n".join([head, *lines])


def best(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The best rate over batch sizes of transformers and of each scheme, by kind of text, with the ratio to theirs."""
    found: dict[str, dict[str, Any]] = {}
    for kind in ("full rows", "mixture"):
        rates: dict[str, float] = {}
        for row in (row for row in rows if row["text"] == kind):
            name = row.get("scheme", THEIRS)
            rates[name] = max(rates.get(name, 0.0), row["real_tokens_per_second"])
        found[kind] = {name: {"rate": rate, "ratio": rate / rates[THEIRS]} for name, rate in rates.items()}
    return found


def holds(rows: list[dict[str, Any]]) -> dict[str, bool]:
    """Whether a way reaches its bars on both kinds of text at the first batch size."""
    ours = [row for row in rows if row["bar"] is not None and row["batch"] == rows[0]["batch"]]
    names = dict.fromkeys(row["way"] for row in ours)
    return {name: all(row["ratio"] >= row["bar"] for row in ours if row["way"] == name) for name in names}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/pretrain/throughput.json"))
    parser.add_argument("--batch", type=int, nargs="+", help="rows of a batch; several sizes one after the other")
    parser.add_argument("--schemes", nargs="+", default=["lie", "macaron"])
    parser.add_argument("--modes", nargs="+", help="of this package's updates; by default captured, compiled too")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=8, help=f"of a turn; a multiple of {BATCHES}")
    parser.add_argument("--seconds", type=float, default=170, help="when to be done; what does not fit is left out")
    parser.add_argument("--tiny", action="store_true", help="tiny networks, also without a GPU")
    given = parser.parse_args()
    if not torch.cuda.is_available() and not given.tiny:
        print("This benchmark needs a CUDA device; --tiny runs anywhere.", file=sys.stderr)
        return 2
    device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    shape, end, done = TINY if given.tiny else Shape(), time.monotonic() + given.seconds, []
    document: dict[str, Any] = {
        "command": " ".join(["python", *sys.argv]), **stamp(), "shape": shape._asdict(), "dropout": DROPOUT,
        "card": torch.cuda.get_device_name() if device.type == "cuda" else "CPU",
        "mixture": {"median": MEDIAN * shape.length, "sigma": SIGMA, "shortest": SHORTEST, "longest": shape.length - 2},
        "rounds": given.rounds, "updates": given.updates,
    }  # fmt: skip

    def keep(rows: list[Any]) -> None:
        all_rows = done + rows
        document.update(rows=all_rows, best=best(all_rows), holds=holds(all_rows))
        write_atomically(given.out, json.dumps(document, indent=1) + "\n")

    given.out.parent.mkdir(parents=True, exist_ok=True)
    for batch in given.batch or [4 if given.tiny else 64]:
        document["share_of_real_tokens"] = measure(shape, batch, given, device, end, keep)
        done = document["rows"]
        keep([])
        torch.compiler.reset()
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
    print(table(done))
    print(f"share of real tokens in padded rows: {document['share_of_real_tokens']}")
    for name, held in document["holds"].items():
        print(f"{name}: {'reaches' if held else 'does not reach'} both bars")
    return 0 if any(document["holds"].values()) else 1


if __name__ == "__main__":
    sys.exit(main())
