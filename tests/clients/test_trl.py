"""TRL's SFTTrainer fine-tunes a saved model, alone and with LoRA."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import byte_tokenizer_with_padding, tiny

trl = pytest.importorskip("trl", reason="trl is not installed")
datasets = pytest.importorskip("datasets", reason="datasets is not installed")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
LINES = ["one two three", "two three four five", "three four", "four five six seven eight"] * 2


@pytest.mark.parametrize(("adapter", "packing"), [(False, False), (True, False), (False, True)])
def test_a_few_steps_lower_the_loss(adapter: bool, packing: bool, tmp_path: Path) -> None:
    how: dict[str, Any] = dict(
        output_dir=str(tmp_path), max_steps=8, per_device_train_batch_size=4, learning_rate=2e-2, report_to="none",
        disable_tqdm=True, use_cpu=True, logging_steps=1, max_length=24, packing=packing,
        save_strategy="no", bf16=False,
    )  # fmt: skip
    model = tiny("causal", "macaron", sharp=False, vocab_size=256, positions="rotary", tie_word_embeddings=True)
    more: dict[str, Any] = {}
    if adapter:
        peft = pytest.importorskip("peft", reason="peft is not installed")
        more["peft_config"] = peft.LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
    trainer = trl.SFTTrainer(
        model, trl.SFTConfig(**how), train_dataset=datasets.Dataset.from_dict({"text": LINES}),
        processing_class=byte_tokenizer_with_padding(), **more,
    )  # fmt: skip
    trainer.train()
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    assert len(losses) == 8
    assert losses[-1] < losses[0]
    assert all(torch.isfinite(p).all() for p in trainer.model.parameters())
