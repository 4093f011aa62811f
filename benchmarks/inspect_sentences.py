"""The sentences that `splitstep inspect` says about five models of different kinds.

    python benchmarks/inspect_sentences.py --smollm2 SmolLM2-135M-Instruct.Q4_1.gguf --minilm all-MiniLM-L6-v2 \\
        --work DIR --out results/inspect/sentences

A pretrained decoder and a pretrained encoder, a language model and a classifier of ours that are trained here, and a
Llama with random weights. What was interrupted continues in DIR; --only runs some of them. Of each the result is kept,
and what is said of it is printed as docs/results/inspect.md quotes it.
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from splitstep.cli import main as splitstep
from splitstep.experiments.study import STUDIES
from splitstep.studies.inspect.result import Inspection
from splitstep.studies.inspect.sentences import sentences
from splitstep.support.documents import read_json
from splitstep.text.tokenizers import open_tokenizer


def run_of(task: str, folder: Path) -> Path:
    """A finished run of the recipe of this name."""
    if splitstep(["train", task, "--out", str(folder)]):
        raise SystemExit(f"train {task} failed")
    return folder


def linked(model: Path) -> Path:
    """A file or folder under its own name here, so that no path of this machine is stored."""
    if not Path(model.name).exists():
        Path(model.name).symlink_to(model)
    return Path(model.name)


def random_llama(smollm2: Path, folder: Path) -> Path:
    """A small Llama with fresh weights and SmolLM2's tokenizer."""
    tokenizer = open_tokenizer(str(smollm2))
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=128, intermediate_size=512, num_hidden_layers=6, num_attention_heads=4
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def quoted(result: Inspection) -> str:
    """The sentences as a list, and the names of those that are not there."""
    said = sentences(result)
    rest = "; ".join(f"{one.name} ({one.why})" for one in said.absent)
    lines = [f"- {one.text}" for one in said.sentences]
    return "\n".join([*lines, *([f"- Not said: {rest}."] if rest else [])])


def stored(folder: Path) -> Inspection:
    """A result as it is stored."""
    return STUDIES["inspect"].read(read_json(folder / "result.json"), str(folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("smollm2", "minilm", "work", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--only", nargs="*")
    given = parser.parse_args()
    smollm2, minilm, out = (one.absolute() for one in (given.smollm2, given.minilm, given.out))
    given.work.mkdir(parents=True, exist_ok=True)
    os.chdir(given.work)
    models: Mapping[str, Callable[[], Path]] = {
        "smollm2": lambda: linked(smollm2),
        "minilm": lambda: linked(minilm),
        "stdlib": lambda: run_of("stdlib", Path("run-stdlib")),
        "digits": lambda: run_of("digits", Path("run-digits")),
        "random": lambda: random_llama(smollm2, Path("random-llama")),
    }
    for name in given.only or models:
        words = ["inspect", str(models[name]()), "--cut", "6" if name == "smollm2" else "2", "--out", name]
        if splitstep(words):
            raise SystemExit(f"{' '.join(words)} failed")
        (out / name).mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(name) / "result.json", out / name)
        print(f"### {name}\n\n{quoted(stored(out / name))}\n")


if __name__ == "__main__":
    main()
