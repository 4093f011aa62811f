"""Own text by subwords: tokens are those of the whole text, splits are all of it, bits are over bytes."""

import json
import math
import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from splitstep import cli
from splitstep.tasks import own_text as module
from splitstep.tasks.corpora import Language
from splitstep.tasks.own_text import TEXT as ROW
from splitstep.tasks.own_text import TextOptions, blocks, encoded, held_out
from splitstep.text.subwords import learn_bpe
from splitstep.text.tokenizers import END

WORDS = ["".join(random.Random(n).choices("abcdefgh", k=1 + n % 6)) for n in range(150)]
CHOSEN = random.Random(0)
TEXT = "".join(
    f"{' '.join(CHOSEN.choices(WORDS, k=CHOSEN.randrange(1, 12)))}{CHOSEN.choice(['.', ' Ünï', ' 漢字', ''])}"
    f"{CHOSEN.choice(['', chr(10), chr(10) * 2, chr(10) + '  '])}\n"
    for _ in range(2500)
)


def task(folder: Path, **more: object) -> Language:
    (folder / "one.txt").write_text(TEXT[:30_000])
    (folder / "two.txt").write_text(TEXT[30_000:])
    paths = (str(folder / "one.txt"), str(folder / "two.txt"))
    options = TextOptions(**{"train": paths, "tokens": "bpe", "vocab_size": 400, "length": 32, **more})  # pyright: ignore
    made = ROW(options)
    return made


@cache
def tokenizer_of_text() -> Any:
    return learn_bpe([TEXT], 300, [END], prefix=False)


@settings(max_examples=60, deadline=None)
@given(st.text(st.sampled_from("ab \n\t.é漢"), max_size=80), st.integers(1, 12))
def test_tokens_of_parts_are_those_of_the_whole_text(text: str, size: int) -> None:
    tokenizer = tokenizer_of_text()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK", size)
        assert "".join(blocks(text)) == text
        assert encoded([text], tokenizer).tolist() == [*tokenizer.encode(text).ids, 0]


@given(st.lists(st.text(st.sampled_from("ab\n"), max_size=60), min_size=1, max_size=4))
def test_splits_are_the_whole_text_in_order(texts: list[str]) -> None:
    found = held_out(texts)
    assert "".join(part for parts in found.values() for part in parts) == "".join(texts)
    total = sum(map(len, texts))
    assert sum(map(len, found["test"])) <= total // 20


def test_bits_are_over_the_bytes_of_the_text(tmp_path: Path) -> None:
    made = task(tmp_path)
    [batch] = made.batches("test", 10_000)
    logits = torch.randn(*batch["input_ids"].shape, 400, generator=torch.Generator().manual_seed(0))
    found = made.summary(made.score(logits, batch))
    cost, size = 0.0, 0
    for row, ids in enumerate(batch["labels"]):
        for place in range(1, len(ids)):
            if (label := int(ids[place])) >= 0:
                cost -= float(logits[row, place - 1].double().log_softmax(-1)[label])
                size += 0 if label == 0 else len(made.vocabulary.tokenizer.id_to_token(label))
    whole = made.decode(np.concatenate([t for t in [made.arrays["test"]]]).tolist()).replace(END, "")
    first = made.vocabulary.byte_counts
    assert size == len(whole.encode()) - first[made.arrays["test"][0]]  # nothing predicts the first token
    assert found["bits_per_byte"] == pytest.approx(cost / math.log(2) / size, rel=1e-5)


def test_files_end_with_a_token_and_the_saved_tokenizer_is_the_task_s(tmp_path: Path) -> None:
    made = task(tmp_path)
    folder = tmp_path / "model"
    folder.mkdir()
    made.save_with(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.eos_token == tokenizer.pad_token == END
    for text in (TEXT[:200], f"a {END} b", "漢字\n\n  é"):
        assert tokenizer(text).input_ids == made.encode(text)
        assert 0 not in made.encode(text)
        assert made.decode(made.encode(text)) == text
    train = made.arrays["train"].tolist()
    assert train.count(0) == 2
    assert made.decode(train[: train.index(0)]) == TEXT[:30_000]


def test_the_second_time_tokens_come_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = task(tmp_path).describe()
    monkeypatch.setattr(module, "make_subwords", None)
    assert task(tmp_path).describe() == first


def test_refusals_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "latin.txt").write_bytes("café".encode("latin1") * 500)
    with pytest.raises(ValueError, match=r"latin.txt, line 1: byte 0xe9 is not UTF-8 .*, or use data.tokens=bytes"):
        ROW(TextOptions(train=(str(tmp_path / "latin.txt"),), tokens="bpe"))
    with pytest.raises(ValueError, match=r"vocab_size is 60000, and the training text has only .* use at most"):
        task(tmp_path, vocab_size=60_000)


@pytest.mark.slow
def test_a_run_learns_writes_and_is_a_student(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task(tmp_path)
    small = ["model.layers=1", "model.width=32", "model.heads=2", "model.ffn=64", "model.dropout=0", "train.steps=60"]
    small += ["train.warmup=5", "train.lr=5e-3", "train.batch=16", "data.length=32"]
    words = ["data.tokens=bpe", "data.vocab_size=400", *small, "--out", str(tmp_path / "run"), "--json"]
    assert cli.main(["train", "text", f"data.path={tmp_path}/one.txt", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["test"]["bits_per_byte"] < 0.9 * math.log2(400) * 0.6  # below a uniform guess, some 1.7 bytes a token
    assert cli.main(["generate", str(tmp_path / "run"), "--prompt", "abc", "--tokens", "8"]) == 0
    assert "abc" in capsys.readouterr().out
    rows = [{"instruction": f"say {n}", "response": WORDS[n]} for n in range(60)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    distil = ["distil", str(tmp_path / "run"), str(tmp_path / "run"), "--text", str(tmp_path / "rows.jsonl")]
    more = ["--method", "ce", "--out", str(tmp_path / "student"), 'data.template="{prompt} "', "train.steps=2"]
    assert cli.main([*distil, *more, "train.warmup=1", "train.batch=4"]) == 0
    card = (tmp_path / "student" / "model" / "README.md").read_text()
    assert 'AutoModelForCausalLM.from_pretrained("path/to/this/folder", trust_remote_code=True)' in card
    assert "if splitstep is installed" in card
    assert "answers follow at once:" in card
