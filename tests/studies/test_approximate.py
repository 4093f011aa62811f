"""The verb `approximate`: what it writes, what it says, and that it reads its own results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import splitstep as ss
from splitstep import cli
from splitstep.studies.approximate import STUDY


def test_the_verb_writes_weights_result_and_page_that_can_be_drawn_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["approximate", "max", "--sweep", "eps=0.2,0.1", "--train-steps", "5", "--out", str(tmp_path)]
    assert cli.main(words) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Certified: the error is at most")
    document = json.loads((tmp_path / "result.json").read_text())
    assert [row["eps"] for row in document["rows"]] == [0.2, 0.1]
    assert all(row["error"] <= row["eps"] for row in document["rows"])
    assert STUDY.read(document, "there").document() == document
    model = ss.SplitstepVectorsModel.from_pretrained(tmp_path / "model")
    assert model.config.ffn == document["rows"][-1]["units"] == 2
    page = (tmp_path / "report.html").read_text()
    assert cli.main(["report", str(tmp_path)]) == 0
    assert capsys.readouterr().out == printed
    assert (tmp_path / "report.html").read_text() == page


def test_a_typed_function_is_run_on_one_sequence_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    typed = "lambda x: x[::-1]"
    assert cli.main(["approximate", typed, "--eps", "0.1", "--lipschitz", "1", "--train-steps", "0", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["rows"][0]["met"]
    assert document["target"] == typed


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["max", "--eps", "0"], "eps=0 must be a positive number."),
        (["maxx"], "Did you mean max?"),
        (["max", "--sweep", "beta=1"], "give several eps"),
        (["lambda x: x.sum()"], "returns shape"),
        (["max", "--tokens", "9"], "needs at least"),
        (["sort", "--no-positions"], "is not equivariant"),
        (["max", "--lipschitz", "0.5"], "is contradicted"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["approximate", *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    assert says in printed.err
