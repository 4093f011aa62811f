"""Sixty and more kinds of bad input, and the commands that read each: a folder of sound files, of which one is spoilt."""

from __future__ import annotations

import gzip
import json
import lzma
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import made_up
import numpy as np
import pretrained_folders
from children import NUMBERS, RECIPE, trained

SMALL = {"layers": 1, "width": 16, "heads": 2, "ffn": 16}
SHORT = {"steps": 2, "evaluate_every": 2}
RECIPES: dict[str, dict[str, Any]] = {
    "digits": RECIPE | {"train": RECIPE["train"] | SHORT},
    "book": {"task": "text", "data": {"path": ["book.txt"], "length": 16, "tokens": "bpe", "vocab_size": 300},
             "model": SMALL, "train": {**SHORT, "batch": 4}},
    "numbers": NUMBERS | {"train": {**SHORT, "batch": 512}},
    "classes": {"task": "classify", "data": {"train": "rows.csv"}, "model": SMALL, "train": {**SHORT, "batch": 8}},
    "pictures": {"task": "images", "data": {"train": "photos", "size": 8}, "model": SMALL,
                 "train": {**SHORT, "batch": 8}},
    "pairs": {"task": "parallel", "data": {"train": ["a.de", "a.en"], "direction": "de-en", "vocab": 40}, "model": SMALL | {"decoder_layers": 1},
              "train": {**SHORT, "batch": 512}},
}  # fmt: skip


def sound(folder: Path) -> None:
    """Recipes, texts, tables, images, runs, models and a result that are as they should be."""
    for name, recipe in RECIPES.items():
        (folder / f"{name}.yaml").write_text(json.dumps(recipe))
    write_data(folder)
    made_up.comparison([made_up.trial(text, seed, 0.9) for text in ("lie", "macaron") for seed in range(3)]).save(
        folder / "stored"
    )
    pretrained_folders.saved(folder / "llama", pretrained_folders.llama(1))
    for name in ("digits", "book", "numbers", "classes"):
        trained(RECIPES[name], folder / name)


def write_data(folder: Path) -> None:
    """Texts, tables and images."""
    from PIL import Image

    (folder / "book.txt").write_text("".join(f"the cat number {n * n} sat on the mat\n" for n in range(400)))
    (folder / "prompts.txt").write_text("the cat sat on the mat\nthe dog ran over the bridge\n")
    (folder / "prompts.jsonl").write_text('{"text": "the cat sat"}\n{"text": "the dog ran"}\n')
    rows = [{"instruction": f"say {n}", "response": f"the cat {n} sat"} for n in range(12)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "rows.csv").write_text("text,label\n" + "".join(f"word{n % 7} {n},{'ab'[n % 2]}\n" for n in range(60)))
    (folder / "a.de").write_text("".join(f"eins {n}\n" for n in range(60)))
    (folder / "a.en").write_text("".join(f"one {n}\n" for n in range(60)))
    for number in range(24):
        image = Image.fromarray(np.full((8, 8), number, np.uint8))
        (folder / "photos" / "ab"[number % 2]).mkdir(parents=True, exist_ok=True)
        image.save(folder / "photos" / "ab"[number % 2] / f"{number}.png")


class Kind(NamedTuple):
    """What becomes of a file, and the commands that read it."""

    file: str
    spoilt: bytes | Callable[[bytes], bytes] | None  # None: a directory
    lines: tuple[str, ...]


@contextmanager
def spoilt(kind: Kind, folder: Path) -> Iterator[None]:
    """Inside, the file is spoilt."""
    file = folder / kind.file
    before = file.read_bytes() if file.exists() else None
    if kind.spoilt is None:
        file.unlink(missing_ok=True)
        file.mkdir()
    else:
        file.write_bytes(kind.spoilt if isinstance(kind.spoilt, bytes) else kind.spoilt(before or b""))
    try:
        yield
    finally:
        file.rmdir() if kind.spoilt is None else file.unlink()
        if before is not None:
            file.write_bytes(before)


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def entries(**more: Any) -> Callable[[bytes], bytes]:
    """A JSON object with other entries."""
    return lambda content: json.dumps({**json.loads(content), **more}).encode()


def lacks(*names: str) -> Callable[[bytes], bytes]:
    """A JSON object without these entries."""
    return lambda content: json.dumps({k: v for k, v in json.loads(content).items() if k not in names}).encode()


def line(text: str) -> Callable[[bytes], bytes]:
    """A text with one line more."""
    return lambda content: content + text.encode("utf-8", "surrogatepass") + b"\n"


def stored_float(value: float, name: str | None = None) -> Callable[[bytes], bytes]:
    """Weights of which the last matrix, or the one named, has this value in it."""

    def change(content: bytes) -> bytes:
        from safetensors.torch import load, save

        weights = load(content)
        chosen = name or max(name for name, x in weights.items() if x.ndim > 1)
        weights[chosen] = weights[chosen].clone()
        weights[chosen].view(-1)[-1] = value
        return save(weights, {"format": "pt"})

    return change


def tiff(value: float) -> bytes:
    """A float image with one pixel of this value."""
    import io

    from PIL import Image

    pixels = np.zeros((8, 8), np.float32)
    pixels[3, 3] = value
    Image.fromarray(pixels).save(out := io.BytesIO(), "TIFF")
    return out.getvalue()


DEEP = 5_000
DEEP_JSON = b'{"a": ' + b"[" * DEEP + b"]" * DEEP + b"}"
DEEP_YAML = b"a: " + b"[" * DEEP + b"]" * DEEP
DEEP_BLOCK = b"".join(b" " * n + b"a:\n" for n in range(2_000))
SURROGATE = '{"text": "a\\ud800b", "instruction": "a\\ud800b", "response": "\\udfff", "label": "\\ud800"}'

RECIPE_VERBS = (
    "train r.yaml", "compare r.yaml --schemes lie", "ablate r.yaml", "converge r.yaml --depths 1,2,4",
)  # fmt: skip
MODEL = (
    "inspect {} --text prompts.txt", "inspect llama --against {} --text prompts.txt", "converge {} --text prompts.txt", "generate {}",
    "evaluate {} --task text data.path=book.txt",
    "distil {} --student-layers 1 --text rows.jsonl",
    "distil llama {} --text rows.jsonl",
    "compare distil {} --student-layers 1 --text rows.jsonl --methods ce",
    "train book.yaml data.tokenizer={}", "train digits.yaml start={}",
)


def of(model: str, lines: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(one.format(model) for one in lines)


REPORT = ("report stored", "report stored --markdown")
CLASSES = ("train classes.yaml", "compare classes.yaml --schemes lie", "ablate classes.yaml")
PICTURES = ("train pictures.yaml", "compare pictures.yaml --schemes lie")
BOOK = ("train book.yaml", "compare book.yaml --schemes lie", "inspect llama --text book.txt", "converge llama --text book.txt",
        "distil llama --student-layers 1 --text book.txt", "evaluate llama --task text data.path=book.txt")
PROMPTS = ("inspect llama --text prompts.jsonl", "converge llama --text prompts.jsonl")
ROWS = ("distil llama --student-layers 1 --text rows.jsonl",
        "compare distil llama --student-layers 1 --text rows.jsonl --methods ce",
        "compare distil llama --student-layers 1 --text prompts.txt --questions rows.jsonl --methods ce",)
PAIRS = ("train pairs.yaml", "compare pairs.yaml --schemes lie")
HF = of("llama", MODEL)
RUN = ("inspect book --text prompts.txt", "generate book", "inspect llama --against book --text prompts.txt",
       "distil book --student-layers 1 --text rows.jsonl", "evaluate book/model --task text data.path=book.txt",
       "converge book", "evaluate book", "train book.yaml start=book")
DIGITS = ("inspect digits", "converge digits", "evaluate digits", "evaluate digits/model --task digits",
          "train digits.yaml start=digits", "compare glue --start lie=digits")
TOKENIZER = (
    *(one for one in RUN if not one.startswith(("converge", "evaluate", "train"))), "train book.yaml data.tokenizer=book/model",
)  # fmt: skip
LLAMA_TOKENIZER = (*HF[:8], "train book.yaml data.tokenizer=llama")
CLASSIFIER = ("predict classes", "evaluate classes", "inspect classes")
TRANSLATOR = ("translate numbers", "evaluate numbers", "inspect numbers")
BASE = json.dumps(RECIPES["digits"]).encode()


def recipe(**sections: Any) -> bytes:
    return json.dumps(RECIPES["digits"] | sections).encode()


def train_entry(text: str) -> bytes:
    return f"task: digits\ntrain: {{{text}}}\n".encode()


KINDS: dict[str, Kind] = {
    "a recipe that is empty": Kind("r.yaml", b"", RECIPE_VERBS),
    "a recipe that is a list": Kind("r.yaml", b"[task, digits]", RECIPE_VERBS),
    "a recipe that is a number": Kind("r.yaml", b"3", RECIPE_VERBS),
    "a recipe with an open bracket": Kind("r.yaml", b"task: [digits\n", RECIPE_VERBS),
    "a recipe of deep brackets": Kind("r.yaml", DEEP_YAML, RECIPE_VERBS),
    "a recipe of deep entries": Kind("r.yaml", DEEP_BLOCK, RECIPE_VERBS),
    "a recipe with an alias": Kind("r.yaml", b"task: &a digits\nabout: *a\n", RECIPE_VERBS),
    "a recipe with an entry twice": Kind("r.yaml", b"task: digits\ntask: listops\n", RECIPE_VERBS),
    "a recipe that builds an object": Kind("r.yaml", b"task: !!python/object/apply:os.system [ls]\n", RECIPE_VERBS),
    "a recipe with a tab": Kind("r.yaml", b"task: digits\ntrain:\n\tsteps: 3\n", RECIPE_VERBS),
    "a recipe of two documents": Kind("r.yaml", b"task: digits\n---\ntask: digits\n", RECIPE_VERBS),
    "a recipe with NUL": Kind("r.yaml", b"task: dig\0its\n", RECIPE_VERBS),
    "a recipe with a control character": Kind("r.yaml", b"task: dig\x07its\n", RECIPE_VERBS),
    "a recipe in Latin 1": Kind("r.yaml", "about: {what: größer}\ntask: digits\n".encode("latin1"), RECIPE_VERBS),
    "a recipe in UTF-16": Kind("r.yaml", "task: digits\n".encode("utf-16"), RECIPE_VERBS),
    "a recipe with half a character": Kind("r.yaml", b'task: "dig\\ud800its"\n', RECIPE_VERBS),
    "a recipe that is a folder": Kind("r.yaml", None, RECIPE_VERBS),
    "a recipe with endless steps": Kind("r.yaml", train_entry("steps: 1000000000000000000"), RECIPE_VERBS),
    "a recipe with steps of 400 digits": Kind("r.yaml", train_entry("steps: 1" + "0" * 400), RECIPE_VERBS),
    "a recipe with steps of 5000 digits": Kind("r.yaml", train_entry("steps: 1" + "0" * 5000), RECIPE_VERBS),
    "a recipe with a rate that is no number": Kind("r.yaml", train_entry("lr: .nan"), RECIPE_VERBS),
    "a recipe with an infinite rate": Kind("r.yaml", train_entry("lr: .inf"), RECIPE_VERBS),
    "a recipe with an unknown task": Kind("r.yaml", b"task: digitss\n", RECIPE_VERBS),
    "a recipe with a task that is a list": Kind("r.yaml", b"task: [digits]\n", RECIPE_VERBS),
    "a recipe with a key that is a list": Kind("r.yaml", b"task: digits\n? [a, b]\n: 3\n", RECIPE_VERBS),
    "a recipe with a key that is a number": Kind("r.yaml", b"task: digits\n3: 4\n", RECIPE_VERBS),
    "a recipe with a date": Kind("r.yaml", b"task: digits\ntrain: {steps: 2026-11-19}\n", RECIPE_VERBS),
    "a recipe with a date that never was": Kind("r.yaml", b"task: digits\ntrain: {steps: 2026-02-31}\n", RECIPE_VERBS),
    "a recipe with a set": Kind("r.yaml", b"task: digits\nmodel: !!set {width, heads}\n", RECIPE_VERBS),
    "a recipe with bytes": Kind("r.yaml", b"task: !!binary aGk=\n", RECIPE_VERBS),
    "a recipe with a model too wide": Kind("r.yaml", recipe(model={"width": 10**8, "heads": 1}), RECIPE_VERBS),
    "a recipe with very many layers": Kind("r.yaml", recipe(model={"layers": 10**4, "width": 65536, "heads": 1}), RECIPE_VERBS),
    "a recipe with an endless scheme": Kind("r.yaml", recipe(scheme="A " * 100_000), RECIPE_VERBS),
    "a recipe with deep weights": Kind("r.yaml", recipe(scheme="1/2(" * 5000 + "A F" + ")" * 5000), RECIPE_VERBS),
    "a recipe with a scheme that is a number": Kind("r.yaml", recipe(scheme=3), RECIPE_VERBS),
    "a recipe with a scheme of digits": Kind("r.yaml", recipe(scheme="A/" + "9" * 5000 + " F"), RECIPE_VERBS),
    "a recipe with an unknown objective": Kind("r.yaml", recipe(objective="wish"), RECIPE_VERBS),
    "a recipe with unknown probes": Kind("r.yaml", recipe(probes=["drift", 3]), RECIPE_VERBS),
    "a recipe with a batch of 10^18": Kind("r.yaml", train_entry("batch: 1000000000000000000"), RECIPE_VERBS),
    "a start that is missing": Kind("r.yaml", recipe(start="nowhere/at/all"), RECIPE_VERBS),
    "a result that is empty": Kind("stored/result.json", b"", REPORT),
    "a result that is cut": Kind("stored/result.json", cut, REPORT),
    "a result that is deep": Kind("stored/result.json", DEEP_JSON, REPORT),
    "a result that is a list": Kind("stored/result.json", b"[]", REPORT),
    "a result that is null": Kind("stored/result.json", b"null", REPORT),
    "a result with an entry twice": Kind("stored/result.json", b'{"study": "compare", "study": "compare"}', REPORT),
    "a result of 5000 digits": Kind("stored/result.json", b'{"format": ' + b"9" * 5000 + b"}", REPORT),
    "a result with half a character": Kind("stored/result.json", entries(task="\ud800"), REPORT),
    "a result of a newer format": Kind("stored/result.json", entries(format=10**6), REPORT),
    "a result of an unknown study": Kind("stored/result.json", entries(study="sleep"), REPORT),
    "a result of another study": Kind("stored/result.json", entries(study="glue"), REPORT),
    "a result that lacks rows": Kind("stored/result.json", lacks("rows"), REPORT),
    "a result without trials": Kind("stored/result.json", entries(trials=[], rows=[]), REPORT),
    "a result in UTF-16": Kind("stored/result.json", lambda content: content.decode().encode("utf-16"), REPORT),
    "a result that is a folder": Kind("stored/result.json", None, REPORT),
    "a config that is a list": Kind("llama/config.json", b"[]", HF),
    "a config that is empty": Kind("llama/config.json", b"", HF),
    "a config that is deep": Kind("llama/config.json", DEEP_JSON, HF),
    "a config without a type": Kind("llama/config.json", b"{}", HF),
    "a config of an unknown type": Kind("llama/config.json", b'{"model_type": "nothing"}', HF),
    "a config that brings code": Kind("llama/config.json", entries(model_type="own", auto_map={"AutoModel": "own.M"}), HF),
    "a config with a width of text": Kind("llama/config.json", entries(hidden_size="wide"), HF),
    "a config with heads of zero": Kind("llama/config.json", entries(num_attention_heads=0), HF),
    "a config of another width": Kind("llama/config.json", entries(hidden_size=32), HF),
    "a config with an endless width": Kind("llama/config.json", entries(hidden_size=2**40), HF),
    "weights that are cut": Kind("llama/model.safetensors", cut, HF),
    "weights that are empty": Kind("llama/model.safetensors", b"", HF),
    "weights that are a pointer": Kind("llama/model.safetensors", b"version https://git-lfs.github.com/spec/v1\n", HF),
    "weights that are not numbers": Kind("llama/model.safetensors", stored_float(float("nan")), HF),
    "an infinite down-projection": Kind("llama/model.safetensors", stored_float(float("inf"), "model.layers.0.mlp.down_proj.weight"), HF),
    "weights with a long header": Kind("llama/model.safetensors", b"\xff" * 7 + b"\x00{}", HF),
    "a tokenizer that is a list": Kind("llama/tokenizer.json", b"[]", LLAMA_TOKENIZER),
    "a tokenizer that is empty": Kind("llama/tokenizer.json", b"", LLAMA_TOKENIZER),
    "a tokenizer that is deep": Kind("llama/tokenizer.json", DEEP_JSON, LLAMA_TOKENIZER),
    "a tokenizer without words": Kind("llama/tokenizer.json", entries(model={"type": "BPE", "vocab": {}, "merges": []}), LLAMA_TOKENIZER),
    "a tokenizer's config that is a list": Kind("llama/tokenizer_config.json", b"[]", LLAMA_TOKENIZER),
    "a GGUF file of text": Kind("x.gguf", b"not a model", of("x.gguf", MODEL)),
    "a GGUF file of its mark alone": Kind("x.gguf", b"GGUF", of("x.gguf", MODEL)),
    "a GGUF file with endless counts": Kind("x.gguf", b"GGUF\x03\0\0\0" + b"\xff" * 16, of("x.gguf", MODEL)),
    "a model that is a file": Kind("x.bin", b"not a model", of("x.bin", MODEL)),
    "a model that is an empty folder": Kind("x", None, of("x", MODEL)),
    "a run's config that is a list": Kind("book/model/config.json", b"[]", RUN),
    "a run's config of a newer format": Kind("book/model/config.json", entries(format=10**6), RUN),
    "a run's config with a wrong entry": Kind("book/model/config.json", entries(widht=3), RUN),
    "a run's weights that are cut": Kind("book/model/model.safetensors", cut, RUN),
    "a run's weights that are not numbers": Kind("book/model/model.safetensors", stored_float(float("nan")), RUN),
    "a run's tokenizer that is a list": Kind("book/model/tokenizer.json", b"[]", TOKENIZER),
    "a run's tokenizer that is cut": Kind("book/model/tokenizer.json", cut, TOKENIZER),
    "a run's recipe that is empty": Kind("digits/recipe.yaml", b"", (*DIGITS[:3], "train digits.yaml --out digits")),
    "a run's recipe that is deep": Kind("digits/recipe.yaml", DEEP_YAML, (*DIGITS[:3], "train digits.yaml --out digits")),
    "a run's result that is a list": Kind("digits/result.json", b"[]", ("evaluate digits", "train digits.yaml --out digits")),
    "a run's result that is deep": Kind("digits/result.json", DEEP_JSON, ("evaluate digits", "train digits.yaml --out digits")),
    "a run's environment that is a list": Kind("digits/environment.json", b"[]", ("train digits.yaml --out digits train.steps=3",)),
    "a classifier's config that is a list": Kind("classes/model/config.json", b"[]", CLASSIFIER),
    "a classifier's tokenizer that is deep": Kind("classes/model/tokenizer.json", DEEP_JSON, CLASSIFIER),
    "a translator's config that is a list": Kind("numbers/model/config.json", b"[]", TRANSLATOR),
    "a table with open quotes": Kind("rows.csv", line('"open'), CLASSES),
    "a table with a field too many": Kind("rows.csv", line("a,b,c"), CLASSES),
    "a table without rows": Kind("rows.csv", b"text,label\n", CLASSES),
    "a table that is empty": Kind("rows.csv", b"", CLASSES),
    "a table with NUL": Kind("rows.csv", line("a\0,b"), CLASSES),
    "a table in Latin 1": Kind("rows.csv", lambda content: content + b"gr\xf6\xdfer,a\n", CLASSES),
    "a table of one class": Kind("rows.csv", b"text,label\n" + b"a,b\n" * 60, CLASSES),
    "a table with an empty label": Kind("rows.csv", line("a,"), CLASSES),
    "a table with a column twice": Kind("rows.csv", lambda content: content.replace(b"text,label", b"label,label"), CLASSES),
    "a table that is a folder": Kind("rows.csv", None, CLASSES),
    "an image that is cut": Kind("photos/a/0.png", cut, PICTURES),
    "an image that is text": Kind("photos/a/0.png", b"not an image", PICTURES),
    "an image that is empty": Kind("photos/a/0.png", b"", PICTURES),
    "an image with pixels that are not numbers": Kind("photos/a/0.tif", tiff(float("nan")), PICTURES),
    "an image with an infinite pixel": Kind("photos/a/0.tif", tiff(float("inf")), PICTURES),
    "an image of a trillion pixels": Kind("photos/a/0.ppm", b"P6 1000000 1000000 255\n", PICTURES),
    "idx files that are cut": Kind("photos/train-images-idx3-ubyte", b"\0\0\x08\x03\0\0", PICTURES),
    "a text in Latin 1": Kind("book.txt", lambda content: content + b"gr\xf6\xdfer\n", BOOK),
    "a text in UTF-16": Kind("book.txt", lambda content: content.decode().encode("utf-16"), BOOK),
    "a text with NUL": Kind("book.txt", line("a\0"), BOOK),
    "a text that is empty": Kind("book.txt", b"", BOOK),
    "a text of blank lines": Kind("book.txt", b"\n \n\n" * 9, BOOK),
    "a text that is a folder": Kind("book.txt", None, BOOK),
    "prompts with half a character": Kind("prompts.jsonl", line(SURROGATE), PROMPTS),
    "prompts that are deep": Kind("prompts.jsonl", line(DEEP_JSON.decode()), PROMPTS),
    "prompts that are objects without a text": Kind("prompts.jsonl", line("{}"), PROMPTS),
    "prompts that are lists": Kind("prompts.jsonl", line("[]"), PROMPTS),
    "prompts that are cut": Kind("prompts.jsonl", line('{"text": "a'), PROMPTS),
    "prompts that are numbers": Kind("prompts.jsonl", line('{"text": 3}'), PROMPTS),
    "rows with half a character": Kind("rows.jsonl", line(SURROGATE), ROWS),
    "rows that are deep": Kind("rows.jsonl", line(DEEP_JSON.decode()), ROWS),
    "rows that are empty objects": Kind("rows.jsonl", line("{}"), ROWS),
    "rows with an entry twice": Kind("rows.jsonl", line('{"instruction": "a", "instruction": "b"}'), ROWS),
    "rows that are numbers": Kind("rows.jsonl", line('{"instruction": 1, "response": 2}'), ROWS),
    "rows that are empty": Kind("rows.jsonl", b"", ROWS),
    "pairs of unequal length": Kind("a.de", line("noch eine"), PAIRS),
    "pairs in Latin 1": Kind("a.de", lambda content: content[:-3] + b"\xf6\xdf\n", PAIRS),
    "pairs that are empty": Kind("a.de", b"", PAIRS),
}
