"""The table of clients: what `make matrix` writes into the docs, from the outcomes of tests/clients.

`pytest tests/clients --record FILE` writes the outcomes; `python tests/helpers/client_table.py` writes the table.
"""

import ast
import json
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TESTS, PAGE = ROOT / "tests" / "clients", ROOT / "docs" / "guide" / "clients.md"
RESULTS = ROOT / "results" / "clients" / "matrix.json"
BEGIN, END = "<!-- begin: written by `make matrix` -->", "<!-- end -->"


CLIENTS = {  # a client's name, and the packages whose versions count
    "test_auto_model": ("AutoModel and AutoModelFor...", "transformers"),
    "test_arguments": ("arguments of forward", "transformers"),
    "test_caches": ("generate and its caches", "transformers", "torch"),
    "test_heads": ("classification heads", "transformers"),
    "test_checkpointing": ("gradient checkpointing", "transformers", "torch"),
    "test_pipelines": ("pipelines", "transformers"),
    "test_trainers": ("Trainer, Seq2SeqTrainer", "transformers", "accelerate"),
    "test_trl": ("TRL's SFTTrainer", "trl", "datasets"),
    "test_peft": ("PEFT's LoRA", "peft"),
    "test_export": ("torch.export, ONNX", "torch", "onnx", "onnxruntime", "onnxscript"),
    "test_lm_eval": ("lm-eval's command line", "lm_eval"),
}


def claims() -> dict[str, list[str]]:
    """The tests of each file, as its source has them."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.glob("test_*.py")):
        tree = ast.parse(path.read_text())
        found[path.stem] = [n.name for n in tree.body if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")]
    return found


def summary(outcomes: dict[str, dict[str, Counter[str]]]) -> dict[str, Any]:
    """What is written down of a run: versions, and how often each test of each client passed, failed or was skipped."""
    packages = sorted({package for _, *packages in CLIENTS.values() for package in packages})
    return {
        "command": "make matrix",
        "versions": {package: version(package).split("+")[0] for package in packages},
        "clients": {
            file: {test: dict(sorted(seen.items())) for test, seen in tests.items()} for file, tests in outcomes.items()
        },
    }


def verdict(tests: dict[str, dict[str, int]]) -> str:
    """Whether a client works: all of its tests passed."""
    total = Counter[str]()
    for seen in tests.values():
        total.update(seen)
    bad = {name: n for name, n in total.items() if name != "passed"}
    return "yes" if not bad else ", ".join(f"{n} {name}" for name, n in sorted(bad.items()))


def table(document: dict[str, Any]) -> str:
    """The table as Markdown, one row for each client."""
    lines = ["| client | works | versions | what is checked |", "|---|---|---|---|"]
    for file, (client, *packages) in CLIENTS.items():
        tests = document["clients"].get(file, {})
        versions = ", ".join(f"{name} {document['versions'][name]}" for name in packages)
        checked = "; ".join(test.removeprefix("test_").replace("_", " ") for test in tests)
        lines.append(f"| [{client}](../../tests/clients/{file}.py) | {verdict(tests)} | {versions} | {checked} |")
    return "\n".join(lines)


def page(text: str, document: dict[str, Any]) -> str:
    """The page with this table in place of the one that it holds."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table(document)}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(), json.loads(RESULTS.read_text())))
