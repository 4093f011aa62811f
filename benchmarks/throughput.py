"""Training throughput on one GPU, side by side: hand-written models, this package, Hugging Face GPT-2, x-transformers.

A decoder of 124M parameters, vocabulary 50304, bf16 autocast, fused AdamW, Lie-Trotter and Macaron at equal parameters.
Every model is built and compiled once; then all are timed in turns, so a drift of the card affects all of them.

    python benchmarks/throughput.py --out results/throughput

With --positions it is this package alone, with learned and with rotary positions.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as f

VOCABULARY, LENGTH, LAYERS, WIDTH, HEADS, FFN = 50304, 1024, 12, 768, 12, 3072


class HandAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (y.unflatten(-1, (HEADS, -1)).transpose(1, 2) for y in self.qkv(self.norm(x)).chunk(3, -1))
        return self.out(f.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class HandFeedForward(nn.Module):
    def __init__(self, inner: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, inner), nn.Linear(inner, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(f.gelu(self.up(self.norm(x))))


class HandLie(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.f = HandAttention(), HandFeedForward(FFN)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.a(x)
        return x + self.f(x)


class HandMacaron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.f0, self.a, self.f1 = HandFeedForward(FFN // 2), HandAttention(), HandFeedForward(FFN // 2)

    def forward(self, x: Tensor) -> Tensor:
        x = x + 0.5 * self.f0(x)
        x = x + self.a(x)
        return x + 0.5 * self.f1(x)


class Hand(nn.Module):
    """A model written by hand, without this package."""

    def __init__(self, layer: type[nn.Module]) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(layer() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        for p in self.parameters():
            if p.ndim > 1:
                nn.init.normal_(p, std=0.02)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.norm(x))
        return f.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


class Ours(nn.Module):
    def __init__(self, scheme: str, positions: Literal["learned", "rotary"] = "learned") -> None:
        super().__init__()
        from splitstep.models import CausalConfig, SplitstepForCausalLM
        from splitstep.models.cost import twin

        config = CausalConfig(
            scheme="A F", layers=LAYERS, width=WIDTH, heads=HEADS, ffn=FFN, vocab_size=VOCABULARY,
            max_positions=LENGTH, positions=positions,
        )  # fmt: skip
        self.model = SplitstepForCausalLM(config if scheme == "A F" else twin(config, scheme))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.model(tokens, labels=tokens).loss


class HuggingFace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        from transformers import GPT2Config, GPT2LMHeadModel

        self.model = GPT2LMHeadModel(
            GPT2Config(
                vocab_size=VOCABULARY, n_positions=LENGTH, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, use_cache=False,
                resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, attn_implementation="sdpa",
            )
        )  # fmt: skip

    def forward(self, tokens: Tensor) -> Tensor:
        return self.model(tokens, labels=tokens).loss


class XTransformers(nn.Module):
    def __init__(self, macaron: bool) -> None:
        super().__init__()
        from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper  # pyright: ignore

        more = {"macaron": True, "ff_mult": 2} if macaron else {}
        layers = Decoder(dim=WIDTH, depth=LAYERS, heads=HEADS, attn_dim_head=WIDTH // HEADS, attn_flash=True, **more)
        self.model = AutoregressiveWrapper(
            TransformerWrapper(num_tokens=VOCABULARY, max_seq_len=LENGTH, attn_layers=layers, tie_embedding=True)
        )

    def forward(self, tokens: Tensor) -> Tensor:
        return self.model(tokens)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "hand-written lie": lambda: Hand(HandLie),
    "splitstep lie": lambda: Ours("A F"),
    "hand-written macaron": lambda: Hand(HandMacaron),
    "splitstep macaron": lambda: Ours("F0/2 A F1/2"),
    "Hugging Face GPT-2": HuggingFace,
    "x-transformers": lambda: XTransformers(False),
    "x-transformers macaron": lambda: XTransformers(True),
}
POSITIONS: dict[str, Callable[[], nn.Module]] = {
    "lie learned": lambda: Ours("A F"),
    "lie rotary": lambda: Ours("A F", "rotary"),
    "macaron learned": lambda: Ours("F0/2 A F1/2"),
    "macaron rotary": lambda: Ours("F0/2 A F1/2", "rotary"),
}


def matmul_peak() -> float:
    """FLOP/s of a large bf16 product on random data."""
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    for _ in range(5):
        a @ b
    return 2 * 8192**3 / seconds(lambda: a @ b, 30)


def seconds(run: Callable[[], object], times: int) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(times):
        run()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1e3 / times


class Trainer:
    """One model in training; a call is one update."""

    def __init__(self, name: str, compiled: bool, batch: int) -> None:
        torch.manual_seed(0)
        self.model = (MODELS | POSITIONS)[name]().cuda().train()
        self.parameters = sum(p.numel() for p in self.model.parameters())
        self.called = torch.compile(self.model) if compiled else self.model
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 3e-4, (0.9, 0.95), weight_decay=0.1, fused=True)
        self.tokens = torch.randint(VOCABULARY, (4, batch, LENGTH), device="cuda")
        self.count = 0

    def __call__(self) -> Tensor:
        self.count += 1
        with torch.autocast("cuda", torch.bfloat16):
            loss = self.called(self.tokens[self.count % 4])
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()


def measure(names: list[str], compiled: bool, batch: int, rounds: int, updates: int, peak: float) -> list[dict]:
    trainers, rows = {}, []
    for name in names:
        begun = time.monotonic()
        with reported(name):
            trainer = Trainer(name, compiled, batch)
            for _ in range(4):
                loss = trainer()
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            resident = torch.cuda.memory_allocated()
            trainer()
            torch.cuda.synchronize()
            own = sum(p.numel() * 16 for p in trainer.model.parameters())  # weights, gradients, two moments
            memory = torch.cuda.max_memory_allocated() - resident + own
            trainers[name] = (trainer, memory, float(loss))
            print(
                f"{name}: ready in {time.monotonic() - begun:.0f} s, loss {float(loss):.3f}",
                file=sys.stderr,
                flush=True,
            )
    times: dict[str, list[float]] = {name: [] for name in trainers}
    for _ in range(rounds):
        for name, (trainer, _, _) in trainers.items():
            trainer()
            times[name].append(seconds(trainer, updates))
    for name, (trainer, memory, loss) in trainers.items():
        second = statistics.median(times[name])
        table = 0 if name.endswith("rotary") else LENGTH * WIDTH  # learned positions multiply nothing
        dense = trainer.parameters - table
        flops = 6 * dense + 12 * LAYERS * WIDTH * LENGTH  # forward and backward per token, quadratic term in full
        rows.append(
            {
                "model": name, "compiled": compiled, "tokens_per_second": batch * LENGTH / second,
                "spread": (max(times[name]) - min(times[name])) / second,
                "share_of_peak": flops * batch * LENGTH / second / peak,
                "memory_gib": memory / 2**30, "parameters": trainer.parameters, "loss_after_4": loss,
            }
        )  # fmt: skip
    return rows


@contextlib.contextmanager
def reported(name: str):
    try:
        yield
    except ImportError as error:
        print(f"{name}: not here ({error})", file=sys.stderr)


def ratios(rows: list[dict]) -> dict[str, float]:
    rate = {row["model"]: row["tokens_per_second"] for row in rows if row["compiled"]}
    peers = [rate[name] for name in ("Hugging Face GPT-2", "x-transformers") if name in rate]
    out = {}
    if "splitstep lie" in rate and "hand-written lie" in rate:
        out["lie over hand-written"] = rate["splitstep lie"] / rate["hand-written lie"]
        out["macaron over hand-written"] = rate["splitstep macaron"] / rate["hand-written macaron"]
        out["macaron over lie"] = rate["splitstep macaron"] / rate["splitstep lie"]
    for scheme in ("lie", "macaron"):
        if f"{scheme} rotary" in rate:
            out[f"{scheme} rotary over learned"] = rate[f"{scheme} rotary"] / rate[f"{scheme} learned"]
    if peers:
        out["lie over best peer"] = rate["splitstep lie"] / max(peers)
    if "x-transformers macaron" in rate:
        out["macaron over best peer"] = rate["splitstep macaron"] / rate["x-transformers macaron"]
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=12)
    parser.add_argument("--commit", default="")
    parser.add_argument("--positions", action="store_true")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("This benchmark needs a CUDA device.", file=sys.stderr)
        return 2
    peak, names = matmul_peak(), list(POSITIONS if options.positions else MODELS)
    document = {
        "command": " ".join(["python", *sys.argv]), "card": torch.cuda.get_device_name(), "torch": torch.__version__,
        "commit": options.commit, "date": time.strftime("%Y-%m-%d"), "batch": [options.batch, LENGTH],
        "matmul_peak_tflops": peak / 1e12, "rows": [],
    }  # fmt: skip
    options.out.mkdir(parents=True, exist_ok=True)
    for compiled in (True, False):
        rows = measure(names, compiled, options.batch, options.rounds, options.updates, peak)
        document["rows"] += rows
        document["ratios"] = ratios(document["rows"])
        (options.out / "throughput.json").write_text(json.dumps(document, indent=1) + "\n")
        torch.cuda.empty_cache()
    print(f"{document['card']}, bf16 matmul peak {peak / 1e12:.0f} TFLOP/s")
    for row in document["rows"]:
        print(
            f"{row['model']:24} {'compiled' if row['compiled'] else 'eager':9} "
            f"{row['tokens_per_second']:10,.0f} tokens/s "
            f"{row['share_of_peak']:.3f} of peak {row['memory_gib']:6.1f} GiB  spread {row['spread']:.3f}  "
            f"{row['parameters']:,} parameters"
        )
    for name, value in document["ratios"].items():
        print(f"{name}: {value:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
