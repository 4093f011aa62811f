"""Tokenizers of different kinds, learnt here from a few lines in many scripts, and text to align."""

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import ByT5Tokenizer, PreTrainedTokenizerFast

from splitstep.text.subwords import learn_bpe, learn_wordpiece
from splitstep.text.tokenizers import byte_tokenizer, mark_sentences, word_tokenizer

LINES = [
    "The quick brown fox jumps over the lazy dog, doesn't it? 3.14 and 1,000!",
    "Der schnelle braune Fuchs läuft über die Straße.",
    "Съешь ещё этих мягких французских булок",
    "أهلا وسهلا بكم في العالم",
    "नमस्ते दुनिया, आप कैसे हैं",
    "你好世界。今日はいい天気",
    "안녕하세요 세계",
    "שלום עולם",
    "สวัสดีชาวโลก",
    "cafe\u0301 naïve ﬁne ½ Å",
    "👩‍👩‍👧‍👦 and 🇩🇪 👍🏽",
]
BYTES = [f"<0x{number:02X}>" for number in range(256)]


def trained(tokenizer: Any, trainer: Any) -> Any:
    tokenizer.train_from_iterator(LINES * 3, trainer)
    return tokenizer


def byte_bpe(prefix: bool, normalizer: Any, trim: bool) -> Any:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=trim)
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<|endoftext|>"]
    return trained(
        tokenizer,
        trainers.BpeTrainer(vocab_size=420, special_tokens=special, initial_alphabet=alphabet, show_progress=False),
    )


def wordpiece() -> Any:
    tokenizer = learn_wordpiece(LINES * 3, 200)
    mark_sentences(tokenizer, {name: tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]")}, 10**9)
    tokenizer.no_truncation()
    return tokenizer


def unigram(normalizer: Any) -> Any:
    """As SentencePiece makes it: metaspace, byte fallback."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    special = ["<unk>", "<s>", *BYTES]
    trainer = trainers.UnigramTrainer(vocab_size=330, special_tokens=special, unk_token="<unk>", show_progress=False)
    written = json.loads(trained(tokenizer, trainer).to_str())
    written["model"]["byte_fallback"] = True
    written["added_tokens"] = written["added_tokens"][:2]  # the bytes are pieces
    known = Tokenizer.from_str(json.dumps(written))
    known.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return known


def llama() -> Any:
    """A BPE with byte fallback that prepends ▁ and has it for blanks, without a pre-tokenizer."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    blank = decoders.Replace("▁", " ")
    tokenizer.decoder = decoders.Sequence([blank, decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    special = ["<unk>", "<s>", *BYTES]
    trained(tokenizer, trainers.BpeTrainer(vocab_size=420, special_tokens=special, show_progress=False))
    written = json.loads(tokenizer.to_str())
    written["added_tokens"] = written["added_tokens"][:2]
    return Tokenizer.from_str(json.dumps(written))


def word_level(words: Sequence[str], cut: Any = None) -> Any:
    """A tokenizer of these words, the first of which stands for all others."""
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token=words[0]))
    tokenizer.pre_tokenizer = cut or pre_tokenizers.Whitespace()
    return tokenizer


def characters() -> Any:
    known = sorted({character for line in LINES for character in line})
    return word_level(["<unk>", *known], pre_tokenizers.Split("", "isolated"))


def hugging_face(tokenizer: Any) -> Any:
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", padding_side="left")


KINDS: dict[str, Callable[[], Any]] = {
    "byte BPE": lambda: byte_bpe(False, None, False),
    "byte BPE, trimmed, NFKC": lambda: byte_bpe(True, normalizers.NFKC(), True),
    "byte BPE, ours": lambda: learn_bpe(LINES * 3, 400),
    "WordPiece, lower case": lambda: hugging_face(wordpiece()),
    "Unigram": lambda: unigram(None),
    "Unigram, NFKC": lambda: hugging_face(unigram(normalizers.NFKC())),
    "Unigram, lower case, no accents": lambda: unigram(
        normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()])
    ),
    "Llama": llama,
    "characters": characters,
    "bytes, ours": byte_tokenizer,
    "words, ours": lambda: word_tokenizer(["<unk>", *sorted({word for line in LINES for word in line.split()})]),
    "slow, bytes": ByT5Tokenizer,
}
EXACT = ("byte BPE", "byte BPE, ours", "Unigram", "Llama", "bytes, ours", "slow, bytes")  # they change no character


@cache
def tokenizer(kind: str) -> Any:
    return KINDS[kind]()


ODD = [
    "▁", "<0x41>", "<s>", "<unk>", "[UNK]", "İ", "ß", "ﬃ", "㍿", "e\u0301\u0323", "\u1100\u1161\u11a8", "각", "\u200b"
]  # fmt: skip
BLANKS = [" ", "  ", "\n", "\t", "\u00a0", "\u3000", "\r\n"]
EMOJI = ["👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪🇫🇷", "👍🏽", "❤️", "1️⃣"]
WORDS = sorted({word for line in LINES for word in line.split()})


def texts(most: int = 12) -> st.SearchStrategy[str]:
    """Text in ten scripts with emoji, marks, blanks of all kinds, and whatever else has UTF-8 bytes."""
    anything = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
    part = st.one_of(st.sampled_from(WORDS), st.sampled_from(BLANKS), st.sampled_from([*EMOJI, *ODD]), anything)
    return st.lists(part, max_size=most).map("".join)
