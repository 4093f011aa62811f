"""A package of somebody else's adds schemes, tableaux, letters, tasks, probes and studies; the verbs use each."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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


RUN = """
import sys
from splitstep.cli import main
if "compare" in sys.argv:
    from inline import here
    from splitstep.experiments import running
    running.open_engine = here
for line in sys.stdin:
    print(main(eval(line)), flush=True)
"""


def splitstep(site: Path, *commands: Sequence[Any]) -> subprocess.CompletedProcess[str]:
    """Commands in one process; after the text of each is its exit code."""
    environment = os.environ | {"PYTHONPATH": f"{site}:{ROOT}:{ROOT / 'tests' / 'helpers'}"}
    lines = "".join(f"{[*map(str, words)]!r}\n" for words in commands)
    run = [sys.executable, "-c", RUN, *(str(words[0]) for words in commands)]
    return subprocess.run(run, input=lines, env=environment, cwd=site, capture_output=True, text=True, timeout=600)


WRONG = {
    "wrong": "scheme 'wrong' of the package splitstep-stranger does not load",
    "A @wrong": "tableau 'wrong' of the package splitstep-stranger does not load",
    "dampd": "Did you mean damped",
    "A @ralstn": "did you mean @ralston",
}


def test_a_strangers_scheme_has_its_order_and_its_study_a_page(site: Path, tmp_path: Path) -> None:
    """The scheme, its tableau and the study; a package that is broken hurts no other verb."""
    (tmp_path / "result.json").write_text(json.dumps({"study": "tally", "format": 1, "words": {"<b>": 3, "two": 1234}}))
    (tmp_path / "broken.yaml").write_text("task: broken\n")
    run = splitstep(
        site, ["schemes", "damped", "A+F @ralston", "--json"], ["report", tmp_path], ["report", tmp_path, "--markdown"],
        ["train", tmp_path / "broken.yaml", "--out", tmp_path / "run"], ["recipes", "digits"],
        ["schemes", "macaron"], *(["schemes", one] for one in WRONG),
    )  # fmt: skip
    schemes, report, markdown, broken = run.stdout.split("\n0\n")[0], *run.stdout.split("\n0\n")[1:3], run.stderr
    rows = json.loads(schemes)["rows"]
    assert [(row["notation"], row["order"]) for row in rows] == [("A F G", 1), ("A+F @ralston", 2)]
    assert "1,234" in report
    assert "| two | 1,234 |" in markdown
    page = (tmp_path / "report.html").read_text()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert "F0/2 A F1/2" in run.stdout  # own rows come first
    error, *others = [line for line in broken.splitlines() if line.startswith("Error: ")]
    assert [says in line for says, line in zip(WRONG.values(), others, strict=True)] == [True] * len(WRONG)
    assert "splitstep-stranger" in error
    assert "'broken'" in error
    assert "\n2\n" in run.stdout


@pytest.mark.slow
def test_a_strangers_task_letter_and_probe_are_trained_and_compared(site: Path, tmp_path: Path) -> None:
    (tmp_path / "bits.txt").write_text("".join(f"{n:05b}\n" for n in range(32)) * 5)
    recipe = tmp_path / "parity.yaml"
    recipe.write_text(
        f"task: parity\ndata: {{path: {tmp_path}/bits.txt}}\nprobes: [largest]\n"
        "model: {layers: 1, width: 16, heads: 2, ffn: 16}\n"
        "train: {steps: 4, batch: 8, warmup: 1}\n"
    )
    run = splitstep(
        site, ["train", recipe, "scheme=A F G", "match=none", "--out", tmp_path / "run", "--json"],
        ["compare", recipe, "--schemes", "lie,damped", "--match", "none", "--seeds", "1", "--out", tmp_path / "both"],
    )  # fmt: skip
    assert run.stdout.endswith("\n0\n"), run.stderr
    assert json.loads(run.stdout.split("\n0\n")[0])["scheme"]["notation"] == "A F G"
    logged = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert any("largest" in json.dumps(record) for record in logged if record["split"] == "probe")
    assert "#3a7d44" in (tmp_path / "both" / "report.html").read_text()
    run = splitstep(
        site, ["schemes", "A W", "--check", "--json"], ["train", recipe, "scheme=A W F", "--out", tmp_path / "leak"],
        ["compare", recipe, "--schemes", "lie,A W F", "--seeds", "1", "--out", tmp_path / "leaks"],
    )  # fmt: skip
    assert run.stdout.endswith("\n1\n2\n2\n"), run.stderr
    [row] = json.loads(run.stdout.split("\n1\n")[0])["rows"]
    broken = {one["kind"]: list(one["broken"]) for one in row["promises"]}
    assert broken["causal"] == ["later", "padding", "packing", "cache"]
    assert broken["sequence"] == ["padding"]
    says = (
        r"Error: .*The letter W \(window\) is refused in splitstep-sequence models: padding moves logits by \d\.\d+\. "
    )
    assert len(re.findall(says, run.stderr)) == 2, run.stderr
    assert not (tmp_path / "leak").exists()
    assert not (tmp_path / "leaks").exists()


def test_a_strangers_names_are_listed_without_importing_it(site: Path) -> None:
    code = (
        "import sys; from splitstep.tasks import TASKS; from splitstep.letters import LETTERS; "
        "assert {'parity', 'broken'} <= set(TASKS) and 'G' in LETTERS; "
        "assert 'splitstep_stranger' not in sys.modules; LETTERS['G']; assert 'splitstep_stranger' in sys.modules"
    )
    environment = os.environ | {"PYTHONPATH": f"{site}:{ROOT}"}
    subprocess.run([sys.executable, "-c", code], env=environment, cwd=site, check=True)
