"""What any causal model costs: its parameters, and the forward operations that PyTorch counts in a pass.

The pass runs on fake tensors, which have shapes and no memory, with attention written out: the fused kernel of a CPU
counts as nothing. So do scans and kernels that PyTorch does not know: the speed of a run shows those.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode
from transformers import PreTrainedModel

from ..fields import exact_attention
from .cost import Cost

Make = Callable[[], Any]  # makes a causal model


def counted(make: Make, length: int) -> Cost:
    """What the model costs at `length` tokens. A model that does not run on fake tensors is made for it."""
    try:
        with quiet():
            return counted_in(FakeTensorMode, make, length)
    except ValueError:
        raise  # a config or a block that is refused
    except Exception:  # such as a look at a number of a tensor, of which there are many
        return counted_in(nullcontext, make, length)


@contextmanager
def quiet() -> Iterator[None]:
    """Without what PyTorch logs if an operation has no fake version."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    level, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = level


@torch.no_grad()
def counted_in(place: Callable[[], Any], make: Make, length: int) -> Cost:
    """As `counted`, where tensors are made as this place makes them."""
    with place(), torch.random.fork_rng(devices=[]):
        model = make().eval()
        if isinstance(model, PreTrainedModel) and model._can_set_experts_implementation():
            model.set_experts_implementation("batched_mm")  # the others read numbers, or count as nothing
        counter = FlopCounterMode(display=False)
        with exact_attention(), counter:
            model(input_ids=torch.zeros(1, length, dtype=torch.long), use_cache=False)
    whole = sum(p.numel() for p in model.parameters())
    return Cost(whole, whole - around(model), round(counter.get_total_flops() / length), length)


def around(model: Any) -> int:
    """The parameters outside of the layers: of embeddings and the head."""
    tables = [one.weight for one in model.modules() if isinstance(one, nn.Embedding)]
    head = model.get_output_embeddings()
    outside = [*tables, *([] if head is None else head.parameters())]
    return sum(p.numel() for p in {id(p): p for p in outside}.values())
