"""Ways into an inspection, through the verb: deeper looks, other models beside it, adapters, chats, any texts."""

import html
import json
import re
import warnings
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import Capsys, failure
from pretrained_folders import WORDS, bert, llama, modules, saved, tokenizer
from torch import Tensor, nn

import splitstep as ss
from splitstep.cli import main
from splitstep.kernels.loss import IGNORED
from splitstep.models import CausalConfig
from splitstep.opening import open_model
from splitstep.studies.inspect.plan import DEEP
from splitstep.studies.inspect.sources import example

QUICK = ["--texts", "3", "--tokens", "8", "--probes", "drift,attention"]
TEMPLATE = "{% for one in messages %}the {{ one.role }} sat {{ one.content }}{% endfor %}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("models") / "llama", llama())


def looked(out: Path, *words: Any) -> tuple[dict[str, Any], str]:
    """The result and the page of a command, which ends well."""
    assert main(["inspect", *map(str, words), "--out", str(out)]) == 0
    return json.loads((out / "result.json").read_text()), (out / "report.html").read_text()


def words_of(page: str) -> str:
    """The text of a page."""
    return " ".join(html.unescape(re.sub("<script.*?</script>|<[^>]*>", "", page, flags=re.DOTALL)).split())


def test_deep_adds_to_a_stored_result_what_the_page_has_not_had_before(folder: Path, tmp_path: Path) -> None:
    first, page = looked(tmp_path, folder, *QUICK)
    assert not {one["probe"] for one in first["model"]["series"]} & {*DEEP}
    for part in ("Jacobians", "Depth gradient", "depth gradient", "ommutator", "Communities"):
        assert part not in words_of(page)
    times = {one: one.stat().st_mtime_ns for one in tmp_path.rglob("units/*/*/*")}
    deep, page = looked(tmp_path, folder, *QUICK, "--deep")
    assert {one["probe"] for one in deep["model"]["series"]} >= {*DEEP}
    assert [one for one in deep["model"]["series"] if one["probe"] not in DEEP] == first["model"]["series"]
    for name in ("losses", "skipped", "evidence", "paths", "matrices"):
        assert deep["model"][name] == first["model"][name]
    assert times.items() <= {one: one.stat().st_mtime_ns for one in tmp_path.rglob("units/*/*/*")}.items()
    assert "Training installs a depth gradient: " in words_of(page)
    assert "Eigenvalues of each layer's Jacobian" in words_of(page)
    assert "Largest singular value" in words_of(page)


@pytest.mark.parametrize(
    ("other", "line"),
    [
        (lambda: llama(3), "the models have 4 layers of width 16 and 3 layers of width 16: increments, CKA and layers"),
        (bert, "one of the models predicts neither words nor classes: KL of predictions does not apply"),
    ],
    ids=["shallower", "encoder"],
)
def test_beside_a_model_of_another_shape_a_line_says_what_does_not_apply(
    other: Any, line: str, folder: Path, tmp_path: Path
) -> None:
    found, page = looked(tmp_path / "out", folder, *QUICK, "--against", saved(tmp_path / "other", other()))
    assert line in words_of(page)
    assert found["model"]["evidence"]["swapped"] == []
    assert not [one for one in found["model"]["series"] if one["probe"] == "beside"]


def test_an_adapter_is_inspected_as_the_model_with_its_weights(folder: Path, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft", reason="peft is not installed")
    torch.manual_seed(1)
    config = peft.LoraConfig(r=2, init_lora_weights=False, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    model = peft.get_peft_model(open_model(folder).model, config)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.eval().save_pretrained(tmp_path / "tuned")
    words = [*QUICK, "--text", tmp_path / "texts.txt"]
    (tmp_path / "texts.txt").write_text("the cat sat on the mat\n" * 3)
    found, _ = looked(tmp_path / "out", tmp_path / "tuned", *words, "--against", folder)
    ids = tokenizer()("the cat sat on the mat", return_tensors="pt").input_ids[:, :8]
    with torch.no_grad():
        wanted = float(model(input_ids=ids, labels=ids).loss)
        own = float(open_model(folder).model(input_ids=ids, labels=ids).loss)
    assert abs(wanted - own) > 1e-3
    assert found["model"]["losses"] == pytest.approx([wanted] * 3, rel=1e-5)
    assert found["other"]["losses"] == pytest.approx([own] * 3, rel=1e-5)
    assert len(found["model"]["evidence"]["swapped"]) == 4


def test_a_folder_of_sentence_transformers_is_inspected_as_the_model_inside(tmp_path: Path) -> None:
    saved(tmp_path / "encoder", bert())
    modules(tmp_path / "encoder", ("Transformer", ""), ("Pooling", "1_Pooling"))
    found, page = looked(tmp_path / "out", tmp_path / "encoder", *QUICK)
    assert (found["model"]["scheme"], found["model"]["losses"]) == ("A N F M", [])
    assert len(found["model"]["skipped"]) == 3
    assert "It has no loss here, so costs are shares of its output" in words_of(page)


def test_chat_gives_each_text_as_one_turn(tmp_path: Path, capsys: Capsys) -> None:
    plain = saved(tmp_path / "plain", llama())
    assert "has no chat template: leave out --chat" in failure(capsys, "inspect", plain, "--chat", *QUICK)[-1]
    made = tokenizer()
    made.chat_template = TEMPLATE
    saved(tmp_path / "chats", llama(), False)
    made.save_pretrained(tmp_path / "chats")
    (tmp_path / "texts.txt").write_text("the cat ran\n" * 3)
    words = ["--text", tmp_path / "texts.txt", "--texts", "3", "--tokens", "30", "--probes", "drift", "--chat"]
    found, page = looked(tmp_path / "out", tmp_path / "chats", *words)
    assert found["source"].endswith("texts.txt, as chats")
    assert "".join(found["model"]["paths"][0]["tokens"]) == "the user sat the cat ran"
    assert "as chats" in words_of(page)


def test_texts_come_from_a_folder_or_from_standard_input(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["the cat sat on the mat and ran", "the dog ran over the bridge", "the mat sat on the cat and the dog"]
    (tmp_path / "texts").mkdir()
    for i, text in enumerate(texts):
        (tmp_path / "texts" / f"{i}.txt").write_text(text)
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO("\n".join(texts).encode())))
    shared = ["--texts", "3", "--tokens", "30", "--probes", "drift", "--against", "none"]
    found = [
        looked(tmp_path / f"out{i}", folder, "--text", one, *shared)[0]
        for i, one in enumerate(("-", tmp_path / "texts"))
    ]
    assert found[0]["model"] == found[1]["model"]
    assert ["".join(one["tokens"]) for one in found[0]["model"]["paths"]] == texts


class Mixing(nn.Module):
    """A field that also reads the states of the other texts of its batch."""

    def __init__(self, own: nn.Module) -> None:
        super().__init__()
        self.own = own

    def forward(self, t: Any, x: Tensor, context: Any) -> Tensor:
        return self.own(t, x, context) + x.mean(0, keepdim=True)


def test_texts_that_a_model_would_mix_pass_one_by_one() -> None:
    torch.manual_seed(0)
    shape: Any = {"layers": 3, "width": 16, "heads": 2, "ffn": 32, "vocab_size": WORDS, "max_positions": 32}
    model: Any = ss.SplitstepForCausalLM(CausalConfig(scheme="A F", **shape)).eval()
    fields, made = model.body.stack.layers[1], tokenizer()
    fields["F"] = Mixing(fields["F"])
    texts = ["the cat sat on the mat", "the dog ran on the mat", "the mat ran on the cat"]
    rows = [made(one, return_tensors="pt").input_ids[:, :8] for one in texts]
    assert len({row.shape for row in rows}) == 1  # one batch, if nothing were mixed
    with torch.no_grad():
        alone = [float(model(input_ids=row, labels=row).loss) for row in rows]
        assert not torch.allclose(model(torch.cat(rows)).logits[:1], model(rows[0]).logits, rtol=1e-2)
    found = ss.inspect(model, texts, tokenizer=made, tokens=8, probes=("drift",), against="none")
    assert found.model.losses == pytest.approx(alone, rel=1e-5)


def test_overlapping_windows_are_cut_up_to_their_last_label() -> None:
    """A window has labels only where the one before it ended, so its first columns alone have no loss."""
    labels = torch.tensor([[1, 2, 3, 4, 5, 6, 7, 8], [IGNORED] * 5 + [6, 7, 8], [1, 2, 3] + [IGNORED] * 5])
    batch = {"input_ids": torch.arange(8).repeat(3, 1), "labels": labels}
    found = [example(batch, i, 4) for i in range(3)]
    assert [one["input_ids"].tolist() for one in found] == [[[4, 5, 6, 7]], [[4, 5, 6, 7]], [[0, 1, 2, 3]]]
    assert all((one["labels"] != IGNORED).any() for one in found)
    assert example(batch, 1, 20)["input_ids"].tolist() == [list(range(8))]
    assert example(batch, 1, None).keys() == batch.keys()
