"""The contract of the command line: JSON and nothing else, result.json, one line and exit code 2 for wrong input."""

import errno
import json
import math
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from commands import Capsys, Patch, refusal
from typer.main import get_command

from splitstep import SCHEMES, cli
from splitstep.experiments.arms import ARMS
from splitstep.experiments.study import STUDIES
from splitstep.probes import PROBES
from splitstep.studies import orders, slopes
from splitstep.tasks.glue import PARTS

read_orders = STUDIES["orders"].read


COMMAND: Any = get_command(cli.app)
VERBS = sorted(COMMAND.commands)
KEYS = ["name", "notation", "fields", "evaluations", "splitting_order", "order", "untied_order", "unsplit"]


def splitstep(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "splitstep", *words], text=True, capture_output=True, **options)


def test_json_is_one_document_and_the_file_is_the_same(tmp_path: Path) -> None:
    run = splitstep("schemes", "--json", "--out", str(tmp_path / "new" / "folder"))
    assert (run.returncode, run.stderr) == (0, f"Report: {tmp_path / 'new' / 'folder' / 'report.html'}\n")
    head = json.loads(run.stdout)
    assert (head["study"], head["format"]) == ("orders", 1)
    document = head["rows"]
    assert (tmp_path / "new" / "folder" / "result.json").read_text() == run.stdout
    assert sorted(os.listdir(tmp_path / "new" / "folder")) == ["report.html", "result.json"]
    assert [row["name"] for row in document] == list(SCHEMES)
    for row in document:
        assert list(row) == KEYS
        assert row["notation"] == str(SCHEMES[row["name"]])
        assert row["fields"] == list(SCHEMES[row["name"]].fields)
        assert (row["splitting_order"], row["order"]) == (
            SCHEMES[row["name"]].splitting_order,
            SCHEMES[row["name"]].order,
        )


def test_measured_orders_join_and_are_null_where_a_part_replaces(capsys: Capsys) -> None:
    assert cli.main(["schemes", "F A", "A@heun F@heun", "=A =F", "--measure", "--json"]) == 0
    first, second, third = json.loads(capsys.readouterr().out)["rows"]
    assert list(first) == [*KEYS, "measured", "errors"]
    assert (first["name"], second["name"]) == ("reverse-lie", None)
    assert second["notation"] == "A F @heun"
    assert abs(first["measured"]["autonomous"] - 1) < 0.15
    assert abs(first["measured"]["time_dependent"] - 1) < 0.15
    assert (third["order"], third["splitting_order"], third.get("measured")) == (None, None, None)


def test_what_cannot_be_measured_is_text_in_json_and_reads_back() -> None:
    [row] = orders.orders(["lie"]).rows
    broken = orders.Row(**(vars(row) | {"measured": orders.Measured(float("nan"), 1.0, 1.0)}))
    document = json.loads(json.dumps(orders.Orders((broken,)).json(), allow_nan=False))
    assert document["rows"][0]["measured"] == {"autonomous": "nan", "time_dependent": 1.0, "untied": 1.0}
    [again] = read_orders(document, "there").rows
    assert again.measured is not None
    assert math.isnan(again.measured.autonomous)


def test_the_table_fits_80_columns_and_any_encoding() -> None:
    run = splitstep("schemes", env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert (run.returncode, run.stderr) == (0, "")
    lines = run.stdout.replace("|", " ").splitlines()
    assert max(map(len, lines)) <= 80
    assert {line.split()[0] for line in lines if line[:1].strip()} >= set(SCHEMES)
    assert all(line.split()[-4:] == ["2", "1", "1", "1"] for line in lines if line.startswith("lie "))
    assert all("exact" in line for line in lines if line.startswith("rk4"))


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_keeps_the_contract(verb: str, capsys: Capsys) -> None:
    words = verb.split()
    assert cli.main([*words, "--help"]) == 0
    text = capsys.readouterr().out
    assert "Example" in text
    assert text.startswith(f"Usage: splitstep {verb} [")
    assert f"    splitstep {verb} " in text or f"    splitstep {verb}\n" in text
    assert "--json" in text
    assert "--out DIR" in text
    assert f"Did you mean --json? See splitstep {verb} --help." in refusal(capsys, *words, "--jsn")
    assert "requires an argument" in refusal(capsys, *words, "--out")


def test_help_is_whole_on_80_columns_and_lists_what_there_is_to_choose(capsys: Capsys, monkeypatch: Patch) -> None:
    def shown(*words: str) -> str:
        assert cli.main([*words, "--help"]) == 0
        return capsys.readouterr().out

    monkeypatch.setenv("COLUMNS", "80")
    texts = {verb: shown(*verb.split()) for verb in ["", *VERBS]}
    summaries = " ".join(texts[""].split())
    for verb in VERBS:
        sentence = re.split(r"(?<=\.)\s", (cli.VERBS[verb].function.__doc__ or "").strip())[0]
        assert f"{verb} {' '.join(sentence.split())}" in summaries
        assert "--out DIR" not in texts[verb] or "result" in texts[verb] or "runs/COMMAND-NAME" in texts[verb]
    assert not any("list[" in text or "\u2026" in text for text in texts.values())
    probes = [name for name in PROBES if not PROBES[name]().gradients]
    for verb, choices in (
        ("compare", ["parameters", "flops", "none"]), ("compare", ARMS), ("ablate", ARMS), ("compare glue", PARTS),
        ("compare glue", ["paper"]), ("inspect", probes), ("inspect", ["states"]),
    ):  # fmt: skip
        assert set(choices) <= set(re.findall(r"[\w-]+", re.sub(r"-\s+", "-", texts[verb]))), verb


OWN = {
    "compare": "task schemes match arms sweep text minutes budgets tune null until margin plan",
    "compare glue": "start scratch tasks grid sweep",
    "compare distil": "methods text questions student-layers answer-tokens plain",
}
SHARED = "letters seeds engine out data json help"


@pytest.mark.parametrize("verb", OWN)
def test_help_shows_the_options_of_one_verb(verb: str, capsys: Capsys) -> None:
    assert cli.main([*verb.split(), "--help"]) == 0
    text = capsys.readouterr().out
    assert set(re.findall(r"^  (?:-h, )?--([a-z-]+)", text, re.M)) == {*OWN[verb].split(), *SHARED.split()}
    others = {name for name in OWN if f"splitstep {name} --help" in text}
    assert others == (set(OWN) - {verb} if verb == "compare" else set())


def test_a_result_is_written_whole_or_not_at_all(tmp_path: Path, capsys: Capsys, monkeypatch: Patch) -> None:
    (tmp_path / "result.json").write_text("before")

    def full(*args: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for name in ("replace", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, full)
            message = refusal(capsys, "schemes", "lie", "--json", "--out", str(tmp_path))
        assert f"{tmp_path / 'result.json'}: No space left on device" in message
        assert os.listdir(tmp_path) == ["result.json"]
        assert (tmp_path / "result.json").read_text() == "before"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_standard_output_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "splitstep", "schemes", "--json"]
        run = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert run.returncode == 2
    assert run.stderr == "Error: standard output: No space left on device.\n"


def test_a_closed_pipe_is_quiet() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "splitstep", "schemes"]
    run = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (run.returncode, run.stderr) == (141, "")


@pytest.mark.parametrize(
    ("closed", "words", "code"),
    [
        (">&-", "schemes lie", 0),
        (">&- 2>&-", "schemes lie --json", 0),
        ("2>&- | cat", "schemes macron", 2),
        ("2>&1 | true", "schemes macron", 2),
        ("<&-", "translate nowhere", 2),
    ],
)
def test_closed_streams_are_quiet(closed: str, words: str, code: int) -> None:
    line = f"set -o pipefail; '{sys.executable}' -m splitstep {words} {closed}"
    run = subprocess.run(["bash", "-c", line], text=True, capture_output=True)
    assert (run.returncode, run.stdout) == (code, "")
    assert len(run.stderr.splitlines()) == (closed == "<&-")


def test_an_interrupt_is_one_line_and_exit_code_130(capsys: Capsys, monkeypatch: Patch) -> None:
    def interrupted(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(slopes, "integrate", interrupted)
    assert cli.main(["schemes", "--measure"]) == 130
    assert capsys.readouterr() == ("", "Error: interrupted.\n")


@pytest.mark.parametrize(
    ("slow", "start"),
    [("torch", ["-m", "splitstep"]), ("typer", ["-c", "import sys; from {module} import {name}; sys.exit({name}())"])],
)
def test_an_interrupt_while_packages_are_imported_ends_alike(slow: str, start: list[str], tmp_path: Path) -> None:
    """Both as a module and as the command that pyproject.toml installs."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    module, name = project["scripts"]["splitstep"].split(":")
    words = [word.format(module=module, name=name) for word in start]
    (tmp_path / f"{slow}.py").write_text("raise KeyboardInterrupt")
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2]}"}
    command = [sys.executable, *words, "train", "digits", "--out", str(tmp_path / "out")]
    run = subprocess.run(command, text=True, capture_output=True, env=environment)
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "Error: interrupted.\n")
