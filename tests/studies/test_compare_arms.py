"""Arms of all kinds in one comparison on a text of one's own: rows, a stranger's block, configs of transformers."""

import json
import re
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from clusters import dask_cluster
from disasters import Command, Ended
from inline import here
from strangers import FUTURE, GOOD, gpt2, llama, write_block, write_config

from splitstep import cli
from splitstep.experiments import running
from splitstep.experiments.running import Workplace
from splitstep.experiments.study import STUDIES
from splitstep.recipe import load_recipe
from splitstep.report.drawing import document_to_page
from splitstep.studies.compare.asked import compare_arms, question_of
from splitstep.studies.compare.result import Comparison, against
from splitstep.training.directory import RunDirectory

SIZES = (
    "data.length=16", "model.layers=1", "model.width=32", "model.heads=2", "model.ffn=512", "train.steps=2",
    "train.batch=4", "train.warmup=1",
)  # fmt: skip
Compare = Callable[..., Comparison]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A text and a block, Llama and GPT-2 in the present folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPLITSTEP_CACHE", str(tmp_path / "cache"))
    Path("my.txt").write_text("".join(f"line {i} says {i * i}\n" for i in range(400)))
    files = [write_block(tmp_path), write_config(tmp_path, llama()), write_config(tmp_path, gpt2())]
    return ["lie", "macaron", "swiglu", *(str(Path(file).relative_to(tmp_path)) for file in files)]


def compared(
    names: Sequence[str], out: str, engine: str = "local", seeds: int = 3, quiet: bool = True, **how: Any
) -> Comparison:
    recipe, place = (
        load_recipe("own-text", ["data.path=my.txt", *SIZES]),
        Workplace("arms", Path(out), None, engine, quiet),
    )
    return compare_arms(question_of(recipe, names, range(seeds), place, **how), place)


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "open_engine", here)


def figures(result: Comparison) -> dict[str, Any]:
    return {trial.folder: (trial.test, trial.valid, trial.train_loss) for trial in result.trials}


@pytest.mark.usefixtures("inline")
def test_arms_of_all_kinds_stand_in_one_comparison(own: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    found = compared(own, "out", null=True, quiet=False)
    [told] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("gpt2.json: ")]
    page = " ".join(re.sub("<[^>]+>", " ", document_to_page(found.document())).split())
    for text in ("n_embd 32 (was 768)", "n_positions 16 (was 1024)", "attn_pdrop 0.1"):
        assert text in told
        assert text in page
    assert [row.name for row in found.rows] == [*own[:3], "mine.py:block", "llama.json", "gpt2.json"]
    assert [row.finished for row in found.rows] == [3] * 6
    assert len(found.trials) == 7 * 3
    first = found.rows[0].cost.body
    assert all(abs(row.cost.body / first - 1) < 0.02 for row in found.rows), "all have the cost of the first"
    assert found.verdict is not None
    assert "noise floor" in document_to_page(found.document())
    read = STUDIES["compare"].read(found.json(), "it")
    assert read == found
    assert against(read, "macaron").rows[0].name == "macaron"


def ended(out: Path) -> dict[str, int]:
    """When each run that is over was written."""
    return {file.parent.name: file.stat().st_mtime_ns for file in sorted(out.glob("runs/*/result.json"))}


@pytest.mark.slow
def test_what_was_killed_continues_and_another_block_is_refused(own: list[str], tmp_path: Path) -> None:
    """All six arms, by the shell's command in a process of its own, which is killed after two thirds of its writes."""
    words = ["compare", "--text", "my.txt", *SIZES, "train.precision=float32", "--arms", ",".join(own), "--seeds", "2"]
    words += ["--out", "out"]

    def command(name: str, at: int = 0) -> Ended:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        for file in ("my.txt", *(one.partition(":")[0] for one in own[3:])):
            (folder / file).write_bytes(Path(file).read_bytes())
        notes = tmp_path / "notes" / f"{len(list(tmp_path.glob('notes/*')))}"
        return Command(words, folder, notes, at).ended()

    whole = command("whole")
    assert whole.code == 0, whole.told
    killed, out = command("killed", 2 * whole.operations // 3), tmp_path / "killed" / "out"
    assert killed.code == -signal.SIGKILL
    kept = ended(out)
    assert 0 < len(kept) < 6 * 2
    assert command("killed").code == 0
    assert kept.items() <= ended(out).items(), "what had ended was not trained again"
    again, first = (
        STUDIES["compare"].read(json.loads((tmp_path / name / "out" / "result.json").read_text()), name)
        for name in ("killed", "whole")
    )
    assert figures(again) == figures(first)
    assert [row.finished for row in again.rows] == [2] * 6
    before = ended(out)
    Path("mine.py").write_text(GOOD.replace("0.25", "0.5"))
    refused = command("killed")
    assert refused.code == 2
    assert "mine.py" in refused.told[-1]
    assert ended(out) == before


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_two_dask_workers_find_the_same_figures(own: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers have no file of the block: its source is sent to them."""
    with monkeypatch.context() as patch:
        patch.setattr(running, "open_engine", here)
        one = compared(own, "one", seeds=2)
    with dask_cluster(2) as cluster:
        two = compared(own, "two", f"dask={cluster.scheduler_address}", 2)
    assert figures(one) == figures(two)


NARROW = GOOD.replace("return x + self.scale", "return x[..., 1:] + self.scale").replace(
    "nn.Linear(ffn, width)", "nn.Linear(ffn, width - 1)"
)
ENCODER = {"model_type": "bert", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
REFUSED = {
    "a block that leaks": (
        ["lie", "leaky.py:block"],
        [],
        r"leaky.py:block sees later tokens: changing these changes logits by 0?\.\d+ of the largest in eval",
    ),
    "a block that changes shape": (["lie", "narrow.py:block"], [], r"narrow.py:block: a layer returns \[.*, 31\] for"),
    "a missing name": (["lie", "mine.py:other"], [], "other"),
    "an encoder": (["lie", "bert.json"], [], "bert"),
    "budgets that fall": (["lie", "macaron"], ["--budgets", "3,1"], "--budgets 3,1"),
    "no time": (["lie", "macaron"], ["--minutes", "0"], "--minutes 0"),
    "a margin of nothing": (["lie", "macaron"], ["--margin", "0"], "--margin 0"),
    "one learning rate": (["lie", "macaron"], ["--tune", "1"], "--tune 1"),
    "seeds beside looks": (["lie", "macaron"], ["--until", "decided", "--seeds", "5"], "leave --seeds out"),
    "a sweep": (["lie", "macaron"], ["--sweep", "train.lr=1e-3,3e-3"], "--tune 3"),
    "schemes, too": (["full"], ["--schemes", "lie", "--null"], "--null"),
    "a model that is too large": (["lie", "macaron"], ["model.width=400000"], "GiB"),
    "a short text": (["lie", "macaron"], ["data.path=short.txt"], "token"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_compared_is_one_line_before_training(
    what: str, own: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    names, more, words = REFUSED[what]
    Path("leaky.py").write_text(FUTURE)
    Path("narrow.py").write_text(NARROW)
    Path("short.txt").write_text("ten bytes\n")
    write_config(Path(), type("Config", (), {"model_type": "bert", "to_dict": lambda _: ENCODER})())
    command = ["compare", "--text", "my.txt", *SIZES, *more, "--arms", ",".join(names), "--out", "out"]
    assert cli.main(command) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1
    assert re.search(words, said[0]), said[0]
    assert not Path("out/runs").exists()


@pytest.mark.usefixtures("inline")
def test_the_run_folder_holds_the_source_of_a_block(own: list[str]) -> None:
    compared(["lie", own[3]], "out", seeds=1)
    [folder] = Path("out/runs").glob("mine*-seed0")
    source = RunDirectory(folder).recipe().source
    assert source is not None
    assert getattr(source, "text", "") == GOOD


@pytest.mark.usefixtures("inline", "own")
def test_from_python_a_comparison_is_one_call() -> None:
    import splitstep as ss

    found = ss.compare(*SIZES, text="my.txt", arms=["lie", "swiglu"], seeds=3, out="out")  # pyright: ignore
    assert isinstance(found, Comparison)
    assert found.verdict is not None
    assert len(found.frame()) == 6
    assert found.plot("Lead over lie").axes
    plan = ss.compare(*SIZES, text="my.txt", arms=["lie", "swiglu"], seeds=3, out="out", plan=True)  # pyright: ignore
    assert [one.name for one in plan.arms] == ["lie", "swiglu"]  # pyright: ignore
