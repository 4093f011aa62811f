"""Own labelled text: what is held out, how pairs are written, what is refused."""

import csv
import gzip
import io
import json
import lzma
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertTokenizerFast  # pyright: ignore[reportAttributeAccessIssue]

from splitstep.tasks import task
from splitstep.tasks.classify import BAD, DEGREES, FILMS, GOOD, VERBS, verdicts
from splitstep.text.subwords import learn_wordpiece
from splitstep.text.tables import Table, find_columns, labelled_rows, read_table
from splitstep.text.tokenizers import save_tokenizer


def write(path: Path, rows: Sequence[Sequence[object]], header: Sequence[str] = ("text", "label")) -> str:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return str(path)


def reviews(n: int, classes: Sequence[str] = ("good", "bad", "so-so")) -> list[tuple[str, str]]:
    return [(f"review {i} says {classes[i % len(classes)]}", classes[i % len(classes)]) for i in range(n)]


def load(**options: Any) -> Any:
    return task("classify", options)


def test_a_tenth_of_each_class_is_held_out_twice_and_nothing_is_lost(tmp_path: Path) -> None:
    rows = reviews(300)
    found = load(train=write(tmp_path / "a.csv", rows))
    assert found.labels == ("bad", "good", "so-so")
    assert found.describe()["classes"] == {"train": [80] * 3, "valid": [10] * 3, "test": [10] * 3}
    seen = [(text, found.labels[label]) for one in found.examples.values()
            for (text,), label in zip(one.texts, one.labels, strict=True)]  # fmt: skip
    assert Counter(seen) == Counter(rows)
    again, other = load(train=str(tmp_path / "a.csv")), load(train=str(tmp_path / "a.csv"), seed=1)
    assert again.describe() == found.describe()
    assert set(other.examples["test"].texts) != set(found.examples["test"].texts)


def test_files_for_validation_and_test_are_used_whole_and_duplicates_told(tmp_path: Path) -> None:
    rows = reviews(60)
    held = [*rows[:3], ("never seen before", "good")]
    given = {"train": write(tmp_path / "a.csv", rows), "test": write(tmp_path / "b.csv", held)}
    found = load(**given, valid=write(tmp_path / "c.csv", rows[:2]))
    assert {split: len(one.labels) for split, one in found.examples.items()} == {"train": 60, "valid": 2, "test": 4}
    assert found.remarks() == {"also in train": {"valid": 2, "test": 3}}
    assert len(load(**given).examples["train"].labels) == 54  # valid is held out


def test_equal_texts_stay_on_one_side(tmp_path: Path) -> None:
    rows = [row for row in reviews(100, ("a", "b")) for _ in range(2)]
    found = load(train=write(tmp_path / "a.csv", rows))
    assert sum(found.remarks().get("also in train", {}).values()) <= 2  # at most where the cut is


def test_labels_that_are_not_whole_are_numbers(tmp_path: Path) -> None:
    rows = [(f"text {i}", i / 4) for i in range(40)]
    found = load(train=write(tmp_path / "a.csv", rows))
    assert (found.labels, found.shape["labels"], found.metric.name) == ((), 1, "pearson")
    batch = found.batch(0, 0, 8)
    assert batch["labels"].dtype == torch.float32
    whole = write(tmp_path / "b.csv", [(f"text {i}", i % 4) for i in range(40)])
    assert load(train=whole).labels == ("0", "1", "2", "3")
    assert load(train=whole, labels="numbers").labels == ()
    assert load(train=write(tmp_path / "c.csv", [(f"t {i}", (i % 2) / 2) for i in range(40)]), labels="classes").labels


@pytest.mark.parametrize("classes", [("--3", "-2", "10"), ("1", "2", "10"), ("-2", "-1", "10")])
def test_classes_are_in_the_order_of_numbers_else_of_names(classes: tuple[str, ...], tmp_path: Path) -> None:
    assert load(train=write(tmp_path / "a.csv", reviews(30, classes[::-1]))).labels == classes


@pytest.mark.parametrize("tokenizer", ["bpe", "wordpiece"])
def test_the_tokenizer_is_learnt_from_training_text_alone(tokenizer: str, tmp_path: Path) -> None:
    train = write(tmp_path / "a.csv", reviews(200))
    held = write(tmp_path / "b.csv", [("zyzzyva zyzzyva", "good")] * 50)
    with_it = load(train=train, test=held, valid=held, tokenizer=tokenizer)
    without = load(train=train, test=train, valid=train, tokenizer=tokenizer)
    assert with_it.reader.tokenizer.to_str() == without.reader.tokenizer.to_str()
    assert with_it.reader.tokenizer.token_to_id("review") is not None or tokenizer == "bpe"


PAIRS = [
    ("A man is playing a flute.", "A man plays."),
    ("Ünïcode déjà-vu, 123!", "日本 and a word " * 9),
    ("x " * 60, "y " * 7),
    ("one", "two " * 80),
    ("both " * 50, "long " * 50),
    ("", "empty first"),
]


@pytest.mark.parametrize("length", [8, 31])
def test_pairs_are_written_as_bert_writes_them(length: int, tmp_path: Path) -> None:
    """Ids, types and masks, cut and uncut, of single texts and pairs, with BERT's tokenizer of the same vocabulary."""
    pairs = [pair for pair in PAIRS if pair[0]] * 8
    learn = learn_wordpiece((text for pair in pairs for text in pair), 400)
    folder = tmp_path / "model"
    folder.mkdir()
    save_tokenizer(folder, learn, {})
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("".join(f"{word}\n" for word, _ in sorted(learn.get_vocab().items(), key=lambda one: one[1])))
    theirs = BertTokenizerFast.from_pretrained(str(tmp_path), vocab_file=str(vocab), do_lower_case=True)
    for columns in (("text", "text2"), ("text",)):
        rows = [(*pair[: len(columns)], "ab"[i % 2]) for i, pair in enumerate(pairs)]
        given = write(tmp_path / "a.csv", rows, (*columns, "label"))
        found = load(train=given, valid=given, test=given, tokenizer=str(folder), length=length)
        encoded = found.rows["train"]
        for i, row in enumerate(rows):
            texts = row[: len(columns)]
            want = theirs(*texts, truncation=True, max_length=length)
            cut = slice(encoded.offsets[i], encoded.offsets[i + 1])
            assert encoded.tokens[cut].tolist() == want["input_ids"]
            assert encoded.marks[cut].tolist() == want["token_type_ids"]
        batch = next(found.batches("test", 3))
        assert (batch["attention_mask"].sum(1) <= length).all()
        assert ("token_type_ids" in batch) == (len(columns) == 2)
        assert ((batch["input_ids"] == theirs.pad_token_id) == (batch["attention_mask"] == 0)).all()


def test_batches_have_few_shapes_and_every_example_once(tmp_path: Path) -> None:
    rows = [("word " * (1 + i % 70), "ab"[i % 2]) for i in range(400)]
    found = load(train=write(tmp_path / "a.csv", rows), length=64)
    shapes = {tuple(found.batch(0, step, 16)["input_ids"].shape) for step in range(60)}
    assert len(shapes) <= 4
    assert {rows for rows, _ in shapes} == {16}
    assert sum(len(batch["labels"]) for batch in found.batches("valid", 7)) == len(found.examples["valid"].labels)


def test_generated_verdicts_use_every_word_and_both_labels_alike() -> None:
    found = verdicts()
    words = {word for text, _ in found for word in text.split()}
    assert words >= {*FILMS, *VERBS, *GOOD, *BAD} | {word for degree in DEGREES for word in degree.split()}
    assert Counter(label for _, label in found) == {"positive": 960, "negative": 960}
    assert len(set(found)) == len(found) == 1920
    assert ("the film is good", "positive") in found or ("the plot is good", "positive") in found


NASTY = [
    ('said "no", then left', "a"),
    ("two\nlines", "b"),
    ("windows\r\nline", "a"),
    ("Grüße; naïve — 日本語 🙂", "b"),
    ("  blanks , kept  ", "a"),
    ("\ttab", "b"),
    ("'single' quotes", "a"),
    ("=1+1", "b"),
    (",", "a"),
    ('"', "b"),
    ("line\u2028separator and \x85", "a"),
]


def written(rows: list[tuple[str, str]], delimiter: str = ",", quoting: int = csv.QUOTE_MINIMAL) -> str:
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=delimiter, quoting=quoting).writerows([("text", "label"), *rows])  # pyright: ignore
    return out.getvalue()


def fields(table: Table) -> list[tuple[str, ...]]:
    return [tuple(row.fields.values()) for row in table.rows]


@pytest.mark.parametrize("delimiter", [",", ";", "|", "\t"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_nasty_fields_come_back_as_the_csv_module_wrote_them(
    delimiter: str, quoting: int, bom: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes((bom + written(NASTY, delimiter, quoting)).encode())
    assert fields(read_table(path)) == NASTY


def test_tables_are_read_as_pandas_reads_them(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    letters, chance = 'ab ",;\n\r\té"', random.Random(0)
    rows = [("".join(chance.choices(letters, k=chance.randint(1, 12))) + "x", str(i)) for i in range(300)]
    path = tmp_path / "a.csv"
    path.write_bytes(written(rows).encode())
    theirs = pandas.read_csv(path, dtype=str, keep_default_na=False, lineterminator=None, engine="python")
    assert fields(read_table(path)) == list(theirs.itertuples(index=False, name=None)) == rows


def test_rows_know_the_line_on_which_they_begin(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('text,label\n"one\ntwo\nthree",a\n\nfour,b\n')
    assert [row.line for row in read_table(path).rows] == [2, 6]


def test_tabs_separate_and_quotes_are_characters_in_tsv(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text('text\tlabel\n" never closed\t1\nshe said "x"\t0\n')
    assert fields(read_table(path)) == [('" never closed', "1"), ('she said "x"', "0")]


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_packed_files_are_read(pack: object, tmp_path: Path) -> None:
    suffix = ".gz" if pack is gzip.compress else ".xz"
    path = tmp_path / f"a.csv{suffix}"
    path.write_bytes(pack(written(NASTY).encode()))  # pyright: ignore
    assert fields(read_table(path)) == NASTY


def test_a_field_may_be_longer_than_the_csv_module_allows_by_default(tmp_path: Path) -> None:
    before = csv.field_size_limit()
    path = tmp_path / "a.csv"
    path.write_text("text,label\n" + "x" * (before + 1) + ",a\n")
    assert len(read_table(path).rows[0].fields["text"]) == before + 1
    assert csv.field_size_limit() == before


def columns_of(header: str, tmp_path: Path, **options: str) -> tuple[tuple[str, ...], str]:
    path = tmp_path / "a.csv"
    path.write_text(f"{header}\n" + ",".join("a longer text" for _ in header.split(",")) + "\n")
    names = (options.get("text", ""), options.get("text2", ""), options.get("label", ""))
    return tuple(find_columns(read_table(path), *names)[1])  # pyright: ignore


@pytest.mark.parametrize(("header", "texts", "label"), [
    ("text,label", ("text",), "label"),
    ("id,Review,Sentiment", ("Review",), "Sentiment"),
    ("sentence1,sentence2,label", ("sentence1", "sentence2"), "label"),
    ("question,sentence,label", ("question", "sentence"), "label"),
    ("premise,hypothesis,class", ("premise", "hypothesis"), "class"),
    ("score,body", ("body",), "score"),
])  # fmt: skip
def test_columns_are_found_by_their_names(header: str, texts: tuple[str, ...], label: str, tmp_path: Path) -> None:
    assert columns_of(header, tmp_path) == (texts, label)


def test_columns_without_a_name_are_numbered_as_pandas_and_spreadsheets_write_them(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(",text,label,\n0,good,a,\n1,bad,b,\n")
    table, columns = find_columns(read_table(path), "", "", "")
    assert table.columns == ("column 1", "text", "label", "column 4")
    assert [(one.texts, one.label) for one in labelled_rows(table, columns)] == [(("good",), "a"), (("bad",), "b")]


def test_columns_are_those_that_are_named(tmp_path: Path) -> None:
    found = columns_of("text,a,b,label,c", tmp_path, text="a", text2="b", label="c")
    assert found == (("a", "b"), "c")


def test_two_columns_need_no_header(tmp_path: Path) -> None:
    """The text is the longer one; the first line is an example."""
    for rows in (["pos,what a good film", "neg,what a bad film"], ["what a good film,pos", "what a bad film,neg"]):
        path = tmp_path / "a.csv"
        path.write_text("\n".join(rows) + "\n")
        table, columns = find_columns(read_table(path), "", "", "")
        found = [(one.line, one.texts, one.label) for one in labelled_rows(table, columns)]
        assert found == [(1, ("what a good film",), "pos"), (2, ("what a bad film",), "neg")]


def test_labels_of_jsonl_may_be_any_plain_value(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": "x", "label": one}) + "\n" for one in (1, 2.5, True, "a ")))
    table, columns = find_columns(read_table(path), "", "", "")
    assert [one.label for one in labelled_rows(table, columns)] == ["1", "2.5", "true", "a"]
