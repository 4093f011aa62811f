"""PEFT: LoRA on all linear layers or on some by name trains, saves, loads and merges."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import EACH, inputs, labels, tiny

from splitstep.models import KINDS

peft = pytest.importorskip("peft", reason="peft is not installed")

TASKS = {"causal": "CAUSAL_LM", "sequence": "SEQ_CLS", "translation": "SEQ_2_SEQ_LM"}


def adapted(model: Any, kind: str, targets: Any) -> Any:
    config = peft.LoraConfig(r=4, target_modules=targets, task_type=TASKS.get(kind), init_lora_weights=False)
    return peft.get_peft_model(model, config)


@pytest.mark.parametrize("targets", ["all-linear", ["qkv", "out", "up", "down"]], ids=["all", "names"])
@pytest.mark.parametrize(("kind", "scheme"), EACH)
def test_lora_trains_and_merges(kind: str, scheme: str, targets: Any, tmp_path: Path) -> None:
    torch.manual_seed(1)
    mild: dict[str, Any] = dict(sharp=False, init_std=0.05, positions="rotary")
    model, given = tiny(kind, scheme, **mild), inputs(kind)
    plain = model(**given).logits
    lora = adapted(model, kind, targets)
    wrapped = {name for name, module in lora.named_modules() if isinstance(module, peft.tuners.lora.Linear)}
    assert any(name.endswith("A.qkv") for name in wrapped)
    lora.train()(**given, labels=labels(kind)).loss.backward()
    trained = {name: p.grad for name, p in lora.named_parameters() if p.requires_grad}
    assert all(grad is not None and grad.isfinite().all() for grad in trained.values())
    assert any("qkv.lora_B" in name and grad.abs().max() > 0 for name, grad in trained.items())
    expected = lora.eval()(**given).logits
    assert not torch.allclose(expected, plain, atol=1e-3)
    lora.save_pretrained(tmp_path)
    again = peft.PeftModel.from_pretrained(tiny(kind, scheme, **mild), tmp_path).eval()
    torch.testing.assert_close(again(**given).logits, expected)
    merged = again.merge_and_unload()
    assert type(merged) is KINDS[kind].model
    torch.testing.assert_close(merged(**given).logits, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("scheme", ["macaron", "strang-midpoint", "reversible"])
def test_an_adapted_model_generates_with_its_cache(scheme: str) -> None:
    lora = adapted(tiny("causal", scheme).double(), "causal", "all-linear").eval()
    how: dict[str, Any] = dict(inputs("causal"), max_new_tokens=5, do_sample=False)
    assert torch.equal(lora.generate(**how), lora.generate(**how, use_cache=False))


def test_a_checkpointed_adapted_model_has_the_same_gradients() -> None:
    lora = adapted(tiny("causal", "macaron"), "causal", "all-linear").train()

    def gradients() -> dict[str, Any]:
        lora.zero_grad()
        lora(**inputs("causal"), labels=labels("causal")).loss.backward()
        return {name: p.grad.clone() for name, p in lora.named_parameters() if p.requires_grad}

    plain = gradients()
    lora.gradient_checkpointing_enable()
    for name, grad in gradients().items():
        torch.testing.assert_close(grad, plain[name])
