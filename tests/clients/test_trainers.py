"""Trainer and Seq2SeqTrainer of transformers: they train, resume to the same weights, and checkpoint gradients."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import VOCAB, inputs, labels, tiny
from torch.utils.data import Dataset
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, Trainer, TrainingArguments

from splitstep.models import KINDS

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
OFTEN = ("causal", "translation", "image")
RESUMED = [pytest.param(kind, marks=() if kind in OFTEN else pytest.mark.nightly) for kind in KINDS]
SILENT: dict[str, Any] = dict(report_to="none", disable_tqdm=True, logging_strategy="no", use_cpu=True)


class Rows(Dataset):
    """Twelve examples: the batch of three, four times, with other labels each time."""

    def __init__(self, kind: str) -> None:
        given = inputs(kind) | {"labels": labels(kind)}
        if kind == "translation":
            given.pop("decoder_input_ids")
        self.rows = [{name: x[i] for name, x in given.items()} for i in range(3)]
        self.many = 3 if kind in ("sequence", "image") else VOCAB

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = self.rows[index % 3]
        return row | {"labels": (row["labels"] + index) % self.many}


def trained(kind: str, folder: Path, resume: bool = False, **more: Any) -> Any:
    options = SILENT | dict(
        output_dir=str(folder), max_steps=6, save_steps=3, per_device_train_batch_size=2, seed=3, learning_rate=1e-2,
    ) | more  # fmt: skip
    seq2seq = kind == "translation"
    arguments = (Seq2SeqTrainingArguments if seq2seq else TrainingArguments)(**options)
    model = tiny(kind, "macaron", sharp=False, dropout=0.1)
    trainer = (Seq2SeqTrainer if seq2seq else Trainer)(
        model, arguments, train_dataset=Rows(kind), eval_dataset=Rows(kind)
    )
    trainer.train(resume_from_checkpoint=str(folder / "checkpoint-3") if resume else None)
    return trainer


def assert_same(one: Any, other: Any) -> None:
    for name, weight in one.state_dict().items():
        assert torch.equal(weight, other.state_dict()[name]), name


@pytest.mark.parametrize("kind", RESUMED)
def test_a_resumed_trainer_ends_with_the_same_weights(kind: str, tmp_path: Path) -> None:
    whole = trained(kind, tmp_path)
    moved = {name: w.clone() for name, w in whole.model.state_dict().items()}
    assert not all(torch.equal(w, tiny(kind, "macaron", sharp=False).state_dict()[n]) for n, w in moved.items())
    assert_same(trained(kind, tmp_path, resume=True).model, whole.model)
    again = KINDS[kind].auto.from_pretrained(tmp_path / "checkpoint-6")
    assert_same(again, whole.model)
    assert whole.evaluate()["eval_loss"] > 0


def test_a_seq2seq_trainer_writes_with_generate(tmp_path: Path) -> None:
    trainer = trained("translation", tmp_path, predict_with_generate=True, generation_max_length=6)
    found = trainer.predict(Rows("translation"))
    assert found.predictions.shape[0] == 12
    given = {name: x for name, x in inputs("translation").items() if name != "decoder_input_ids"}
    with torch.no_grad():
        expected = trainer.model.generate(**given, max_length=6)
    assert (found.predictions[:3, : expected.shape[1]] == expected.numpy()).all()


@pytest.mark.parametrize("kind", ["causal", pytest.param("translation", marks=pytest.mark.nightly)])
def test_the_flag_for_gradient_checkpointing_changes_no_weight(kind: str, tmp_path: Path) -> None:
    plain = trained(kind, tmp_path / "plain", save_strategy="no").model
    found = trained(kind, tmp_path / "less", save_strategy="no", gradient_checkpointing=True).model
    assert found.is_gradient_checkpointing
    for name, weight in plain.state_dict().items():
        torch.testing.assert_close(found.state_dict()[name], weight, atol=1e-6, rtol=1e-5)
