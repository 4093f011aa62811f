"""Letters of one's own, from a file or from Python: they train, are recorded, and reach workers."""

import inspect
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import call, refusal
from inline import here
from jobs import title_of

import splitstep as ss
from splitstep import jobs as engines
from splitstep import own_letters
from splitstep.cli.verbs import VERBS
from splitstep.experiments import running
from splitstep.letters import LETTERS
from splitstep.own_letters import Source, portable_sources, read_letters

MY = Path(__file__).parents[1] / "helpers" / "my_letter.py"
FILE = MY.read_text()
TINY = ["model.layers=1", "model.width=16", "model.heads=2", "model.ffn=16", "match=none", "train.batch=8"]
SHORT = [*TINY, "train.steps=2", "train.warmup=1"]


def without_letters(patch: pytest.MonkeyPatch) -> None:
    """As in a process that was given none."""
    patch.setattr(LETTERS, "given", {})
    patch.setattr(own_letters, "SOURCES", {})


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    without_letters(monkeypatch)


@pytest.fixture
def my(tmp_path: Path) -> Path:
    """A file that defines the letter G."""
    file = tmp_path / "my.py"
    file.write_text(FILE)
    return file


@pytest.fixture
def defined(my: Path) -> None:
    """The letter G, of this process."""
    read_letters([my])


def test_a_run_keeps_the_hash_of_its_letters_and_opens_with_the_same_file_only(
    tmp_path: Path, my: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, entry = tmp_path / "run", {"G": {"file": "my.py", "sha256": sha256(FILE.encode()).hexdigest()}}
    words = ["train", "digits", "scheme=A F G", *SHORT, "--out", run]
    assert call(capsys, *words, "--letters", my)["scheme"]["notation"] == "A F G"
    assert yaml.safe_load((run / "recipe.yaml").read_text())["sources"] == entry
    assert json.loads((run / "model" / "config.json").read_text())["sources"] == entry
    expected = call(capsys, "evaluate", run, "--letters", my)
    without_letters(monkeypatch)
    for again in (["evaluate", run], ["inspect", run / "model", "--out", tmp_path / "look"], words):
        line = refusal(capsys, *again)
        assert "by itself, and --letters FILE your own" in line if again is words else (
            f"letter G was defined in my.py (sha256 {entry['G']['sha256'][:12]}): add --letters my.py" in line
        )  # fmt: skip
    other = tmp_path / "other" / "my.py"
    other.parent.mkdir()
    other.write_text(FILE.replace("-nn", "+nn"))
    line = refusal(capsys, "evaluate", run, "--letters", other)
    assert f"and here in my.py (sha256 {sha256(other.read_bytes()).hexdigest()[:12]})" in line
    assert "use the file as it was" in refusal(capsys, *words, "--letters", other)
    without_letters(monkeypatch)
    assert call(capsys, "evaluate", run, "--letters", my) == expected


def test_every_verb_that_builds_a_network_takes_letters(capsys: Any, my: Path) -> None:
    rows = call(capsys, "schemes", "A F G", "--letters", my)["rows"]
    assert [(row["notation"], row["order"]) for row in rows] == [("A F G", 1)]
    taking = {name for name, verb in VERBS.items() if "letters" in inspect.signature(verb.function).parameters}
    assert VERBS.keys() - taking == {"recipes", "tasks", "arms", "report", "approximate", "doctor"}


@pytest.mark.slow
def test_letters_reach_worker_processes(defined: None) -> None:
    """A fresh interpreter, which has imported nothing of this one."""
    workers: Any = engines.Processes(1)
    try:
        found = workers.submit(running.in_worker, 1, 0.0, portable_sources(), title_of, "G").result()
    finally:
        workers.shutdown(wait=False)
    assert found == "damping"


def test_a_comparison_has_the_letters_of_python(tmp_path: Path, my: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine is a thread of this process; it is given what others would be."""
    monkeypatch.setattr(running, "open_engine", here)
    found = ss.compare("digits", *SHORT, schemes=("lie", "A F G"), seeds=1, letters=str(my), out=tmp_path / "both")
    assert [row.scheme for row in found.rows] == ["A F", "A F G"]
    [config] = tmp_path.glob("both/runs/A_F_G-*/model/config.json")
    assert json.loads(config.read_text())["sources"].keys() == {"G"}
    assert "#3a7d44" in (tmp_path / "both" / "report.html").read_text()


def test_a_letter_of_a_session_trains_here_and_is_refused_for_workers(tmp_path: Path) -> None:
    exec(FILE, {"__name__": "__main__"})
    run = ss.train("digits", "scheme=A F G", *SHORT, out=tmp_path / "run")
    assert run.result.status == "finished"
    with pytest.raises(ValueError, match=r"letter G is defined in .*workers? processes cannot run: move it to a file"):
        ss.compare("digits", *SHORT, schemes=("lie", "A F G"), seeds=1, out=tmp_path / "both")
    assert not (tmp_path / "both").exists()


def test_a_twin_and_another_scheme_keep_the_sources_that_they_need(defined: None) -> None:
    reference = ss.CausalConfig(layers=4, width=64, heads=4, ffn=512)
    other = ss.twin(reference, "A F G")
    assert other.sources == {"G": own_letters.SOURCES["G"].entry}
    assert ss.twin(other, "lie").sources is None
    assert type(other)(**{**other.to_dict(), "scheme": "A F"}).sources is None


OPTIONS = """
from __future__ import annotations
from dataclasses import dataclass

@dataclass(frozen=True)
class Rate:
    rate: float = 1.0

"""


def test_options_of_a_file_are_checked_and_kept(
    my: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    my.write_text(OPTIONS + FILE.replace("backwards=False", "backwards=False, options=Rate"))
    words = ["train", "digits", "scheme=A F G", *SHORT, "--letters", my]
    assert 'has no option "rat"; did you mean "rate"?' in refusal(capsys, *words, "model.letters.G.rat=2")
    call(capsys, *words, "model.letters.G.rate=2", "--out", tmp_path / "run")
    model = tmp_path / "run" / "model"
    assert json.loads((model / "config.json").read_text())["letters"]["G"] == {"rate": 2.0}
    assert ss.load(model).model.config.options_of("G").rate == 2
    without_letters(monkeypatch)
    with pytest.raises(ValueError, match=r"letter G was defined in my.py .*: add --letters my.py"):
        ss.load(model)


def test_a_run_starts_from_weights_with_letters(my: Path, tmp_path: Path, capsys: Any) -> None:
    words = ["train", "digits", *SHORT, "--letters", my]
    call(capsys, *words, "scheme=A F G", "--out", tmp_path / "one")
    call(capsys, *words, "scheme=A F G", f"start={tmp_path}/one", "--out", tmp_path / "two")
    line = refusal(capsys, *words, "scheme=A F", f"start={tmp_path}/one", "--out", tmp_path / "three")
    assert "sources" not in line


def test_the_last_definition_of_a_letter_counts(my: Path, defined: None) -> None:
    before, loaded = LETTERS["G"], own_letters.SOURCES["G"]
    read_letters([my])
    assert LETTERS["G"] is before  # the file was run already
    own_letters.receive([Source("my.py", FILE.replace("damping", "braking"), True)])
    assert LETTERS["G"].title == "braking"
    own_letters.receive([loaded])  # as a cluster's worker does, for the study of another person
    assert LETTERS["G"].title == "damping"


WRONG = {
    "": "defines no letter",
    "import splitstep as ss\nss.lettr": "AttributeError in line 2",
    "x = (": "SyntaxError in line 1",
    "raise SystemExit": "SystemExit in line 1",
    FILE.replace('"G"', '"A"'): "The letter A belongs to splitstep: use another one, such as G",
    FILE.replace('"G"', '"N"'): "other than N, M and P",
    FILE.replace('"G"', '"GH"'): "A letter is a capital",
    FILE.replace("backwards=", "backward="): "did you mean",
    FILE.replace("class Damping", "class Damping(").replace("(nn.Module)", ""): "SyntaxError",
    "\0": "--letters",
}


@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_a_wrong_file_is_one_line(text: str, my: Path, capsys: Any) -> None:
    my.write_text(text)
    line = refusal(capsys, "schemes", "A F G", "--letters", my)
    assert str(my) in line
    assert WRONG[text] in line
    assert not LETTERS.given
    assert not own_letters.SOURCES


def test_files_that_cannot_be_read_and_two_of_one_letter_are_one_line(my: Path, tmp_path: Path, capsys: Any) -> None:
    assert "cannot be read" in refusal(capsys, "schemes", "A F", "--letters", tmp_path / "none.py")
    assert "cannot be read" in refusal(capsys, "schemes", "A F", "--letters", tmp_path)
    (tmp_path / "latin.py").write_bytes(b"# caf\xe9")
    assert "cannot be read" in refusal(capsys, "schemes", "A F", "--letters", tmp_path / "latin.py")
    (tmp_path / "two.py").write_text(f"{FILE}\n")
    line = refusal(capsys, "schemes", "A F", "--letters", f"{my},{tmp_path}/two.py")
    assert "The letter G is of my.py already" in line
