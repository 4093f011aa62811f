"""The script behind the page on distillation runs its commands, chooses rates by its rule, and ends when it should."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import sys
import threading
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "results" / "distil.md").read_text()
# A program in place of splitstep: it notes its command, and writes what a run or a study would. Seed 1 of a method is
# never finished, and a study with more than one seed goes on until it is interrupted.
STAND_IN = """
import json, pathlib, signal, sys, time
words = sys.argv[1:]
print(json.dumps(words), file=open("commands.txt", "a"))
out = pathlib.Path(words[words.index("--out") + 1])
out.mkdir(parents=True, exist_ok=True)
option = lambda name: words[words.index(name) + 1]
if words[0] == "compare":
    for method in option("--methods").split(","):
        folder = out / "runs" / f"{method}-seed0"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "judged.json").touch()
    if int(option("--seeds")) > 1:
        signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
        time.sleep(60)
rate = next((word for word in words if word.startswith("train.lr=")), "=1")
(out / "result.json").write_text(json.dumps({"valid": {"loss": abs(float(rate.split("=")[1]) - 3e-4)}}))
"""


def script() -> Any:
    spec = importlib.util.spec_from_file_location("runs_of_pairs", ROOT / "benchmarks" / "distil_pairs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def commands_of_the_page() -> list[list[str]]:
    section = PAGE.split("### After (c) and (d)")[1]
    block = re.findall(r"```\n(.*?)```", section, re.DOTALL)[0].replace("\\\n", " ")
    return [shlex.split(line)[1:] for line in block.splitlines()]


def test_its_commands_are_those_of_the_page() -> None:
    pairs = script()
    found = [pairs.TUNE, *(pair.made_by for pair in pairs.PAIRS.values())]
    found += [pair.study("RATE", 4) for pair in pairs.PAIRS.values()]
    assert sorted(map(list, found)) == sorted(commands_of_the_page())


def test_it_stops_a_study_and_collects_the_seeds_that_all_methods_have(tmp_path: Path) -> None:
    pairs = script()
    (tmp_path / "program.py").write_text(STAND_IN)
    runner = pairs.Runner(tmp_path, 4.0, (sys.executable, str(tmp_path / "program.py")))
    tuned = threading.Thread(target=runner.run, args=("tuned", pairs.TUNE))
    tuned.start()
    pair = pairs.PAIRS["e"]
    assert pairs.run_pair(runner, pair, tuned, 5)
    ran = [json.loads(line) for line in (tmp_path / "commands.txt").read_text().splitlines()]
    assert {tuple(words) for words in ran[:2]} == {tuple(pairs.TUNE), tuple(pairs.CUT)}
    assert sorted(ran[2:5]) == sorted(pair.trial(rate) for rate in pairs.RATES)
    engine = ("--engine", f"local={pair.workers}")
    assert ran[5:] == [pair.study("3e-4", 5, *engine), pair.study("3e-4", 1, *engine)]
    status = json.loads((tmp_path / "status.json").read_text())
    assert status["same"]["state"] == "stopped"
    assert status["same-collected"]["state"] == "exit code 0"


def test_a_command_that_fails_is_tried_again_and_then_nothing_follows(tmp_path: Path) -> None:
    pairs = script()
    (tmp_path / "program.py").write_text("print('a run'); raise SystemExit(2)")
    runner = pairs.Runner(tmp_path, 60.0, (sys.executable, str(tmp_path / "program.py")))
    tuned = threading.Thread(target=runner.run, args=("tuned", pairs.TUNE))
    tuned.start()
    assert not pairs.run_pair(runner, pairs.PAIRS["f"], tuned, 5)
    status = json.loads((tmp_path / "status.json").read_text())
    assert {name: one["tries"] for name, one in status.items()} == {"tuned": 2, "student": 2}
    assert (tmp_path / "logs" / "student.log").read_text() == "a run\na run\n"
