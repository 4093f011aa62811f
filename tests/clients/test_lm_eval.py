"""lm-eval's command line scores a saved model on a task file of ours, offline; by hand the score is the same."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import byte_tokenizer_with_padding, tiny

import splitstep as ss

pytest.importorskip("lm_eval", reason="lm_eval is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.nightly]

TASKS = Path(__file__).with_name("lm_eval_tasks")
ROWS: list[dict[str, Any]] = [
    {"before": "import ", "choices": ["os", "zq"], "right": 0},
    {"before": "def f", "choices": ["}}", "(x"], "right": 1},
    {"before": "return ", "choices": ["self", "#@!~"], "right": 0},
    {"before": "for i ", "choices": ["in ", "is "], "right": 0},
    {"before": "class A", "choices": ["(B):", ";;;;"], "right": 0},
]


def log_likelihood(model: Any, before: str, after: str) -> float:
    """The oracle: the sum of the logarithms of the probabilities of the bytes."""
    start, end = before.encode(), after.encode()
    ids = torch.tensor([list(start + end)])
    logs = model(ids).logits.log_softmax(-1)[0]
    return sum(logs[len(start) - 1 + i, byte].item() for i, byte in enumerate(end))


def test_the_command_line_gives_the_accuracy_worked_out_by_hand(tmp_path: Path) -> None:
    folder, lines = tmp_path / "model", tmp_path / "lines.jsonl"
    tiny("causal", "strang-midpoint", vocab_size=256, positions="rotary").save_pretrained(folder)
    byte_tokenizer_with_padding().save_pretrained(folder)
    lines.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    task = (TASKS / "stdlib_lines.yaml").read_text().replace("LINES", str(lines))
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "stdlib_lines.yaml").write_text(task)
    options = "trust_remote_code=True,dtype=float32,prefix_token_id=10"  # bytes have no token for a beginning
    command = [
        sys.executable, "-m", "lm_eval", "run", "--model", "hf", "--model_args", f"pretrained={folder},{options}",
        "--tasks", "splitstep_lines", "--include_path", str(tmp_path / "tasks"), "--device", "cpu", "--batch_size", "2",
        "--output_path", str(tmp_path / "out"),
    ]  # fmt: skip
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")}
    run = subprocess.run(command, capture_output=True, text=True, timeout=500, env=os.environ | offline)
    assert run.returncode == 0, run.stderr[-3000:]
    [file] = (tmp_path / "out").rglob("results_*.json")
    found = json.loads(file.read_text())["results"]["splitstep_lines"]["acc,none"]
    model = ss.SplitstepForCausalLM.from_pretrained(folder).eval()
    likes = [[log_likelihood(model, row["before"], choice) for choice in row["choices"]] for row in ROWS]
    expected = sum(max((0, 1), key=scores.__getitem__) == row["right"] for scores, row in zip(likes, ROWS, strict=True))
    assert found == pytest.approx(expected / len(ROWS))
