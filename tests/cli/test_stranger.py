"""A package of somebody else's adds schemes, tableaux, letters, tasks, probes and studies; the verbs use each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "stranger"
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the package is installed in."""
    folder = tmp_path_factory.mktemp("stranger")
    source = folder / "source"
    subprocess.run(["cp", "-r", str(SOURCE), str(source)], check=True)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", str(folder / "site"), str(source)], check=True)
    return folder / "site"


def splitstep(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": f"{site}:{ROOT}"}
    command = [sys.executable, "-m", "splitstep", *words]
    return subprocess.run(command, env=environment, cwd=site, capture_output=True, text=True, timeout=600)


def test_a_strangers_scheme_and_tableau_have_their_orders(site: Path) -> None:
    run = splitstep(site, "schemes", "damped", "A+F @ralston", "--json")
    assert run.returncode == 0, run.stderr
    rows = json.loads(run.stdout)["rows"]
    assert [row["notation"] for row in rows] == ["A F G", "A+F @ralston"]
    assert [row["order"] for row in rows] == [1, 2]


@pytest.mark.slow
def test_a_strangers_task_letter_and_probe_are_trained_and_compared(site: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "parity.yaml"
    recipe.write_text(
        "task: parity\ndata: {length: 5}\nmodel: {layers: 1, width: 16, heads: 2, ffn: 16}\nprobes: [largest]\n"
        "train: {steps: 4, batch: 8, warmup: 1}\n"
    )
    run = splitstep(site, "train", str(recipe), "scheme=A F G", "match=none", "--out", str(tmp_path / "run"), "--json")
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["scheme"]["notation"] == "A F G"
    logged = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert any("largest" in json.dumps(record) for record in logged if record["split"] == "probe")
    both = splitstep(
        site, "compare", str(recipe), "--schemes", "lie,damped", "--match", "none", "--seeds", "1",
        "--out", str(tmp_path / "both"), "--json",
    )  # fmt: skip
    assert both.returncode == 0, both.stderr
    assert "#3a7d44" in (tmp_path / "both" / "report.html").read_text()


def test_a_strangers_result_is_reported(site: Path, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(json.dumps({"study": "tally", "format": 1, "words": {"<b>": 3, "two": 1234}}))
    run = splitstep(site, "report", str(tmp_path))
    assert run.returncode == 0, run.stderr
    assert "1,234" in run.stdout
    page = (tmp_path / "report.html").read_text()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert "| two | 1,234 |" in splitstep(site, "report", str(tmp_path), "--markdown").stdout


def test_a_broken_package_is_one_line_and_hurts_no_other_verb(site: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "broken.yaml"
    recipe.write_text("task: broken\n")
    run = splitstep(site, "train", str(recipe), "--out", str(tmp_path / "run"))
    assert run.returncode == 2
    assert run.stderr.count("\n") == 1
    assert "splitstep-stranger" in run.stderr
    assert "'broken'" in run.stderr
    assert splitstep(site, "schemes", "lie").returncode == 0


def test_a_strangers_names_are_listed_without_importing_it(site: Path) -> None:
    code = (
        "import sys; from splitstep.tasks import TASKS; from splitstep.letters import LETTERS; "
        "assert {'parity', 'broken'} <= set(TASKS) and 'G' in LETTERS; "
        "assert 'splitstep_stranger' not in sys.modules; LETTERS['G']; assert 'splitstep_stranger' in sys.modules"
    )
    environment = os.environ | {"PYTHONPATH": f"{site}:{ROOT}"}
    subprocess.run([sys.executable, "-c", code], env=environment, cwd=site, check=True)
