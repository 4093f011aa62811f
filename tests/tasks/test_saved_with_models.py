"""A model's folder holds what is needed to use it without its data: tokenizer, pixels, names of classes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from splitstep.models import ImageConfig
from splitstep.tasks import corpora, task
from splitstep.tasks.corpora import Language
from splitstep.tasks.images import DIGITS_STANDARD, MNIST_STANDARD, Standard
from splitstep.tasks.sequences import SequenceTask
from splitstep.training import read_recipe, train

LINES = {"train": "\n = A = \n\n the cat <unk> the\n x<eos> ##y \n", "valid": " the cat \n", "test": " A the \n \n"}
TINY = {"layers": 1, "width": 8, "heads": 2, "ffn": 8}
Saved = tuple[Language, Any]


def tokenizer_of(made: Any, folder: Path) -> Any:
    made.save_with(folder)
    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def by_bytes(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    made = task("stdlib", {"limit": 20_000})
    return made, tokenizer_of(made, tmp_path_factory.mktemp("bytes"))


@pytest.fixture(scope="module")
def by_words(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    root = tmp_path_factory.mktemp("words")
    (root / "wikitext-2").mkdir()
    for split, text in LINES.items():
        (root / "wikitext-2" / f"{split}.txt").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpora, "WORD_COUNTS", {"train": 14, "valid": 3, "test": 4})
        patch.setattr(corpora, "WORD_TYPES", 8)
        made = task("wikitext2", {"length": 3}, root)
    return made, tokenizer_of(made, root)


@given(st.text())
def test_bytes_are_the_task_s(by_bytes: Saved, text: str) -> None:
    made, tokenizer = by_bytes
    assert tokenizer(text).input_ids == made.encode(text) == list(text.encode())
    assert tokenizer.decode(made.encode(text)) == text


def test_padding_stands_before_the_text_and_is_no_text(by_bytes: Saved, by_words: Saved, tmp_path: Path) -> None:
    for number, (made, tokenizer) in enumerate((by_bytes, by_words)):
        lines = ["the cat", "\u00ff\0\u0100 <unk>", "the"]
        tokenizer.save_pretrained(tmp_path / str(number))
        for one in (tokenizer, AutoTokenizer.from_pretrained(tmp_path / str(number))):
            found = one(lines, padding=True)
            assert 0 <= one.pad_token_id < made.shape["vocab_size"]
            for line, ids, mask in zip(lines, found.input_ids, found.attention_mask, strict=True):
                own = made.encode(line)
                assert mask == [0] * (len(ids) - len(own)) + [1] * len(own)
                assert ids[-len(own) :] == own


@given(st.lists(st.sampled_from([0, 10, 97, 0x80, 0xA0, 0xC0, 0xC3, 0xE2, 0x82, 0xED, 0xF0, 0x9F, 0xFF])))
def test_bytes_that_are_no_text_are_decoded_as_the_task_does(by_bytes: Saved, ids: list[int]) -> None:
    made, tokenizer = by_bytes
    assert tokenizer.decode(ids) == made.decode(ids) == bytes(ids).decode(errors="replace")


BY_FREQUENCY = ("<eos>", "=", "the", "##y", "<unk>", "A", "cat", "x<eos>")  # of LINES, equals by spelling
WORDS = st.sampled_from(["the", "cat", "<unk>", "<eos>", "A<unk>b", "dog", "##y", "x<eos>", "="])
BLANKS = st.sampled_from([c for c in map(chr, range(0x3001)) if c.isspace()])


@given(st.one_of(st.text(), st.lists(st.one_of(WORDS, BLANKS)).map("".join)))
def test_words_are_the_task_s(by_words: Saved, text: str) -> None:
    made, tokenizer = by_words
    numbers = {word: number for number, word in enumerate(BY_FREQUENCY)}
    wanted = [numbers.get(word, numbers["<unk>"]) for word in text.split()]
    assert tokenizer(text).input_ids == made.encode(text) == wanted


@given(st.lists(st.integers(0, 7)))
def test_words_are_joined_as_the_task_does(by_words: Saved, ids: list[int]) -> None:
    made, tokenizer = by_words
    wanted = " ".join(BY_FREQUENCY[number] for number in ids).replace("<eos>", "\n")
    assert tokenizer.decode(ids) == made.decode(ids) == wanted


def rows_of(made: SequenceTask, split: str) -> set[tuple[int, ...]]:
    """The sequences of a split without their padding."""
    return {
        tuple(row[mask.bool()].tolist())
        for batch in made.batches(split, 16)
        for row, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)
    }


def test_expressions_are_the_task_s(tmp_path: Path) -> None:
    made = task("listops", {"train": 50, "valid": 20, "test": 20})
    tokenizer = tokenizer_of(made, tmp_path)
    for row in rows_of(made, "test"):
        text = tokenizer.decode(row, skip_special_tokens=True)
        assert text.startswith(("[MIN ", "[MAX ", "[MED ", "[SM "))
        assert tuple(tokenizer(text).input_ids) == row
    padded = tokenizer(["[MAX 2 9 ]", "7"], padding=True)
    assert padded.attention_mask == [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]]
    with pytest.raises(Exception, match="vocabulary"):
        tokenizer("[MEAN 2 9 ]")


@pytest.mark.parametrize("standard", [DIGITS_STANDARD, MNIST_STANDARD])
def test_images_become_the_task_s_pixels(standard: Standard, tmp_path: Path) -> None:
    """By the backend that needs no torchvision; AutoImageProcessor asks for that package."""
    pytest.importorskip("PIL")
    from PIL import Image
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    made = task("digits")
    made.standard = standard
    made.save_with(tmp_path)
    document = json.loads((tmp_path / "preprocessor_config.json").read_text())
    assert document["image_processor_type"] == "ViTImageProcessor"
    processor = ViTImageProcessorPil.from_pretrained(tmp_path)
    images = made.pixels["valid"].images[:50]
    wanted = next(made.batches("valid", 50))["pixel_values"]
    for given_as in ([Image.fromarray(image) for image in images], [image[None] for image in images]):
        found = processor(given_as, return_tensors="pt")["pixel_values"]
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)


def test_a_classifier_knows_the_names_of_its_classes(tmp_path: Path) -> None:
    train(read_recipe({"task": "digits", "model": TINY, "train": {"steps": 1}}, "recipe"), tmp_path / "run", quiet=True)
    config = ImageConfig.from_pretrained(tmp_path / "run" / "model")
    assert config.id2label == {i: str(i) for i in range(10)}
    assert config.label2id == {str(i): i for i in range(10)}
    assert (tmp_path / "run" / "model" / "preprocessor_config.json").is_file()
