"""Parallel text: public sets, a user's own two files, and numbers in words, which need no data."""

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from ...support.documents import split_lines
from ...support.words import counted
from ...text.files import Source, data_root, find, find_own, locate, read_text, require
from ...text.lines import Lines, chosen, folded, hold_out, read_pairs
from ...text.splits import SPLITS
from ..task import Data, DataNote, task_row
from .codec import TextForm
from .prepared import PairOptions, Part, PlainOptions, pair_part, split_parts
from .translation import COMPOUNDS, EXACT, SACREBLEU, Direction, Translation

# Multi30k: 29,000 captions of pictures, the standard small translation set.
CAPTIONS = "https://github.com/multi30k/dataset/raw/master/data/task1/raw/"
CAPTION_FILES = {
    "train": "train",
    "valid": "val",
    "test2016": "test_2016_flickr",
    "test2017": "test_2017_flickr",
    "coco": "test_2017_mscoco",
}
COUNTS = {"train": 29_000, "val": 1014, "test_2016_flickr": 1000, "test_2017_flickr": 1000, "test_2017_mscoco": 461}
HASHES = {
    "test_2016_flickr.de": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2017_flickr.de": "a2c89666db00c495cd8513b9d708d5a3acc205d7de312ef2bf5fb7ebc1540aee",
    "test_2017_flickr.en": "76a444ee25172e72695cddb13ae4a3bda59430617be88e0bb46b60504f054074",
    "test_2017_mscoco.de": "799e4854c25d601cb6cb6be29eabe5667734c61ace2f495e03e429031a0bc338",
    "test_2017_mscoco.en": "aab300bfb4427697987e02cd0aacd44bfe8aa50456231b6474c08038bbed2b58",
    "train.de": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "val.de": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
}
MOST = 1_000_000  # bytes of a packed file


@dataclass(frozen=True, kw_only=True)
class Multi30kOptions(PlainOptions):
    """As in the papers: lower-cased Moses tokens."""

    direction: Direction = "en-de"
    tokens: Literal["plain", "moses"] = "moses"
    lower: bool = True


def read_multi30k(options: Multi30kOptions, data: Path | None = None) -> Data:
    parts = {}
    for split, stem in CAPTION_FILES.items():
        names = [f"{stem}.{side}" for side in options.languages]
        files = [Source(f"multi30k/{name}.gz", f"{CAPTIONS}{name}.gz", HASHES[name], MOST) for name in names]
        paths = tuple(locate(data_root(data), file, file.name.removesuffix(".gz")) for file in files)
        parts[split] = Part(paths, partial(read_captions, *paths, stem))
    more = {"aliases": {"test": "test2016"}}  # what `evaluate` takes by default
    return Data(parts, {"name": "Multi30k task 1, raw", "url": CAPTIONS}, options.form, more=more)


def read_captions(source: Path, target: Path, stem: str) -> Lines:
    """A split of the published size."""
    lines = read_pairs(source, target)
    if len(lines.source) != COUNTS[stem]:
        raise ValueError(
            f"{source} has {len(lines.source):,} lines and Multi30k's {COUNTS[stem]:,}: put the published file there"
        )
    return lines


MULTI30K = task_row(
    "multi30k", "Captions, English-German in either direction; `test` is another name of `test2016`.", Translation,
    Multi30kOptions,
    DataNote("32,475 pairs, 1.4 MB", "fetched", tuple(f"multi30k/{name}.gz" for name in sorted(HASHES)), CAPTIONS),
    read_multi30k,
)  # fmt: skip


# Tatoeba: short everyday sentences, many with several translations.
SENTENCES = "tatoeba-deu-eng/deu-eng.zip"
SENTENCES_FROM = "https://www.manythings.org/anki/ (deu-eng.zip, CC-BY 2.0)"


@dataclass(frozen=True, kw_only=True)
class TatoebaOptions(PlainOptions):
    """`held`: how many different source sentences are held out for each of valid and test."""

    direction: Direction = "de-en"
    held: int = 2500
    LEAST: ClassVar[dict[str, int]] = PlainOptions.LEAST | {"held": 1}


def read_tatoeba(options: TatoebaOptions, data: Path | None = None) -> Data:
    path = require(data_root(data), "tatoeba", SENTENCES_FROM, SENTENCES, "tatoeba-deu-eng/deu.txt")
    parts = split_parts((path,), partial(split_sentences, path, options.direction, options.held))
    split = "by the hash of the source sentence"
    source = {"name": "Tatoeba German-English", "url": SENTENCES_FROM, "split": split}
    return Data(parts, source, options.form, measure=SACREBLEU, more={"cached": {"held": options.held}})


def split_sentences(path: Path, direction: str, held: int) -> dict[str, Lines]:
    """Lines `english<TAB>german[<TAB>licence]`, split by source sentence."""
    rows = [line.split("\t") for line in split_lines(read_text(path, member="deu.txt"))]
    for number, row in enumerate(rows, 1):
        if len(row) < 2:
            raise ValueError(f"{path}, line {number}: has no tab; it should hold english<TAB>german")
    english, german = [row[0] for row in rows], [row[1] for row in rows]
    lines = Lines(english, german) if direction == "en-de" else Lines(german, english)
    return {split: chosen(lines, rows) for split, rows in hold_out(lines.source, {"valid": held, "test": held}).items()}


TATOEBA = task_row(
    "tatoeba", "Short sentences; the splits share no source sentence.", Translation, TatoebaOptions,
    DataNote("169,813 pairs, 4 MB", "by hand", (SENTENCES,), SENTENCES_FROM), read_tatoeba,
)  # fmt: skip


# TED talks in the form of the IWSLT14 files, tested on the IWSLT14 test set.
TED_HELD = "iwslt14-de-en-valid-test"
TED_FILES = {"train": "ted-de-en/train", "valid": f"{TED_HELD}/valid", "test": f"{TED_HELD}/test"}
TED_FROM = (
    "your own copy of TED talks, one sentence per line, Moses-tokenised, escaped and lower-cased as IWSLT14's "
    "prepare-iwslt14.sh writes them"
)


@dataclass(frozen=True, kw_only=True)
class TedOptions(PairOptions):
    """The limits of IWSLT14: 1 to 175 words, and a length ratio of 1.5."""

    direction: Direction = "de-en"
    words: int | None = 175
    ratio: float | None = 1.5


def read_ted(options: TedOptions, data: Path | None = None) -> Data:
    root = data_root(data)
    parts = {
        split: pair_part(*(require(root, "ted", TED_FROM, f"{stem}.{side}") for side in options.languages))
        for split, stem in TED_FILES.items()
    }
    source = {"name": "TED talks; IWSLT14 valid and test", "references": "tokenised, in small letters"}
    return Data(parts, source, TextForm(*options.languages, "given", True))


TED = task_row(
    "ted", "TED talks; valid and test are those of IWSLT14.", Translation, TedOptions,
    DataNote(
        "48,262 pairs, 3 MB", "by hand",
        tuple(f"{stem}.{side}" for stem in TED_FILES.values() for side in ("de", "en")), TED_FROM,
    ), read_ted,
)  # fmt: skip


# Europarl: speeches.
SPEECHES_FROM = "https://www.statmt.org/europarl/v7/de-en.tgz, its lines shuffled"
SPEECHES = ("europarl-de-en/train.de", "europarl-de-en/train.en")
NEWSTEST = {"en": "wmt-newstest-en-de/newstest2014.eng", "de": "wmt-newstest-en-de/newstest2014.deu"}


@dataclass(frozen=True, kw_only=True)
class EuroparlOptions(PlainOptions):
    """`held`: how many of the last lines are held out, half for validation and half for test."""

    direction: Direction = "de-en"
    merges: int = 32_000
    ratio: float | None = 2.0
    longest: int = 128
    held: int = 5000
    LEAST: ClassVar[dict[str, int]] = PlainOptions.LEAST | {"held": 2}


def read_europarl(options: EuroparlOptions, data: Path | None = None) -> Data:
    """`newstest2014` is a split if its files exist."""
    root = data_root(data)
    names = [f"europarl-de-en/train.{side}" for side in options.languages]
    files = tuple(require(root, "europarl", SPEECHES_FROM, name) for name in names)
    parts = split_parts(files, partial(split_speeches, *files, options.held))
    news = [path for side in options.languages if (path := find(root, NEWSTEST[side])) is not None]
    if len(news) == 2:
        parts["newstest2014"] = pair_part(*news)
    source = {"name": "Europarl v7 German-English", "url": SPEECHES_FROM, "split": "the last lines are held out"}
    return Data(parts, source, options.form, measure=COMPOUNDS, more={"cached": {"held": options.held}})


def split_speeches(source: Path, target: Path, held: int) -> dict[str, Lines]:
    """All but the last `held` lines for training; their first half for validation, their second half for test."""
    lines = read_pairs(source, target)
    n = len(lines.source)
    if n <= held:
        raise ValueError(f"{source} has {n:,} lines, too few to hold out {held:,}; give more, or lower option held")
    first, middle = n - held, n - held // 2
    bounds = {"train": (0, first), "valid": (first, middle), "test": (middle, n)}
    return {split: chosen(lines, range(*bound)) for split, bound in bounds.items()}


EUROPARL = task_row(
    "europarl", "Speeches; the last lines are held out, and `newstest2014` is a split if its files exist.", Translation,
    EuroparlOptions, DataNote("600,000 pairs in our results, 40 MB", "by hand", SPEECHES, SPEECHES_FROM), read_europarl,
)  # fmt: skip


# A user's own parallel text: two files, line by line.
OWN = "parallel"
MOST_HELD = 2000  # source sentences held out for a split that has no files, and at most a twentieth of them


@dataclass(frozen=True, kw_only=True)
class ParallelOptions(PlainOptions):
    """`train`, `valid`, `test`: source file and target file, plain, .gz or .xz; splits not given are held out of train.

    `direction`: the two languages, e.g. fr-en; Moses tokens differ between languages.
    """

    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    ratio: float | None = 3.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.train:
            raise ValueError("option train is missing; name the source file and the target file: train: [my.en, my.de]")
        for split in SPLITS:
            names = self.files(split)
            if len(names) not in (0, 2):
                raise ValueError(
                    f"option {split} names {counted(len(names), 'file')}, {', '.join(names)}; it needs two, source and "
                    f"target: {split}: [my.en, my.de]"
                )
        if not re.fullmatch(r"[a-z]{2,3}-[a-z]{2,3}", self.direction):
            raise ValueError(f'option direction is "{self.direction}", and needs two languages such as en-de')

    def files(self, split: str) -> tuple[str, ...]:
        """The names of a split's files; `my.en, my.de` on a command line is one text, and means two."""
        names: tuple[str, ...] = getattr(self, split)
        return tuple(map(str.strip, names[0].split(","))) if len(names) == 1 else names


def read_parallel(options: ParallelOptions, data: Path | None = None) -> Data:
    files = {split: tuple(find_own(name, OWN, data) for name in options.files(split)) for split in SPLITS}
    held = [split for split in ("valid", "test") if not files[split]]
    parts = split_parts(files["train"], partial(split_own, *files["train"], held))
    parts |= {split: pair_part(*files[split]) for split in ("valid", "test") if files[split]}
    source = {"name": "own parallel text", "held_out_of_train": held}
    return Data(parts, source, options.form, measure=SACREBLEU, more={"cached": {"held": held}})


def split_own(source: Path, target: Path, held: list[str]) -> dict[str, Lines]:
    """The training pairs, and those held out of them for the named splits."""
    lines = read_pairs(source, target)
    if not held:
        return {"train": lines}
    different = len(set(map(folded, lines.source)))
    share = min(MOST_HELD, max(1, different // 20))
    if different <= len(held) * share:
        raise ValueError(
            f"{source} has {counted(different, 'different line')}, too few to hold some out for {' and '.join(held)}; "
            "give more lines, or files for those splits"
        )
    return {split: chosen(lines, rows) for split, rows in hold_out(lines.source, dict.fromkeys(held, share)).items()}


PARALLEL = task_row(
    OWN, "Any two files; line i of one translates line i of the other.", Translation, ParallelOptions,
    DataNote("any two files", "your own"), read_parallel,
)  # fmt: skip


# Numbers in words, English and German.
ENGLISH = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]  # fmt: skip
ENGLISH_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
GERMAN = [
    "null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf",
    "dreizehn", "vierzehn", "fünfzehn", "sechzehn", "siebzehn", "achtzehn", "neunzehn",
]  # fmt: skip
GERMAN_TENS = ["zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"]
MILLION = 1_000_000
OFTEN = 500  # how many times training repeats 0


def english(n: int) -> str:
    """A number below a million in English words: "forty-two thousand three hundred and one"."""
    if n < 20:
        return ENGLISH[n]
    if n < 100:
        return ENGLISH_TENS[n // 10 - 2] + (f"-{ENGLISH[n % 10]}" if n % 10 else "")
    if n < 1000:
        return f"{ENGLISH[n // 100]} hundred" + (f" and {english(n % 100)}" if n % 100 else "")
    rest = n % 1000
    joined = "" if not rest else f" and {english(rest)}" if rest < 100 else f" {english(rest)}"
    return f"{english(n // 1000)} thousand{joined}"


def german(n: int, last: bool = True) -> str:
    """A number below a million as one German word, ones before tens; 1 is "eins" only at the end of the word."""
    if n < 20:
        return GERMAN[n] if last or n != 1 else "ein"
    if n < 100:
        tens = GERMAN_TENS[n // 10 - 2]
        return f"{german(n % 10, last=False)}und{tens}" if n % 10 else tens
    unit, name = (1000, "tausend") if n >= 1000 else (100, "hundert")
    return german(n // unit, last=False) + name + (german(n % unit) if n % unit else "")


@dataclass(frozen=True, kw_only=True)
class NumbersOptions(PairOptions):
    """`highest`: the numbers are 0 to this; `train`, `valid` and `test`: how many different ones each split has.

    Training repeats the small ones.
    """

    direction: Direction = "en-de"
    merges: int = 60
    highest: int = 99_999
    train: int = 20_000
    valid: int = 500
    test: int = 500
    seed: int = 0
    LEAST: ClassVar[dict[str, int]] = PairOptions.LEAST | {"highest": 3, "train": 1, "valid": 1, "test": 1, "seed": 0}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.highest >= MILLION:
            raise ValueError(f"option highest is {self.highest}, and needs a number below a million")
        if self.train + self.valid + self.test > self.highest + 1:
            raise ValueError(
                f"options train {self.train}, valid {self.valid} and test {self.test} are more than the "
                f"{self.highest + 1} numbers up to highest; raise highest, or ask for fewer"
            )


def read_numbers(options: NumbersOptions, data: Path | None = None) -> Data:
    """Those of validation and test are not in training."""
    sizes = {"train": options.train, "valid": options.valid, "test": options.test}
    order = drawn(options.highest, sum(sizes.values()), options.seed)
    train, rest = order[: options.train], order[options.train :]
    often = [
        n for n in train for _ in range(max(1, OFTEN // (n + 1)))
    ]  # people try small ones first, and few there are
    splits = {"train": often, "valid": rest[: options.valid], "test": rest[options.valid :]}
    sides = options.languages
    parts = {split: Part((), partial(lines_of_numbers, numbers, *sides)) for split, numbers in splits.items()}
    source = {"name": "numbers in words", "highest": options.highest, "seed": options.seed}
    cached = {"highest": options.highest, "seed": options.seed, "often": OFTEN, **sizes}
    return Data(parts, source, TextForm(*sides), measure=EXACT, more={"cached": cached})


def drawn(highest: int, count: int, seed: int) -> list[int]:
    """Different numbers from 0 to `highest` in random order, n with a weight of 1 / (n + 1)."""
    random = np.random.Generator(np.random.Philox(seed))
    late = random.exponential(size=highest + 1) * np.arange(1, highest + 2)
    return random.permutation(np.argsort(late)[:count]).tolist()


def lines_of_numbers(numbers: list[int], source: str, target: str) -> Lines:
    write = {"en": english, "de": german}
    return Lines(list(map(write[source], numbers)), list(map(write[target], numbers)))


NUMBERS = task_row(
    "numbers", "Numbers in words; those of validation and test are not in training.", Translation, NumbersOptions,
    DataNote("21,000 numbers", "generated"), read_numbers,
)  # fmt: skip
