"""Next-sentence prediction: pairs of texts are what they say, every token is used, and the model learns from them."""

import random
from collections.abc import Iterator
from io import BytesIO
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up_words import WORDS

from splitstep.models import MaskedConfig, SplitstepForMaskedLM
from splitstep.tasks import task
from splitstep.tasks.masked.mlm import Mlm
from splitstep.tasks.masked.packing import (
    APART,
    NEXT,
    OTHER,
    Packer,
    PairPacker,
    SentenceFile,
    Sentences,
    piece_numbers,
    read_pairs,
    sentences_of,
)
from splitstep.tasks.task import IGNORED
from splitstep.text import splits
from splitstep.text.subwords import CLS, MASK, PAD, SEP
from splitstep.training.evaluate import evaluate
from splitstep.training.objective import task_loss

SMALL: dict[str, Any] = {"vocab_size": 400, "length": 48, "next_sentence": True}


def documents(count: int, most: int = 9) -> list[str]:
    """Documents of 1 to `most` made-up sentences."""
    chosen = random.Random(1)
    sentence = lambda: " ".join(chosen.choices(WORDS, k=chosen.randint(2, 12))) + "."  # noqa: E731
    return [" ".join(sentence() for _ in range(chosen.randint(1, most))) for _ in range(count)]


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file whose 600 lines are documents."""
    file = tmp_path_factory.mktemp("text") / "lines.txt"
    file.write_text("\n".join(documents(600)))
    return file


def made_of(lines: Path, **options: Any) -> Any:
    return task("mlm", {**SMALL, "train": str(lines), "documents": "line", **options})


@pytest.fixture(scope="module")
def made(lines: Path) -> Mlm:
    return made_of(lines)


# Sentences


@given(st.text("ab.!?\"') \n\u3002", max_size=60))
@settings(max_examples=100)
def test_sentences_make_up_the_text(text: str) -> None:
    found = sentences_of(text)
    assert "".join(found) == text
    assert all(found) or not text


def test_sentences_end_where_the_rule_says() -> None:
    text = 'One, 3.5 of it. "Two?" he said!) Three\n\n\nFour\nfive... six\u3002seven.'
    wanted = ["One, 3.5 of it.", ' "Two?"', " he said!)", " Three", "\n\n\nFour\nfive...", " six\u3002", "seven."]
    assert sentences_of(text) == wanted


@pytest.mark.parametrize("subwords", ["wordpiece", "bpe"])
def test_sentences_apart_have_the_tokens_of_the_whole(subwords: str, lines: Path) -> None:
    tokenizer = made_of(lines, subwords=subwords).tokenizer
    for text in (lines.read_text()[:5000], 'a "b?" c.\n\n\n d e!  f. \n'):
        apart = [tokenizer.encode(one, add_special_tokens=False).ids for one in sentences_of(text)]
        assert list(chain(*apart)) == tokenizer.encode(text, add_special_tokens=False).ids


# Packing

FIRST = 10  # the tokens of these documents are numbers, each its own


def shelf(folder: Path, texts: list[list[int]], sources: list[int]) -> Sentences:
    """Documents of sentences with so many tokens each, cut from these sources."""
    count = FIRST
    with (folder / "tokens").open("wb") as opened:
        file = SentenceFile(opened, np.dtype(np.uint32))
        for sizes, source in zip(texts, sources, strict=True):
            parts = [np.arange(first, first + size, dtype=np.uint32) for first, size in
                     zip(count + np.cumsum([0, *sizes[:-1]]), sizes, strict=True)]  # fmt: skip
            file.add(True, source, parts)
            count += sum(sizes)
    return file.read()


def pack(texts: Sentences, length: int, inside: np.ndarray) -> np.ndarray:
    file = BytesIO()
    packer = Packer(file, length, np.dtype(np.uint32))
    pairs = PairPacker(texts, packer, inside, np.random.default_rng(0))
    assert pairs.possible
    for document in range(len(texts.sources)):
        pairs.add(document)
    packer.finish()
    rows = np.frombuffer(file.getvalue(), np.uint32).reshape(-1, length)
    assert (packer.rows, (rows == APART).sum() <= packer.pairs) == (len(rows), True)
    assert packer.most >= (read_pairs(rows, length).labels != IGNORED).sum(1).max(initial=0)
    return rows


def pieces(rows: np.ndarray) -> Iterator[tuple[list[int], list[int], int]]:
    """A, B and the label of each piece, token by token; one without B has no label."""
    for row in rows.tolist():
        begins = [i for i, x in enumerate(row) if x == CLS]
        for one, two in zip(begins, [*begins[1:], len(row)], strict=True):
            ids = [x for x in row[one + 1 : two] if x != PAD]
            assert ids.pop() == SEP
            middle = [i for i, x in enumerate(ids) if x in (SEP, APART)]
            assert len(middle) <= 1
            if middle:
                yield ids[: middle[0]], ids[middle[0] + 1 :], OTHER if ids[middle[0]] == APART else NEXT
            else:
                yield ids, [], IGNORED


@given(st.lists(st.lists(st.integers(1, 12), min_size=1, max_size=8), min_size=2, max_size=15), st.integers(8, 40))
@settings(max_examples=60, deadline=None)
def test_pairs_are_consecutive_or_of_two_documents_and_every_token_is_used(sizes: list[list[int]], length: int) -> None:
    from tempfile import TemporaryDirectory

    sizes = [*sizes, [3, 4], [5, 2]]  # so there are always two documents with pairs
    sources = [n // 2 + 1 if n < len(sizes) - 2 else n + 1 for n in range(len(sizes))]  # two stretches of each
    total = sum(map(sum, sizes))
    source_of = np.repeat(sources, [sum(one) for one in sizes])
    document_of = np.repeat(np.arange(len(sizes)), [sum(one) for one in sizes])
    flat = np.cumsum([0] + [n for one in sizes for n in one])
    heads = set(np.cumsum([0] + [sum(one) for one in sizes]).tolist())
    further = set(flat.tolist()) - heads  # sentences but the first of each document
    inside = np.arange(FIRST + total) % 3 == 1
    with TemporaryDirectory() as folder:
        rows = pack(shelf(Path(folder), sizes, sources), length, inside)
    used: list[int] = []
    for a, b, label in pieces(rows):
        one, two = np.array(a) - FIRST, np.array(b) - FIRST
        used += one.tolist() + (two.tolist() if label == NEXT else [])
        assert (np.diff(one) == 1).all()
        assert len(set(document_of[one])) == 1
        if not b:
            continue
        assert (np.diff(two) == 1).all()
        assert len(set(document_of[two])) == 1
        starts_sentence = one[-1] + 1 in further
        if label == NEXT:
            assert two[0] == one[-1] + 1
            assert document_of[one[0]] == document_of[two[0]]
        else:
            assert source_of[one[0]] != source_of[two[0]]
            assert two[0] not in heads
            if starts_sentence:
                assert two[0] in further
        assert starts_sentence or not inside[FIRST + one[-1] + 1]  # else it is cut between words
    assert used == list(range(len(used)))
    assert total - len(used) < length  # but the end, which does not fill a row
    assert (rows == PAD).sum(1).max(initial=0) <= 2


def test_half_of_the_pairs_follow_each_other(made: Mlm, lines: Path) -> None:
    labels = read_pairs(made.prepared.rows["train"], made.prepared.most_pairs).labels
    labels = labels[labels != IGNORED]
    n = len(labels)
    assert n > 400
    assert labels.mean() == pytest.approx(0.5, abs=4 * 0.5 / n**0.5)
    assert n == pytest.approx(made.describe()["splits"]["train"]["pairs"], abs=made.prepared.most_pairs)


def test_pairs_are_of_one_split(made: Mlm, lines: Path) -> None:
    """Both texts are found in documents of their own split: in one if they follow each other, else in two."""
    encode = made.tokenizer.encode
    texts: dict[str, list[str]] = {name: [] for name in made.splits}
    for line in lines.read_text().split("\n"):
        ids = encode(line, add_special_tokens=False).ids
        texts[splits.split_of(line)].append(f" {' '.join(map(str, ids))} ")
    for name, own in texts.items():
        found = [one for one in pieces(made.prepared.rows[name]) if one[1]]
        assert len(found) > 10
        for a, b, label in found[:100]:
            one, two, both = (f" {' '.join(map(str, ids))} " for ids in (a, b, a + b))
            if label == NEXT:
                assert any(both in text for text in own)
            else:
                first, second = ({n for n, text in enumerate(own) if ids in text} for ids in (one, two))
                assert first
                assert second
                assert len(first | second) > 1


def test_rows_say_what_a_batch_holds() -> None:
    row = [CLS, 7, SEP, 8, 9, SEP, CLS, 6, SEP, CLS, 5, 5, APART, 6, SEP, PAD]
    rows, types, positions, labels = read_pairs(np.array([row, [CLS, *range(5, 19), SEP]]), 3)
    assert rows[0].tolist() == [SEP if x == APART else x for x in row]
    assert types.tolist() == [[0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0], [0] * 16]
    assert positions.tolist() == [[0, 9, 0], [0, 0, 0]]
    assert labels.tolist() == [[NEXT, OTHER, IGNORED], [IGNORED] * 3]


def test_lines_of_one_sentence_get_no_pairs(tmp_path: Path) -> None:
    """Their rows are those without the option."""
    (tmp_path / "lines.txt").write_text("\n".join(documents(500, most=1)))
    paired, plain = (made_of(tmp_path / "lines.txt", next_sentence=choice) for choice in (True, False))
    for name in paired.splits:
        assert np.array_equal(paired.prepared.rows[name], plain.prepared.rows[name])
    batch = paired.batch(0, 0, 8)
    assert (batch["next_sentence_targets"] == IGNORED).all()
    assert not batch["token_type_ids"].any()
    model = model_of(paired)
    assert task_loss(model, batch, torch.tensor(float(paired.items(batch))), torch.tensor(1)).isfinite()
    assert "next_accuracy" not in evaluate(model, paired, "valid", 8, torch.float32)


def test_one_document_alone_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text(" ".join(documents(600)))
    with pytest.raises(ValueError, match="train split has one document only: give more documents, say where") as found:
        task("mlm", {**SMALL, "train": str(tmp_path / "one.txt")})
    assert "\n" not in str(found.value)


# The task


def model_of(made: Mlm) -> SplitstepForMaskedLM:
    torch.manual_seed(0)
    shape: dict[str, Any] = {**made.shape, "max_positions": made.length}
    del shape["max_length"]
    return SplitstepForMaskedLM(
        MaskedConfig(layers=2, width=16, heads=2, ffn=32, token_types=2, init_std=0.2, **shape)
    ).eval()


def test_the_contract_of_the_task_with_pairs(made: Mlm) -> None:
    batch, held = made.batch(0, 0, 4), next(made.batches("valid", 4))
    k = made.prepared.most_pairs
    assert {name: tuple(x.shape) for name, x in batch.items()} == {
        "input_ids": (4, 48), "seq_idx": (4, 48), "masked_positions": (4, 7), "labels": (4, 7),
        "token_type_ids": (4, 48), "next_sentence_positions": (4, k), "next_sentence_targets": (4, k),
        "next_sentence_weights": (4, k),
    }  # fmt: skip
    assert batch.keys() == held.keys() | {"next_sentence_weights"}
    assert (held["input_ids"].gather(1, held["next_sentence_positions"]) == CLS).all()
    assert made.describe()["next_sentence"]


def test_pairs_stay_and_masks_are_drawn_anew(made: Mlm) -> None:
    rows = len(made.rows["train"])
    one, two = made.batch(3, 0, rows), made.batch(3, 1, rows)
    count = lambda batch: (batch["next_sentence_targets"] == OTHER).sum()  # noqa: E731
    assert count(one) == count(two) > 0
    assert not torch.equal(one["masked_positions"].sort(0).values, two["masked_positions"].sort(0).values)
    separators = [(batch["input_ids"] == SEP).sum() for batch in (one, two)]
    assert separators[0] == separators[1]
    hidden = (one["input_ids"] == MASK).sum(1)
    assert hidden.max() <= 7  # what marks pairs in prepared rows is gone


def test_a_pair_in_a_row_has_the_logits_of_the_pair_alone(made: Mlm) -> None:
    batch, model = next(made.batches("test", 6)), model_of(made).double()
    fed = {name: x for name, x in batch.items() if name not in ("labels", "masked_positions")}
    packed, checked = model(**fed), 0
    pieces = piece_numbers(made.rows["test"][:6])
    for row, (positions, labels) in enumerate(
        zip(batch["next_sentence_positions"], batch["next_sentence_targets"], strict=True)
    ):
        for k in range(int((labels != IGNORED).sum())):
            at = torch.from_numpy(pieces[row] == pieces[row][positions[k]])
            alone = model(batch["input_ids"][row][None, at], token_type_ids=batch["token_type_ids"][row][None, at])
            torch.testing.assert_close(alone.next_sentence_logits[0], packed.next_sentence_logits[row, k])
            torch.testing.assert_close(alone.logits[0], packed.logits[row, at])
            checked += 1
    assert checked > 6


def test_parts_of_a_batch_have_the_loss_of_the_whole(made: Mlm) -> None:
    batch, model = made.batch(0, 0, 9), model_of(made).double()
    items, seed = torch.tensor(float(made.items(batch))), torch.tensor(1)
    whole = task_loss(model, batch, items, seed)
    parts = [{name: x[rows] for name, x in batch.items()} for rows in (slice(0, 2), slice(2, 9))]
    together = sum(task_loss(model, part, items, seed) for part in parts)
    torch.testing.assert_close(together, whole, rtol=1e-6, atol=1e-6)
    plain = model(**{name: x for name, x in batch.items() if name != "next_sentence_weights"})
    torch.testing.assert_close(plain.loss, whole, rtol=1e-6, atol=1e-6)


def test_figures_do_not_depend_on_the_size_of_batches(made: Mlm) -> None:
    model = model_of(made)
    one, two = (evaluate(model, made, "test", size, torch.float32) for size in (3, 50))
    assert one.keys() == two.keys() == {"loss", "accuracy", "next_loss", "next_accuracy"}
    for name in one:
        assert one[name] == pytest.approx(two[name], rel=1e-5)
    right = total = 0
    for batch in made.batches("test", 7):
        fed = {name: x for name, x in batch.items() if name != "labels"}
        guess, labels = model(**fed).next_sentence_logits.argmax(-1), batch["next_sentence_targets"]
        right, total = right + int((guess == labels).sum()), total + int((labels >= 0).sum())
    assert one["next_accuracy"] == pytest.approx(right / total)


def test_the_same_text_gives_the_same_pairs_and_another_folder_than_without(
    made: Mlm, lines: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPLITSTEP_CACHE", str(tmp_path))
    again, plain = made_of(lines), made_of(lines, next_sentence=False)
    assert again.describe() == made.describe()
    assert again.prepared.folder != plain.prepared.folder
    assert sorted(file.name for file in again.prepared.folder.iterdir()) == [
        "manifest.json", "test.rows", "tokenizer.json", "train.rows", "valid.rows",
    ]  # fmt: skip
    for one, choice, other in ((again, False, "true"), (plain, True, "false")):
        with pytest.raises(ValueError, match=rf"prepared with {other}: add data.next_sentence={other}"):
            task("mlm", {**SMALL, "prepared": str(one.prepared.folder), "next_sentence": choice})


def test_long_documents_in_parts_keep_their_sentences(tmp_path: Path) -> None:
    """A sentence that two parts share is one; and so is a document."""
    ids = [np.full(n, n, np.uint16) for n in (0, 1, 2, 3)]
    with (tmp_path / "tokens").open("wb") as opened:
        file = SentenceFile(opened, np.dtype(np.uint16))
        for first, source, sentences in ((True, 1, ids), (False, 1, ids[2:]), (True, 2, []), (False, 2, ids[3:])):
            file.add(first, source, sentences)
    tokens, starts, begins, sources = file.read()
    assert tokens.tolist() == [1, 2, 2, 3, 3, 3, 2, 2, 3, 3, 3, 3, 3, 3]
    assert (starts.tolist(), begins.tolist()) == ([0, 1, 3, 8, 11, 14], [0, 4, 5])
    assert sources.tolist() == [1, 2]


def test_types_are_needed(made: Mlm) -> None:
    with pytest.raises(ValueError, match="token_types=0 does not distinguish them: use token_types=2"):
        MaskedConfig(next_sentence_labels=2)
    plain = SplitstepForMaskedLM(MaskedConfig(layers=1, width=16, heads=2, ffn=16))
    with pytest.raises(ValueError, match="has no head for next sentences: make it with next_sentence_labels=2"):
        plain(torch.tensor([[5, 6]]), next_sentence_targets=torch.tensor([0]))


def test_sources_count_documents_not_stretches() -> None:
    parts = [splits.Chunk(True, "a b " * 400), splits.Chunk(False, "c d " * 400), splits.Chunk(True, "e f " * 400)]
    found = list(splits.split(parts, splits.extent(parts)))
    assert all(number == (2 if "e" in part.text else 1) for _, part, number in found)
    assert all(one[2] <= two[2] for one, two in pairwise(found))
