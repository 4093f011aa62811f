"""Models after a pass, and records of inspections with figures that are typed in."""

from typing import Any

import torch
import transformers as hf
from pretrained_folders import POSITIONS, WORDS
from torch import Tensor

from splitstep.opening import load
from splitstep.probes.watching import watch_texts
from splitstep.studies.inspect.cuts import Passed, passed
from splitstep.studies.inspect.judge import Judge
from splitstep.studies.inspect.own_probes import Sizes
from splitstep.studies.inspect.result import Along, Inspection, ModelFindings, Series
from splitstep.support.provenance import Provenance, made_by_study

IDS = torch.randint(2, WORDS, (3, 9), generator=torch.Generator().manual_seed(1))


def bart(layers: int = 3) -> Any:
    torch.manual_seed(0)
    return hf.BartForConditionalGeneration(hf.BartConfig(
        vocab_size=WORDS, d_model=16, encoder_layers=layers, decoder_layers=layers, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=24, decoder_ffn_dim=24, max_position_embeddings=POSITIONS,
        init_std=0.3, pad_token_id=0, bos_token_id=1, eos_token_id=1, decoder_start_token_id=1,
    )).eval()  # fmt: skip


def whole(model: Any, given: dict[str, Any] | None = None) -> Passed:
    """A model after a pass."""
    given = {"input_ids": IDS} if given is None else given
    flow = load(model.eval(), {name: x for name, x in given.items() if name != "labels"})
    return passed(flow, Judge.of(flow, given), given)


@torch.no_grad()
def text_losses(model: Any, ids: Tensor = IDS) -> list[float]:
    """By Hugging Face, one text after the other."""
    return [float(model(input_ids=row[None], labels=row[None], use_cache=False).loss) for row in ids]


def findings(layers: int = 4, width: int = 100, **more: Any) -> ModelFindings:
    """What was found in a model: nothing but what is given."""
    empty = dict.fromkeys(("losses", "series", "matrices", "spectra", "paths", "skipped", "missing"), ())
    fixed = {"model": "mine", "scheme": "A F", "stack": "stack", "parameters": 1, "random": False, "notes": ()}
    return ModelFindings(layers=layers, width=width, **{**fixed, **empty, **more})


def inspected(model: ModelFindings, other: ModelFindings | None = None, texts: int = 4) -> Inspection:
    """A result of this model and another one."""
    made: Provenance = made_by_study()
    return Inspection(
        model=model, other=other, seed=None, texts=texts, tokens=12, source="tests", probes=(), differentiated=0,
        listed=tuple(range(model.layers)), made=made,
    )  # fmt: skip


def series(probe: str, name: str, along: Along, rows: Any) -> Series:
    """A series with a row of figures for each text."""
    n = len(rows[0])
    return Series(probe, name, along, tuple(range(n)), tuple(map(float, range(n))), tuple(map(tuple, rows)))


def shares_of(passed: Passed) -> Tensor:
    """The shares of coordinates [texts, 2, L + 1, width] of a batch."""
    probes = {"sizes": {i: Sizes() for i in range(len(passed.inputs["input_ids"]))}}
    [(_, found)] = watch_texts(passed.flow, passed.inputs, probes)
    return torch.stack([torch.as_tensor(one["shares"]) for one in found.values()])
