"""`compare`, `compare glue` and `compare distil`: which words reach which study, their help, and hints between them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from splitstep import cli
from splitstep.doors import distil
from splitstep.studies import compare, glue

OWN = {
    "compare": {"--task", "--schemes", "--match", "--arms", "--sweep"},
    "compare glue": {"--start", "--scratch", "--tasks", "--grid", "--sweep"},
    "compare distil": {"--methods", "--text", "--questions", "--student-layers", "--answer-tokens", "--plain"},
}
SHARED = {"--seeds", "--engine", "--out", "--data", "--json", "--help"}


class Reached(Exception):
    """A study was called."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the study is asked that the command reaches; it ends there."""
    found: dict[str, Any] = {}

    def reach(study: str, **entries: Any) -> None:
        found.update(entries, study=study)
        raise Reached

    def of_schemes(recipe: Any, schemes: Any, seeds: Any, out: Any, **options: Any) -> None:
        steps, task = recipe.train.steps, recipe.task
        reach("compare", task=task, steps=steps, match=recipe.match, schemes=schemes, seeds=len(seeds), out=out)

    monkeypatch.setattr(compare, "compare", of_schemes)
    monkeypatch.setattr(glue, "read_starts", str)
    monkeypatch.setattr(glue, "glue", lambda start, out, **options: reach("glue", start=start, out=out, **options))

    def of_methods(document: Any, files: Any, methods: Any, seeds: Any, *rest: Any) -> None:
        reach("distil", start=document["start"], methods=methods, seeds=len(seeds), model=document.get("model"),
              steps=document["train"].get("steps"), text=files.texts)  # fmt: skip

    monkeypatch.setattr(distil, "judged", of_methods)
    return found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "--task digits --schemes lie,macaron --seeds 5 --out runs/digits",
            {"study": "compare", "task": "digits", "schemes": ["lie", "macaron"], "seeds": 5},
        ),
        (
            'stdlib train.steps=500 --schemes "lie,F/2 A F/2" --match flops --out runs/lm',
            {"task": "stdlib", "steps": 500, "schemes": ["lie", "F/2 A F/2"], "match": "flops", "seeds": 5},
        ),
        (
            "mlm-small data.train=my-text/ --schemes lie,macaron --seeds 4 --out runs/pretrain",
            {"study": "compare", "task": "mlm", "schemes": ["lie", "macaron"], "seeds": 4},
        ),
        ("./glue --schemes lie --out out", {"study": "compare", "task": "digits", "steps": 7}),
        ("distil.yaml --schemes lie --out out", {"study": "compare", "task": "digits", "steps": 7}),
        ("--schemes lie --out out -- glue", {"study": "compare", "task": "digits", "steps": 7}),
        (
            "glue --start runs/pretrain --seeds 3 --scratch --out runs/glue",
            {"study": "glue", "start": "runs/pretrain", "seeds": 3, "scratch": True, "changes": (), "sweep": []},
        ),
        (
            "glue train.lr=1e-4 --start a=b --tasks rte,cola --sweep train.batch=8,16 --out out",
            {"changes": ("train.lr=1e-4",), "tasks": ["rte", "cola"], "sweep": ["train.batch=8,16"], "seeds": 2},
        ),
        (
            "distil TEACHER STUDENT --text rows.jsonl --methods ce,skl,skl+mta --seeds 4 --out runs/terms",
            {"study": "distil", "start": "STUDENT", "methods": ["ce", "skl", "skl+mta"], "seeds": 4},
        ),
        (
            "distil TEACHER --student-layers 10 --text a --text b --methods ce,skl --out runs/terms train.steps=100",
            {"start": "TEACHER", "steps": 100, "model": {"layers": 10}, "text": [Path("a"), Path("b")], "seeds": 3},
        ),
    ],
)
def test_a_command_reaches_its_study(
    line: str, expected: Mapping[str, Any], asked: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("glue", "distil.yaml"):
        Path(name).write_text("task: digits\nscheme: lie\nmodel: {layers: 1, width: 8, heads: 1}\ntrain: {steps: 7}\n")
    with pytest.raises(Reached):
        cli.main(["compare", *shlex.split(line)])
    assert {name: asked[name] for name in expected} == expected
    if "command" in asked:
        assert shlex.split(asked["command"]) == ["splitstep", "compare", *shlex.split(line)]


@pytest.mark.parametrize("verb", OWN)
def test_help_shows_the_options_of_one_verb(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*verb.split(), "--help"]) == 0
    text = capsys.readouterr().out
    assert set(re.findall(r"^  (?:-h, )?(--[a-z-]+)", text, re.M)) == OWN[verb] | SHARED
    others = {name for name in OWN if f"splitstep {name} --help" in text}
    assert others == (set(OWN) - {verb} if verb == "compare" else set())
