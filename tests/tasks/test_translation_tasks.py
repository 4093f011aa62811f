"""Claims about translation data: batches of few shapes, subwords that come back as text, nothing lost unseen."""

import io
import itertools
import json
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from splitstep.tasks import batching, task
from splitstep.tasks.batching import MULTIPLE, ORDER, ROWS, choose_widths, generator, rows_of
from splitstep.tasks.pairs.codec import END, PAD, SPECIAL, START, UNKNOWN, Codec, TextForm, check_fit, learn
from splitstep.tasks.pairs.corpora import COUNTS, english, german
from splitstep.tasks.pairs.macaron_corpora import TESTS, prepare_archive
from splitstep.tasks.pairs.translation import Translation
from splitstep.text import moses
from splitstep.text.lines import hold_out, lines_of
from splitstep.training import TrainOptions, read_recipe, train
from splitstep.training.objective import dropout_seed, prefetched, work_for
from splitstep.training.processes import Processes

SMALL = {"train": 700, "valid": 40, "test": 40, "highest": 9999}
WORDS = "der die das ein Haus Hund Mann geht läuft sieht schnell heute nicht und aber Straße grün".split()  # noqa: SIM905


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of each test's own."""
    monkeypatch.setenv("SPLITSTEP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def numbers(**more: object) -> Any:
    return task("numbers", SMALL | more)


def parallel(**options: object) -> Any:
    return task("parallel", options)


def sources(made: Translation, split: str) -> list[str]:
    """The source lines of a split, from its batches."""
    return [line for batch in made.batches(split, 4096) for line in made.codec.decode(batch["input_ids"].tolist())]


def sentences(n: int, seed: int = 0) -> list[str]:
    """Different sentences of 3 to 12 words and a full stop."""
    random = np.random.default_rng(seed)
    return [" ".join([*random.choice(WORDS, random.integers(3, 12)), str(i)]) + "." for i in range(n)]


def write(path: Path, *lines: str) -> str:
    """A file of these lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """Two files of 200 pairs: the target is the source backwards."""
    lines = sentences(200)
    backwards = (" ".join(line.split()[::-1]) for line in lines)
    return write(tmp_path / "my.de", *lines), write(tmp_path / "my.xx", *backwards)


def test_numbers_in_words() -> None:
    """Some by hand; and different numbers have different words."""
    wanted = {
        0: ("zero", "null"),
        1: ("one", "eins"),
        21: ("twenty-one", "einundzwanzig"),
        101: ("one hundred and one", "einhunderteins"),
        1016: ("one thousand and sixteen", "eintausendsechzehn"),
        17_217: ("seventeen thousand two hundred and seventeen", "siebzehntausendzweihundertsiebzehn"),
        21_001: ("twenty-one thousand and one", "einundzwanzigtausendeins"),
    }
    assert {n: (english(n), german(n)) for n in wanted} == wanted
    assert len({english(n) for n in range(20_000)}) == len({german(n) for n in range(20_000)}) == 20_000


def test_numbers_go_both_ways_and_those_of_the_splits_differ() -> None:
    one, two = numbers(), numbers(direction="de-en")
    seen = [set(sources(one, "train")), *(set(one.text(split).source) for split in ("valid", "test"))]
    assert list(map(len, seen)) == [700, 40, 40]
    assert len(set.union(*seen)) == 780
    for split in ("valid", "test"):
        assert one.text(split) == two.text(split)._replace(source=two.text(split).target, target=two.text(split).source)


def test_what_scores_need_is_asked_for_at_once(
    files: tuple[str, str], europarl: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not after hours of training; numbers in words and plain text of one's own do without."""
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(ValueError, match=r"is scored on Moses tokens.*pip install 'splitstep\[translation\]'"):
        task("europarl", {"held": 20}, europarl)
    moses._tool.cache_clear()  # another test may have made one
    with pytest.raises(ValueError, match=r"Moses tokens need sacremoses"):
        parallel(train=list(files), tokens="moses")
    assert parallel(train=list(files)).metric.name == "sacrebleu"
    assert numbers().metric.name == "exact_match"


def test_held_out_batches_hold_every_pair_once_and_need_no_labels() -> None:
    made = numbers()
    batches = list(made.batches("test", 300))
    lines = [line for batch in batches for line in made.codec.decode(batch["input_ids"].tolist())]
    assert Counter(lines) == Counter(made.text("test").source)
    for batch in batches:
        given, labels = batch["decoder_input_ids"], batch["labels"]
        assert (given[:, 0] == START).all()
        assert torch.equal(given[:, 1:], labels[:, :-1].clamp(min=PAD))


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=4).filter(any),
    st.lists(st.integers(1, 9), min_size=4, max_size=4),
    st.integers(0, 5),
)
def test_order_takes_all_batches_of_an_epoch(counts: list[int], rows: list[int], seed: int) -> None:
    """Against an account of every bucket's stream: numbers come in order, and an epoch meets all full batches."""
    n, r = tuple(counts), tuple(rows[: len(counts)])
    met: Counter[int] = Counter()
    for epoch in range(3):
        for step in range(batching.before_epoch(n, r, epoch), batching.before_epoch(n, r, epoch + 1)):
            bucket, number = batching.bucket(n, r, seed, step)
            assert number == met[bucket]
            met[bucket] += 1
        assert all(met[b] == (epoch + 1) * n[b] // r[b] for b in range(len(n)))


@given(st.lists(st.integers(1, 40), min_size=1, max_size=60), st.integers(1, 4))
def test_widths_waste_least(lengths: list[int], count: int) -> None:
    """Against all choices of widths."""
    found = np.array(lengths)
    longest = -(-max(lengths) // MULTIPLE) * MULTIPLE
    widths = choose_widths(found, count)
    assert widths[-1] == longest
    assert len(widths) <= count

    def padded(chosen: tuple[int, ...]) -> int:
        return int(np.array(chosen)[np.searchsorted(chosen, found)].sum())

    inner = range(MULTIPLE, longest, MULTIPLE)
    choices = ((*some, longest) for k in range(min(count, 1 + len(inner))) for some in itertools.combinations(inner, k))
    assert padded(widths) == min(map(padded, choices))


@given(st.integers(1, 300_000), st.integers(1, 200))
def test_rows_can_be_shared(size: int, width: int) -> None:
    if size < width:
        with pytest.raises(ValueError, match="holds no pair"):
            rows_of(size, width)
        return
    rows = rows_of(size, width)
    assert 0.98 * (size // width) <= rows <= size // width
    if size // width >= 1024:
        assert rows % 16 == 0


def merges_of(codec: Codec) -> list[list[str]]:
    return json.loads(codec.tokenizer.to_str())["model"]["merges"]


@pytest.mark.parametrize("tokens", ["plain", "given"])
def test_subwords(tokens: str) -> None:
    """So many merges as asked for, the special tokens in place, and text that comes back."""
    form = TextForm("de", "de", tokens)  # pyright: ignore[reportArgumentType]
    lines = [line if tokens == "plain" else line.replace(".", " .") for line in sentences(300)]
    codec = learn(lines[:150], lines[150:], form, 50)
    assert len(merges_of(codec)) == 50
    assert [codec.tokenizer.id_to_token(i) for i in (PAD, START, END, UNKNOWN)] == list(SPECIAL)
    ids = list(codec.encode(lines))
    assert codec.decode(ids) == lines
    assert codec.decode([[START, *line, PAD, PAD] for line in ids]) == lines
    flat = codec.encode_flat(lines)
    assert [flat.tokens[a:b].tolist() for a, b in itertools.pairwise(flat.offsets)] == ids
    assert ids == [codec.tokenizer.encode(line).ids for line in lines]  # whole lines, as AutoTokenizer cuts them
    (strange,) = codec.encode(["der Ω"])
    assert UNKNOWN in strange
    assert codec.decode([strange]) == ["der <unk>"]
    (marked,) = codec.encode(["die </s> das"])
    assert marked.count(END) == 1
    assert marked[-1] == END


def test_subwords_are_merged_by_rank() -> None:
    """Against byte-pair encoding written down from its definition."""
    lines = sentences(200)
    codec = learn(lines, lines, TextForm("de", "de", "given"), 120)
    rank = {tuple(pair): number for number, pair in enumerate(merges_of(codec))}

    def cut(word: str) -> list[str]:
        parts = [*word[:-1], word[-1] + "</w>"]
        while pairs := [(rank[pair], i) for i, pair in enumerate(itertools.pairwise(parts)) if pair in rank]:
            _, i = min(pairs)
            parts[i : i + 2] = [parts[i] + parts[i + 1]]
        return parts

    for line, ids in zip(lines[:40], codec.encode(lines[:40]), strict=True):
        wanted = [part for word in line.split() for part in cut(word)]
        assert [codec.tokenizer.id_to_token(i) for i in ids[:-1]] == wanted


def learnt_by_definition(lines: list[str], merges: int) -> list[list[str]]:
    """The most frequent pair of neighbours again and again; of equally frequent ones that of the oldest symbols."""
    counts = Counter(word for line in lines for word in line.split())
    words = {word: [*word[:-1], word[-1] + "</w>"] for word in counts}
    symbols = [*sorted({c for word in words for c in word}), *sorted({parts[-1] for parts in words.values()})]
    found: list[list[str]] = []
    while len(found) < merges:
        pairs = Counter[tuple[str, str]]()
        for word, parts in words.items():
            for pair in itertools.pairwise(parts):
                pairs[pair] += counts[word]
        best = min(pairs, key=lambda pair: (-pairs[pair], *map(symbols.index, pair)))
        found.append(list(best))
        symbols.append("".join(best))
        for parts in words.values():
            i = 0
            while i < len(parts) - 1:
                if (parts[i], parts[i + 1]) == best:
                    parts[i : i + 2] = ["".join(best)]
                i += 1
    return found


def test_subwords_are_learnt_as_defined_and_always_the_same() -> None:
    lines = [*sentences(120), "anders als gedacht : (nur) \U000f0000 x\U000f0000"]  # a mark of our own in the text
    codecs = [learn(lines, lines, TextForm("de", "de", "given"), 60) for _ in range(4)]
    assert len({codec.tokenizer.to_str() for codec in codecs}) == 1
    assert merges_of(codecs[0]) == learnt_by_definition(lines, 60)
    assert codecs[0].decode(list(codecs[0].encode(lines))) == lines
    (within,) = codecs[0].encode(["u:."])  # where the text has it at the end of words alone
    assert UNKNOWN not in within


def test_subwords_are_saved_and_checked(tmp_path: Path) -> None:
    lines = sentences(50)
    codec = learn(lines, lines, TextForm("de", "en", "moses", lower=True), 30)
    codec.save(tmp_path)
    again = Codec.load(tmp_path)
    assert again.form == codec.form
    assert list(again.encode(lines)) == list(codec.encode(lines))
    check_fit(again, codec.size)
    with pytest.raises(ValueError, match=f"has {codec.size} tokens and the model 99"):
        check_fit(again, 99)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(ValueError, match="damaged"):
        Codec.load(tmp_path)
    with pytest.raises(ValueError, match=r"holds no tokenizer\.json"):
        Codec.load(tmp_path / "elsewhere")


def test_moses_forms() -> None:
    form = TextForm("en", "en", "moses", lower=True)
    (line,) = form.prepare(['He said:  "It\'s   well-known."'], "en")
    assert line == "he said : &quot; it &apos;s well-known . &quot;"
    assert form.plain([line], "en") == ['he said: "it\'s well-known."']
    split = TextForm("en", "en", "given", hyphens=True)
    (hyphen,) = split.prepare(["well-known"], "en")
    assert hyphen == "well @-@ known"
    assert split.plain([hyphen], "en") == ["well-known"]
    assert moses.normalise(["„So“ – it’s"], "en") == ['"So" - it\'s']
    assert moses.keep_by_length("a b c", "a b", 3, 1.5)
    assert not moses.keep_by_length("a b c d", "a b", 9, 1.5)
    assert not moses.keep_by_length("a b c d", "a b c d", 3, None)
    assert not moses.keep_by_length("", "a", 3, None)


@pytest.mark.slow
def test_processes_share_tokenisation(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = sentences(300)
    wanted = moses.tokenise(lines, "de")
    monkeypatch.setattr(moses, "MANY", 100)
    monkeypatch.setattr(moses, "BLOCK", 70)
    assert moses.tokenise(lines, "de") == wanted


def test_the_cache_is_used_checked_and_mended(
    cache: Path, files: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = parallel(train=files, merges=50).batch(0, 0, 400)
    (folder,) = (cache / "translation").glob("[!.]*")
    with monkeypatch.context() as patch:
        patch.setattr("splitstep.tasks.pairs.prepared.write", None)  # nothing is made again
        assert torch.equal(parallel(train=files, merges=50).batch(0, 0, 400)["labels"], wanted["labels"])
    tokens = folder / "train.source.tokens.npy"
    content = bytearray(tokens.read_bytes())
    content[-1] ^= 1
    tokens.write_bytes(content)
    assert torch.equal(parallel(train=files, merges=50).batch(0, 0, 400)["input_ids"], wanted["input_ids"])
    parallel(train=files, merges=51)
    assert len(list((cache / "translation").glob("[!.]*"))) == 2
    assert not list((cache / "translation").glob(".part-*"))  # no half-made folders


@pytest.mark.usefixtures("cache")
def test_files_of_one_name_and_in_another_order_are_other_text(tmp_path: Path) -> None:
    lines = sentences(80)
    names = [write(tmp_path / language / "train.txt", *lines) for language in ("en", "de")]
    before = parallel(train=names, merges=50).text("valid").source
    write(Path(names[0]), *(line.upper() for line in lines))
    made = parallel(train=names, merges=50)
    assert [line.lower() for line in made.text("valid").source] != made.text("valid").source  # and before they were:
    assert [line for line in before if line not in lines] == []
    swapped = parallel(train=names[::-1], merges=50)
    assert set(swapped.text("valid").target) <= {line.upper() for line in lines}
    assert [name for name, _ in made.describe()["files"]["train"]] == ["train.txt", "train.txt"]


def test_own_text_holds_out_what_is_not_given(files: tuple[str, str]) -> None:
    made = parallel(train=", ".join(files), merges=50)
    counts = {split: entry["kept"] for split, entry in made.describe()["pairs"].items()}
    assert counts == {"train": 180, "valid": 10, "test": 10}
    assert made.text("valid").target == [" ".join(line.split()[::-1]) for line in made.text("valid").source]
    assert made.remarks() == {}
    given = parallel(train=files, valid=files, test=files, merges=50).describe()["pairs"]
    assert {split: entry["kept"] for split, entry in given.items()} == dict.fromkeys(("train", "valid", "test"), 200)


def test_held_out_pairs_that_training_has_are_counted(tmp_path: Path) -> None:
    lines = sentences(60)
    held = {
        "a": [*lines[:3], lines[3].upper(), f"  {lines[50]}", "neu"],
        "b": [*lines[:2], "x", *lines[3:4], lines[50], "y"],
    }
    texts = {"train": {"a": lines, "b": lines}, "test": held}
    data = {
        split: [write(tmp_path / f"{split}.{side}", *text) for side, text in sides.items()]
        for split, sides in texts.items()
    }
    made = parallel(**data, valid=data["train"], merges=50)
    assert made.describe()["pairs"]["test"] == {"read": 6, "empty": 0, "too_many_tokens": 0, "in_train": 4, "kept": 6}
    assert made.remarks() == {"also in train": {"valid": 60, "test": 4}}
    # only what training takes counts
    fewer = parallel(**data, valid=data["train"], merges=50, limit=50)
    assert fewer.remarks() == {"also in train": {"valid": 50, "test": 3}}


def test_no_source_is_in_two_splits() -> None:
    given = [f"s{i % 70}" for i in range(300)]
    rows = hold_out(given, {"valid": 10, "test": 5})
    found = {split: {given[row] for row in part} for split, part in rows.items()}
    assert {split: len(part) for split, part in found.items()} == {"valid": 10, "test": 5, "train": 55}
    assert sorted(itertools.chain(*rows.values())) == list(range(300))
    other = given[::-1]  # another order of the lines
    again = hold_out(other, {"valid": 10, "test": 5})
    assert {split: {other[row] for row in part} for split, part in again.items()} == found
    with pytest.raises(ValueError, match="cannot hold out 80 of 70"):
        hold_out(given, {"valid": 40, "test": 40})


def test_letters_and_blanks_make_no_other_sentence() -> None:
    """Preparation may undo both: what was learnt would be tested."""
    ways = ("Straße {}", "STRASSE {}", " straße  {} ", "Straße\u00a0{}")
    given = [way.format(i) for way, i in itertools.product(ways, range(70))]
    shares = {"valid": 10, "test": 5}
    rows = hold_out(given, shares)
    found = {split: {int(given[row].split()[-1]) for row in part} for split, part in rows.items()}
    assert {split: len(part) for split, part in found.items()} == shares | {"train": 55}
    assert len(set.union(*found.values())) == 70  # no number is in two splits
    assert hold_out([f"strasse {i % 70}" for i in range(280)], shares) == rows


def test_pairs_left_out_are_counted(tmp_path: Path) -> None:
    lines = sentences(60)
    source = [*lines, "", "kein Ziel", "ein Haus " * 30, "der Hund geht und sieht das Haus"]
    target = [*lines, "nothing", "  ", "ein Haus " * 30, "Hund"]
    one, two = write(tmp_path / "a", *source), write(tmp_path / "b", *target)
    limits = {"merges": 50, "words": 40, "ratio": 3.0, "longest": 60}
    made = parallel(train=[one, two], valid=[one, one], test=[one, one], **limits)
    counts = made.describe()["pairs"]
    assert counts["train"] | {"too_many_tokens": 0} == {
        "read": 64, "empty": 2, "over_limit": 0, "too_many_words": 1, "unequal_length": 1, "too_many_tokens": 0,
        "kept": 60,
    }  # fmt: skip
    # held-out pairs longer than any training pair are kept whole, in a shape of their own
    assert counts["valid"] == {"read": 64, "empty": 1, "too_many_tokens": 0, "in_train": 60, "kept": 63}
    assert made.describe()["longest"]["valid"] > made.describe()["longest"]["train"]
    assert made.shape["max_length"] >= made.describe()["longest"]["valid"]
    assert sum(len(batch["labels"]) for batch in made.batches("valid", 256)) == 63


def test_held_out_lines_that_would_take_for_ever_are_left_out_counted_and_told(
    files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = sentences(5)
    odd = {"a": WORDS[0], "b": " ".join([WORDS[0]] * 20_000)}
    held = [write(tmp_path / side, *kept[:2], long, *kept[2:]) for side, long in odd.items()]
    data = {"train": list(files), "test": held, "beams": 1}
    made = parallel(**data)
    assert made.text("test").source == kept
    assert sorted(sources(made, "test")) == sorted(kept)  # in batches, bucket by bucket
    assert made.describe()["pairs"]["test"] == {"read": 6, "empty": 0, "too_many_tokens": 1, "in_train": 0, "kept": 5}
    assert made.remarks() == {"left out as too long": {"test": 1}}
    assert made.shape["max_length"] < 2048
    model = {"layers": 1, "decoder_layers": 1, "width": 8, "heads": 1, "ffn": 8}
    document = {"task": "parallel", "data": data, "model": model, "train": {"steps": 1, "batch": 256}}
    result = train(read_recipe(document, "recipe"), tmp_path / "run")
    assert result.splits["test"].lines == 5
    assert "; left out as too long: 1 of test\n" in capsys.readouterr().err


def test_lines_end_at_line_feeds_only() -> None:
    assert lines_of("\ufeffa\u2028b\r\nc\x85d\n\ne".encode(), "x") == ["a\u2028b", "c\x85d", "", "e"]


LINES = sentences(30)
REFUSED: dict[str, tuple[list[str], list[str], str]] = {
    "a line more": (
        LINES,
        [*LINES[:7], "", *LINES[7:]],
        r"a has 30 lines and .*b has 31; .* unlike at line 8: .* / ''",
    ),
    "a line less": (LINES, LINES[:-1], "30 lines .* 29; .*no line before the 29th"),
    "one line": (["eins"], ["eins"], "too few to hold some out for valid and test"),
    "one line in three forms": (["eins", "Eins", " eins"], ["1"] * 3, "has 1 different line, too few"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_text_of_different_length_and_too_little_are_refused(case: str, tmp_path: Path) -> None:
    source, target, says = REFUSED[case]
    with pytest.raises(ValueError, match=says):
        parallel(train=[write(tmp_path / "a", *source), write(tmp_path / "b", *target)])


def test_text_of_which_nothing_remains_is_refused(tmp_path: Path) -> None:
    empty, held = [write(tmp_path / "empty", "", "")] * 2, [write(tmp_path / "a", "eins")] * 2
    with pytest.raises(ValueError, match=r"no pair of the train split remains \(read 2, empty 2"):
        parallel(train=empty, valid=held, test=held)


def write_archive(path: Path, pairs: list[tuple[str, str]]) -> None:
    """An archive in the form of IWSLT14's de-en.tgz: tagged training text and test files in XML."""
    members: dict[str, str] = {}
    for side, language in enumerate(("de", "en")):
        head = "<url>http://www.ted.com/1</url>\n<keywords>talks, things</keywords>\n<talkid>1</talkid>\n"
        head += f"<title>Titel {language}: etwas</title>\n<description>TED: Über alles.</description>\n"
        body = "".join(f" {pair[side]} \n" for pair in pairs)
        members[f"train.tags.de-en.{language}"] = head + body
        for name in TESTS:
            members[f"IWSLT14.{name}.de-en.{language}.xml"] = (
                '<?xml version="1.0"?>\n<doc docid="1">\n<title>not this</title>\n'
                f'<seg id="1"> {name} isn’t "{language}". </seg>\n<seg id="22">Zwei</seg>\n</doc>\n'
            )
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, text in members.items():
            content = text.encode()
            info = tarfile.TarInfo(f"de-en/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def test_iwslt14_preparation(tmp_path: Path) -> None:
    """Titles and descriptions stay without their tags, long and unequal pairs go, every 23rd is for validation."""
    pairs = [(f"Das ist Satz x{i}.", f"This's sentence x{i}.") for i in range(100)]
    pairs[10] = ("Ja.", "Yes, this is far longer than that.")  # ratio
    pairs[11] = ("lang " * 176, "long " * 176)
    pairs[12] = ("lang " * 175, "long " * 175)
    pairs[13] = ("", "")
    write_archive(tmp_path / "iwslt14" / "de-en.tgz", pairs)
    found = prepare_archive(tmp_path / "iwslt14" / "de-en.tgz", "de", "en")
    kept = 102 - 3
    assert [len(found[split].source) for split in ("train", "valid", "test")] == [kept - kept // 23, kept // 23, 10]
    assert found["train"].notes == {"lines": 102, "cleaned_away": 3}
    assert found["valid"].notes == found["test"].notes == {}
    assert found["train"].source[:3] == ["Titel de : etwas", "TED : Über alles .", "Das ist Satz x0 ."]
    assert found["valid"].source[0] == "Das ist Satz x23 ."  # clean line 23: two of the head, 0 to 9, 12, 14 and on
    assert found["train"].target[2] == "This &apos;s sentence x0 ."
    assert found["test"].target[:2] == ["TED.dev2010 isn &apos;t &quot; en &quot; .", "Zwei"]
    assert found["test"].plain[0] == 'TED.dev2010 isn\'t "en".'

    made = task("iwslt14", {"merges": 40}, tmp_path)
    assert "das ist satz x0 ." in sources(made, "train")  # in small letters
    pairs = made.describe()["pairs"]
    assert pairs["train"]["lines"] == 102
    assert pairs["valid"] == {"read": 4, "empty": 0, "too_many_tokens": 0, "in_train": 0, "kept": 4}
    back = task("iwslt14", {"merges": 40, "direction": "en-de"}, tmp_path)
    assert back.text("test").target == found["test"].source


def test_an_incomplete_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "iwslt14" / "de-en.tgz"
    path.parent.mkdir()
    with tarfile.open(path, "w:gz"):
        pass
    with pytest.raises(ValueError, match=r"lacks train.tags.de-en.de, .*put the official de-en.tgz there"):
        task("iwslt14", {}, tmp_path)
    path.write_bytes(b"no archive")
    with pytest.raises(ValueError, match="damaged"):
        task("iwslt14", {}, tmp_path)


def test_wmt14_preparation(tmp_path: Path) -> None:
    """Three corpora are joined, punctuation normalised, hyphens split, pairs of more than 80 words left out."""
    for stem in ("europarl-v7.de-en", "commoncrawl.de-en", "news-commentary-v12.de-en"):
        write(tmp_path / "wmt14" / f"{stem}.en", f"A “well-known” {stem} Dog.", "word " * 81)
        write(tmp_path / "wmt14" / f"{stem}.de", f"Ein „bekannter“ {stem} Hund.", "Wort " * 80)
    for stem in ("newstest2013", "newstest2014"):
        write(tmp_path / "wmt14" / f"{stem}.en", f"It’s {stem}.")
        write(tmp_path / "wmt14" / f"{stem}.de", f"Es ist {stem}.")
    made = task("wmt14", {"merges": 20}, tmp_path)
    train = made.describe()["pairs"]["train"]
    assert (train["read"], train["too_many_words"], train["kept"]) == (6, 3, 3)
    assert "A &quot; well @-@ known &quot; europarl @-@ v7.de @-@ en Dog ." in sources(made, "train")
    assert made.text("test").source == ["It &apos;s newstest2014 ."]
    assert made.text("test").plain == ["Es ist newstest2014."]
    typed = made.codec.form.prepare(["A “well-known” commoncrawl.de-en Dog."], "en")
    assert typed[0] in sources(made, "train")  # what people translate is written as in training, with no quotes unknown


@pytest.fixture
def europarl(tmp_path: Path) -> Path:
    for side in ("de", "en"):
        write(tmp_path / "europarl-de-en" / f"train.{side}", *sentences(120))
    return tmp_path


def test_europarl_holds_out_its_last_lines(europarl: Path) -> None:
    made = task("europarl", {"held": 20, "merges": 30}, europarl)
    assert made.splits == ("train", "valid", "test")  # newstest2014 is not there
    assert made.text("valid").source == sentences(120)[100:110]
    assert made.text("test").source == sentences(120)[110:]
    with pytest.raises(ValueError, match="120 lines, too few to hold out 200"):
        task("europarl", {"held": 200}, europarl)


def test_a_second_name_of_a_split_is_not_prepared(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {stem: 20 + 5 * number for number, stem in enumerate(COUNTS)}
    monkeypatch.setattr("splitstep.tasks.pairs.corpora.COUNTS", counts)
    for stem, side in itertools.product(counts, ("en", "de")):
        write(tmp_path / "multi30k" / f"{stem}.{side}", *sentences(counts[stem], seed=counts[stem]))
    made = task("multi30k", {"merges": 30}, tmp_path)
    assert made.tests == ("test2016", "test2017", "coco")
    assert made.splits == ("train", "valid", *made.tests, "test")
    assert made.text("test") == made.text("test2016")
    assert len(made.text("test").source) == counts["test_2016_flickr"]
    for one, two in zip(made.batches("test", 400), made.batches("test2016", 400), strict=True):
        assert all(torch.equal(one[key], two[key]) for key in two)
    assert list(made.describe()["pairs"]) == ["train", "valid", *made.tests]
    assert not list(cache.glob("translation/*/test.*"))


@pytest.mark.nightly
def test_real_data_has_its_published_size(data: Path) -> None:
    made = task("multi30k", {"direction": "de-en"}, data)
    assert made.tests == ("test2016", "test2017", "coco")  # `test` is the first under a second name
    assert made.splits == ("train", "valid", "test2016", "test2017", "coco", "test")
    kept = [entry["kept"] for entry in made.describe()["pairs"].values()]
    assert kept == [29_000, 1014, 1000, 1000, 461]
    assert made.describe()["padding"]["train"] < 0.2
    ted = task("ted", {"limit": 2000}, data)
    pairs = ted.describe()["pairs"]
    assert (pairs["train"]["read"], pairs["valid"]["kept"], pairs["test"]["kept"]) == (48_262, 7283, 6750)


SIZE, STEPS = 96, 40


BUCKETED = {"train": 3000, "valid": 20, "test": 20, "merges": 60, "buckets": [10, 12, 14, 20]}


def walked(data: Any, seed: int) -> Iterator[tuple[list[list[int]], list[list[int]], int]]:
    """Rows of source and target tokens, and their padded width, batch by batch, by walking from the first one."""
    pairs = data.prepared.pairs["train"]
    sides = [
        [side.tokens[a:b].tolist() for a, b in zip(side.offsets[:-1], side.offsets[1:], strict=True)] for side in pairs
    ]
    widths = data.batching.trained
    members = [[] for _ in widths]
    for row, both in enumerate(zip(*sides, strict=True)):
        members[next(b for b, width in enumerate(widths) if max(map(len, both)) <= width)].append(row)

    def stream(bucket: int) -> Iterator[int]:
        epoch = 0
        while True:
            yield from (
                members[bucket][i] for i in generator(seed, epoch, ROWS, bucket).permutation(len(members[bucket]))
            )
            epoch += 1

    streams, many, epoch = [stream(b) for b in range(len(widths))], [rows_of(SIZE, width) for width in widths], 0
    while True:
        batches = [(epoch + 1) * len(m) // r - epoch * len(m) // r for m, r in zip(members, many, strict=True)]
        for bucket in generator(seed, epoch, ORDER).permutation(np.repeat(np.arange(len(widths)), batches)):
            rows = list(itertools.islice(streams[bucket], many[bucket]))
            yield [sides[0][row] for row in rows], [sides[1][row] for row in rows], widths[bucket]
        epoch += 1


def test_batches_are_those_of_a_walk_from_the_first() -> None:
    seed, data = 7, task("numbers", BUCKETED)
    options, alone = TrainOptions(steps=STEPS, batch=SIZE, seed=seed), Processes(0, 1, torch.device("cpu"))
    shapes = set()
    with prefetched(lambda step: work_for(data, options, step, alone), 0, STEPS) as works:
        for step, (work, (source, target, width)) in enumerate(zip(works, walked(data, seed), strict=False)):
            [part] = work.parts
            expected = {
                "input_ids": [row + [0] * (width - len(row)) for row in source],
                "attention_mask": [[1] * len(row) + [0] * (width - len(row)) for row in source],
                "labels": [row + [-100] * (width - len(row)) for row in target],
            }
            assert {name: x.tolist() for name, x in part.items()} == expected
            assert all(x.dtype == torch.int64 for x in part.values())
            assert work.items.item() == work.tokens == sum(map(len, target))
            assert torch.equal(work.seeds[0], dropout_seed(seed, step, 0, 0))
            shapes.add(work.shape)
    assert len(shapes) >= 3


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_batches_for_a_gpu_are_the_same_in_pinned_memory() -> None:
    data, options = task("numbers", BUCKETED), TrainOptions(steps=STEPS, batch=SIZE)
    for step in range(5):
        here, there = (work_for(data, options, step, Processes(0, 1, torch.device(kind))) for kind in ("cpu", "cuda"))
        for one, two in zip(here.tensors(), there.tensors(), strict=True):
            assert two.is_pinned()
            assert torch.equal(one, two)
