"""A model of transformers does not wait for a number while it believes that it is being captured."""

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoConfig, AutoModelForCausalLM

from splitstep.training.update import pretended_capture

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 50, "pad_token_id": 0}


class Waits(TorchDispatchMode):
    """Counts numbers that Python reads from tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func._schema.name == "aten::_local_scalar_dense"
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", ["llama", "gpt2", "gpt_neox"])
def test_models_of_transformers_wait_unless_they_are_captured(name: str) -> None:
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(name, **SIZES)).train()
    ids, mask = torch.randint(1, 50, (3, 12)), torch.ones(3, 12, dtype=torch.long)
    mask[1, 8:] = 0
    asked, found = torch.cuda.is_current_stream_capturing, []
    for context in (nullcontext(), pretended_capture()):
        with context, Waits() as waits:
            model(input_ids=ids, attention_mask=mask, use_cache=False).logits.mean().backward()
        found.append(waits.count)
    assert found[0] > 0 == found[1]
    assert torch.cuda.is_current_stream_capturing is asked
