"""Pipelines of transformers, from folders that runs saved: what they answer is what the model says."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny import TEXT
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerFast, pipeline

import splitstep as ss
from splitstep.text.tokenizers import word_tokenizer
from splitstep.training import read_recipe, train

TINY = {"layers": 1, "width": 8, "heads": 2, "ffn": 8, "init_std": 0.5}
DATA: dict[str, Any] = {
    "stdlib": {"limit": 20_000, "length": 32},
    "listops": {"train": 50, "valid": 20, "test": 20},
    "digits": {},
}
WORDS = ["[PAD]", "<unk>", "[MASK]", "the", "cat", "sat", "on", "mat"]
SPECIAL = {"pad_token": "[PAD]", "mask_token": "[MASK]", "unk_token": "<unk>"}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The model folders of one-step runs, and that of a masked language model, for which there is no task."""
    root = tmp_path_factory.mktemp("runs")
    for name, data in DATA.items():
        document = {"task": name, "data": data, "scheme": "strang-midpoint", "model": TINY}
        train(read_recipe(document | {"train": {"steps": 1, "batch": 4}}, "recipe"), root / name, quiet=True)
    found = {name: root / name / "model" for name in DATA} | {"masked": root / "masked"}
    torch.manual_seed(0)
    config = ss.MaskedConfig(**(TEXT | {"vocab_size": len(WORDS), "pad_token_id": 0, "scheme": "strang-midpoint"}))
    ss.SplitstepForMaskedLM(config).save_pretrained(found["masked"])
    PreTrainedTokenizerFast(tokenizer_object=word_tokenizer(WORDS), **SPECIAL).save_pretrained(found["masked"])
    return found


def test_text_generation_continues_as_generate_does(folders: dict[str, Path]) -> None:
    folder = folders["stdlib"]
    words = pipeline("text-generation", model=str(folder))
    [found] = words("import os", max_new_tokens=8, do_sample=False)
    tokenizer, model = AutoTokenizer.from_pretrained(folder), ss.SplitstepForCausalLM.from_pretrained(folder)
    ids = torch.tensor([tokenizer("import os").input_ids])
    for _ in range(8):
        ids = torch.cat((ids, model(ids, use_cache=False).logits[:, -1:].argmax(-1)), 1)
    assert found["generated_text"] == tokenizer.decode(ids[0])


def test_batches_of_prompts_are_continued_as_one_by_one(folders: dict[str, Path]) -> None:
    prompts = ["import os", "x", "def \0\u00ff(a, b)", "class A:"]  # NUL, and the character of the padding byte
    words = pipeline("text-generation", model=str(folders["stdlib"]))
    how: dict[str, Any] = {"max_new_tokens": 8, "do_sample": False}
    alone = [words(prompt, **how)[0]["generated_text"] for prompt in prompts]
    assert [found["generated_text"] for [found] in words(prompts, batch_size=4, **how)] == alone
    assert all(text.startswith(prompt) for prompt, text in zip(prompts, alone, strict=True))
    tokenizer = AutoTokenizer.from_pretrained(folders["stdlib"])
    batch = tokenizer(prompts, padding=True, return_tensors="pt")
    model = ss.SplitstepForCausalLM.from_pretrained(folders["stdlib"])
    assert tokenizer.batch_decode(model.generate(**batch, **how), skip_special_tokens=True) == alone


def test_text_classification_gives_the_softmax_of_the_head(folders: dict[str, Path]) -> None:
    folder = folders["listops"]
    lines = ["[MAX 2 9 ]", "[MIN 1 [MAX 3 4 ] 7 ]"]
    found = pipeline("text-classification", model=str(folder))(lines, top_k=None)
    tokenizer, model = (kind.from_pretrained(folder) for kind in (AutoTokenizer, ss.SplitstepForSequenceClassification))
    for line, answer in zip(lines, found, strict=True):
        expected = model(torch.tensor([tokenizer(line).input_ids])).logits.softmax(-1)[0]
        assert {row["label"] for row in answer} == set(model.config.id2label.values())
        for row in answer:
            assert row["score"] == pytest.approx(expected[model.config.label2id[row["label"]]].item(), abs=1e-5)


def test_fill_mask_gives_the_words_that_the_model_prefers(folders: dict[str, Path]) -> None:
    found = pipeline("fill-mask", model=str(folders["masked"]))("the [MASK] sat on", top_k=3)
    model = ss.SplitstepForMaskedLM.from_pretrained(folders["masked"])
    expected = model(torch.tensor([[3, 2, 5, 6]])).logits[0, 1].softmax(-1).topk(3)
    assert [row["token"] for row in found] == expected.indices.tolist()
    assert [row["score"] for row in found] == pytest.approx(expected.values.tolist(), abs=1e-5)


def test_image_classification_reads_the_pixels_that_the_task_reads(folders: dict[str, Path]) -> None:
    image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    from splitstep.tasks import task

    made: Any = task("digits", {})
    images, wanted = made.pixels["valid"].images[:3], next(made.batches("valid", 3))["pixel_values"]
    processor = ViTImageProcessorPil.from_pretrained(folders["digits"])  # the other backend needs torchvision
    classify = pipeline("image-classification", model=str(folders["digits"]), image_processor=processor)
    found = classify([image.fromarray(np.uint8(one)) for one in images], top_k=10)
    expected = ss.SplitstepForImageClassification.from_pretrained(folders["digits"])(wanted).logits.softmax(-1)
    for answer, row in zip(found, expected, strict=True):
        scores = {one["label"]: one["score"] for one in answer}
        assert [scores[str(digit)] for digit in range(10)] == pytest.approx(row.tolist(), abs=1e-5)


@pytest.mark.parametrize("name", ["stdlib", "listops", "masked"])
def test_feature_extraction_gives_the_bare_states(name: str, folders: dict[str, Path]) -> None:
    text = {"stdlib": "import os", "listops": "[MAX 2 9 ]", "masked": "the cat sat"}[name]
    found = pipeline("feature-extraction", model=str(folders[name]))(text, return_tensors=True)
    ids = torch.tensor([AutoTokenizer.from_pretrained(folders[name])(text).input_ids])
    torch.testing.assert_close(found, AutoModel.from_pretrained(folders[name])(ids).last_hidden_state)
