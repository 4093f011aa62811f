"""A hundred kinds of bad input and the commands that read each: a folder of sound files, of which one is spoilt."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf, nan
from pathlib import Path
from typing import Any, NamedTuple

import made_up
import made_up_glue
import numpy as np
import pretrained_folders
import torch
from children import NUMBERS, RECIPE, trained
from PIL import Image
from safetensors.torch import load, save, save_file

from splitstep.opening.adapters import ADAPTED

Spoilt = bytes | Callable[[bytes], bytes] | None  # what a file becomes; None: a folder

SMALL = {"layers": 1, "width": 16, "heads": 2, "ffn": 16}
BPE = "data.tokens=bpe data.vocab_size=300"
SHORT = {"steps": 2, "evaluate_every": 2}
RECIPES: dict[str, dict[str, Any]] = {
    "digits": RECIPE | {"train": RECIPE["train"] | SHORT},
    "book": {"task": "text", "data": {"path": ["book.txt"], "length": 16, "tokens": "bpe", "vocab_size": 300},
             "model": SMALL | {"layers": 2}, "train": {**SHORT, "batch": 4}},
    "numbers": NUMBERS | {"train": {**SHORT, "batch": 512}},
    "classes": {"task": "classify", "data": {"train": "rows.csv"}, "model": SMALL, "train": {**SHORT, "batch": 8}},
    "pictures": {"task": "images", "data": {"train": "photos", "size": 8}, "model": SMALL,
                 "train": {**SHORT, "batch": 8}},
    "masked": {"task": "mlm", "data": {"train": "many.txt", "vocab_size": 300, "length": 16},
               "model": SMALL | {"token_types": 2}, "train": {**SHORT, "batch": 4}},
    "pairs": {"task": "parallel", "data": {"train": ["a.de", "a.en"], "direction": "de-en", "merges": 20},
              "model": SMALL | {"decoder_layers": 1}, "train": {**SHORT, "batch": 512}},
}  # fmt: skip


def sound(folder: Path) -> None:
    """Recipes, texts, tables, images, runs, models and a result that are as they should be."""
    for name, recipe in RECIPES.items():
        (folder / f"{name}.yaml").write_text(json.dumps(recipe))
    write_data(folder)
    made_up.comparison([made_up.trial(text, seed, 0.9) for text in ("lie", "macaron") for seed in range(3)]).save(
        folder / "stored"
    )
    pretrained_folders.saved(folder / "llama", pretrained_folders.llama(3))
    write_wrapped(folder)
    made_up_glue.made_up(folder / "sets", "rte")
    (folder / "mine.py").write_text((Path(__file__).parent / "my_letter.py").read_text())
    for name in ("digits", "book", "numbers", "classes", "masked"):
        trained(RECIPES[name], folder / name)


def write_wrapped(folder: Path) -> None:
    """An adapter of the model llama, as PEFT writes one, and a folder of sentence-transformers."""
    (folder / "tuned").mkdir()
    config = {"peft_type": "LORA", "base_model_name_or_path": "llama", "r": 2, "target_modules": ["q_proj"]}
    (folder / "tuned" / "adapter_config.json").write_text(json.dumps(config))
    places = [f"base_model.model.model.layers.{layer}.self_attn.q_proj.lora_" for layer in range(3)]
    weights = {f"{place}{half}.weight": torch.ones(16, 2) for place in places for half in "AB"}
    save_file({k: x.mT.contiguous() if "_A" in k else x for k, x in weights.items()}, folder / "tuned" / ADAPTED)
    pretrained_folders.saved(folder / "sentences" / "inner", pretrained_folders.bert())
    modules = [{"idx": 0, "name": "0", "path": "inner", "type": "sentence_transformers.models.Transformer"}]
    (folder / "sentences" / "modules.json").write_text(json.dumps(modules))


def write_data(folder: Path) -> None:
    """Texts, tables and images."""
    (folder / "many.txt").write_text("".join(f"he said {n * n} and {n * 317} to it\n" for n in range(800)))
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
    spoilt: Spoilt
    lines: tuple[str, ...]


@contextmanager
def spoilt(kind: Kind, folder: Path) -> Iterator[None]:
    """Inside, the file is spoilt."""
    file = folder / kind.file
    before = file.read_bytes() if file.exists() else None
    file.unlink(missing_ok=True)
    if kind.spoilt is None:
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


def latin(content: bytes) -> bytes:
    return content + "größer\n".encode("latin1")


def utf16(content: bytes) -> bytes:
    return content.decode().encode("utf-16")


def entries(**more: Any) -> Spoilt:
    """A JSON object with other entries."""
    return lambda content: json.dumps({**json.loads(content), **more}).encode()


def lacks(*names: str) -> Spoilt:
    """A JSON object without these entries."""
    return lambda content: json.dumps({k: v for k, v in json.loads(content).items() if k not in names}).encode()


def line(text: str) -> Spoilt:
    """A text with one line more."""
    return lambda content: content + text.encode() + b"\n"


def weight(value: float, name: str | None = None) -> Spoilt:
    """Weights of which the last matrix, or the one named, has this value in it."""

    def change(content: bytes) -> bytes:
        weights = load(content)
        chosen = name or max(name for name, x in weights.items() if x.ndim > 1)
        weights[chosen] = weights[chosen].clone()
        weights[chosen].view(-1)[-1] = value
        return save(weights, {"format": "pt"})

    return change


def tiff(value: float) -> bytes:
    """A float image with one pixel of this value."""
    pixels = np.zeros((8, 8), np.float32)
    pixels[3, 3] = value
    Image.fromarray(pixels).save(out := io.BytesIO(), "TIFF")
    return out.getvalue()


def recipe(**sections: Any) -> bytes:
    return json.dumps(RECIPES["digits"] | sections).encode()


def training(text: str) -> bytes:
    """A recipe with this entry of `train`."""
    return f"task: digits\ntrain: {{{text}}}\n".encode()


DEEP = 5_000
DEEP_JSON = b'{"a": ' + b"[" * DEEP + b"]" * DEEP + b"}"
DEEP_YAML = b"a: " + b"[" * DEEP + b"]" * DEEP
DEEP_BLOCK = b"".join(b" " * n + b"a:\n" for n in range(2_000))
HALF = '{"text": "a\\ud800b", "instruction": "a\\ud800b", "response": "\\udfff"}'

SHORT_GLUE = "train.steps=2 train.batch=4 train.evaluate_every=2"
FEW = "train.batch=2 train.steps=2 train.evaluate_every=2 data.length=64 data.valid=2 data.template={prompt}"
STUDENT = f"--student-layers 2 --text rows.jsonl {FEW}"
JUDGED = f"{STUDENT} data.test=2 --methods ce --seeds 1 --answer-tokens 8"
MODEL = (
    "inspect MODEL --text prompts.txt", "inspect llama --against MODEL --text prompts.txt",
    "converge MODEL --text prompts.txt", "generate MODEL", "evaluate MODEL --task text data.path=book.txt",
    f"distil MODEL {STUDENT}", f"distil llama MODEL --text rows.jsonl {FEW}", f"compare distil MODEL {JUDGED}",
    "train classes.yaml data.tokenizer=MODEL", "train digits.yaml start=MODEL",
    "compare digits.yaml --schemes lie,reverse-lie start=MODEL",
)  # fmt: skip


def of(model: str, lines: tuple[str, ...] = MODEL) -> tuple[str, ...]:
    """The commands with this model."""
    return tuple(one.replace("MODEL", model) for one in lines)


STUDIES = "train MODEL", "compare MODEL --schemes lie,reverse-lie", "ablate MODEL", "converge MODEL --depths 1,2,4"
GLUE = f"compare glue --start lie=masked --data sets --tasks rte --seeds 1 {SHORT_GLUE}"
TEXTS = "inspect llama --text MODEL", "converge llama --text MODEL"
LINES = {
    "recipe": of("r.yaml", STUDIES),
    "letters": tuple(f"{one} --letters mine.py" for one in ("train digits.yaml", "schemes A", "inspect digits")),
    "adapter": of("tuned", (MODEL[0], *MODEL[2:4])),
    "sentences": of("sentences", MODEL[:1]),
    "glue": (GLUE,),
    "masked start": (GLUE, "train masked.yaml start=masked", "inspect masked", "evaluate masked"),
    "mlm": of("masked.yaml", STUDIES),
    "result": ("report stored", "report stored --markdown"),
    "foreign": of("llama"),
    "foreign tokenizer": (*of("llama", (*MODEL[:4], *MODEL[5:8])), "train classes.yaml data.tokenizer=llama"),
    "gguf": of("x.gguf"),
    "own": (*of("book", (*MODEL[:2], MODEL[3])), "converge book", "evaluate book", "train book.yaml start=book",
            f"evaluate book/model --task text data.path=book.txt {BPE}", f"distil book {STUDENT}"),
    "own tokenizer": (*of("book", (*MODEL[:2], MODEL[3])), f"distil book {STUDENT}",
                      "train classes.yaml data.tokenizer=book/model"),
    "own run": ("inspect digits", "converge digits", "evaluate digits", "train digits.yaml --out digits"),
    "own end": ("evaluate digits", "train digits.yaml --out digits"),
    "classifier": ("predict classes", "evaluate classes", "inspect classes"),
    "translator": ("translate numbers", "evaluate numbers", "inspect numbers"),
    "table": of("classes.yaml", STUDIES),
    "image": of("pictures.yaml", STUDIES),
    "book": (*of("book.yaml", STUDIES), *of("book.txt", TEXTS),
             f"distil llama --student-layers 2 --text book.txt {FEW}",
             f"evaluate book/model --task text data.path=book.txt {BPE}"),
    "prompts": of("prompts.jsonl", TEXTS),
    "rows": (f"distil llama {STUDENT}", f"compare distil llama {JUDGED}"),
    "pairs": of("pairs.yaml", STUDIES[:3]),
}  # fmt: skip

SPOILT: dict[tuple[str, str], dict[str, Spoilt]] = {
    ("recipe", "r.yaml"): {
        "empty": b"", "a list": b"[task, digits]", "a number": b"3", "an open bracket": b"task: [digits\n",
        "deep brackets": DEEP_YAML, "deep entries": DEEP_BLOCK, "an alias": b"task: &a digits\nabout: *a\n",
        "an entry twice": b"task: digits\ntask: listops\n", "a tab": b"task: digits\ntrain:\n\tsteps: 3\n",
        "an object": b"task: !!python/object/apply:os.system [ls]\n", "two": b"task: digits\n---\ntask: digits\n",
        "NUL": b"task: dig\0its\n", "a bell": b"task: dig\x07its\n", "Latin 1": latin(b"task: digits\nabout: "),
        "UTF-16": utf16(b"task: digits\n"), "half a character": b'task: "dig\\ud800its"\n', "a folder": None,
        "endless steps": training("steps: 1000000000000000000"), "long steps": training("steps: 1" + "0" * 400),
        "longer steps": training("steps: 1" + "0" * 5_000), "a rate that is none": training("lr: .nan"),
        "an infinite rate": training("lr: .inf"), "a large batch": training("batch: 1000000000000000000"),
        "an unknown task": b"task: digitss\n", "tasks": b"task: [digits]\n", "a list as key": b"? [a, b]\n: 3\n",
        "a number as key": b"task: digits\n3: 4\n", "a date": training("steps: 2026-11-19"),
        "no date": training("steps: 2026-02-31"), "a set": b"task: digits\nmodel: !!set {width, heads}\n",
        "bytes": b"task: !!binary aGk=\n", "great width": recipe(model={"width": 10**8, "heads": 1}),
        "great depth": recipe(model={"layers": 10**4, "width": 2**16, "heads": 1}),
        "an endless scheme": recipe(scheme="A " * 100_000), "a scheme of one number": recipe(scheme=3),
        "deep weights": recipe(scheme="1/2(" * DEEP + "A F" + ")" * DEEP),
        "long numbers": recipe(scheme="A/" + "9" * DEEP + " F"), "an unknown objective": recipe(objective="wish"),
        "an unknown probe": recipe(probes=["drift", "wish"]), "no start": recipe(start="nowhere/at/all"),
    },
    ("result", "stored/result.json"): {
        "empty": b"", "cut": cut, "deep": DEEP_JSON, "a list": b"[]", "null": b"null", "UTF-16": utf16,
        "a folder": None, "an entry twice": b'{"study": "compare", "study": "compare"}', 
        "half a character": entries(task="\ud800"),
        "long numbers": b'{"format": ' + b"9" * DEEP + b"}",
        "a newer format": entries(format=10**6),
        "an unknown study": entries(study="sleep"), "another study": entries(study="glue"), "no rows": lacks("rows"),
        "nothing in it": entries(trials=[], rows=[]),
    },
    ("foreign", "llama/config.json"): {
        "a list": b"[]", "empty": b"", "deep": DEEP_JSON, "no type": b"{}",
        "another type": b'{"model_type": "nothing"}',
        "code": entries(model_type="own", auto_map={"AutoModel": "own.M"}), "a width of text": entries(hidden_size="x"),
        "no heads": entries(num_attention_heads=0), "another width": entries(hidden_size=32),
        "an endless width": entries(hidden_size=2**40), "endless layers": entries(num_hidden_layers=10**12),
    },
    ("foreign", "llama/model.safetensors"): {
        "cut": cut, "empty": b"", "a pointer": b"version https://git-lfs.github.com/spec/v1\n",
        "not a number": weight(nan), "an infinite down-projection": weight(inf, "model.layers.0.mlp.down_proj.weight"),
        "a long header": b"\xff" * 7 + b"\x00{}",
    },
    ("foreign tokenizer", "llama/tokenizer.json"): {
        "a list": b"[]", "empty": b"", "deep": DEEP_JSON,
        "no words": entries(model={"type": "BPE", "vocab": {}, "merges": []}),
    },
    ("foreign tokenizer", "llama/tokenizer_config.json"): {"a list": b"[]"},
    ("gguf", "x.gguf"): {
        "a text": b"not a model", "its mark alone": b"GGUF", "endless counts": b"GGUF\x03\0\0\0" + b"\xff" * 16,
    },
    ("own", "book/model/config.json"): {
        "a list": b"[]", "a newer format": entries(format=10**6), "a wrong entry": entries(widht=3),
    },
    ("own", "book/model/model.safetensors"): {"cut": cut, "not a number": weight(nan)},
    ("own tokenizer", "book/model/tokenizer.json"): {"a list": b"[]", "cut": cut, "deep": DEEP_JSON},
    ("own run", "digits/recipe.yaml"): {"empty": b"", "deep": DEEP_YAML},
    ("own end", "digits/result.json"): {"a list": b"[]", "deep": DEEP_JSON},
    ("classifier", "classes/model/config.json"): {"a list": b"[]"},
    ("classifier", "classes/model/tokenizer.json"): {"a list": b"[]", "deep": DEEP_JSON},
    ("classifier", "classes/model/model.safetensors"): {"cut": cut, "not a number": weight(nan)},
    ("translator", "numbers/model/config.json"): {
        "a list": b"[]", "deep": DEEP_JSON, "a wrong entry": entries(widht=3),
    },
    ("translator", "numbers/model/model.safetensors"): {"cut": cut, "not a number": weight(nan)},
    ("masked start", "masked/model/config.json"): {"a list": b"[]", "deep": DEEP_JSON},
    ("masked start", "masked/model/model.safetensors"): {"cut": cut, "not a number": weight(nan)},
    ("glue", "sets/glue/RTE/train.tsv"): {
        "empty": b"", "no rows": lambda content: content[: content.index(b"\n")],
        "Latin 1": latin, "a field too few": line("1\ta"), "NUL": line("1\ta\0\tb\tentailment"),
        "an unknown label": line("1\ta\tb\tperhaps"),
    },
    ("mlm", "many.txt"): {"Latin 1": latin, "UTF-16": utf16, "NUL": line("a\0"), "empty": b"", "a folder": None},
    ("adapter", "tuned/adapter_config.json"): {
        "a list": b"[]", "empty": b"", "deep": DEEP_JSON, "no base": lacks("base_model_name_or_path"),
        "another kind": entries(peft_type="PROMPT_TUNING"),
        "another base": entries(base_model_name_or_path="book/model"),
        "a rank of text": entries(r="x"), "no such part": entries(target_modules=["z"]),
    },
    ("adapter", "tuned/adapter_model.safetensors"): {"cut": cut, "empty": b"", "not a number": weight(nan)},
    ("sentences", "sentences/modules.json"): {
        "an object": b"{}", "deep": DEEP_JSON, "no Transformer": b"[]",
        "outside": b'[{"type": "Transformer", "path": "../x"}]',
        "nowhere": b'[{"type": "Transformer", "path": "none"}]',
    },
    ("letters", "mine.py"): {
        "empty": b"", "NUL": b"\0", "Latin 1": latin, "an open bracket": b"x = (", "deep": b"x = " + b"[" * DEEP,
        "an end": b"raise SystemExit", "endless calls": b"def f(): f()\nf()", "a folder": None,
    },
    ("table", "rows.csv"): {
        "open quotes": line('"open'), "a field too many": line("a,b,c"), "no rows": b"text,label\n", "empty": b"",
        "NUL": line("a\0,b"), "Latin 1": latin, "one class": b"text,label\n" + b"a,b\n" * 60, "no label": line("a,"),
        "a column twice": b"text,label,label\na,b,c\n", "a folder": None,
    },
    ("image", "photos/a/0.png"): {"cut": cut, "a text": b"not an image", "empty": b""},
    ("image", "photos/a/0.tif"): {"not a number": tiff(nan), "infinite": tiff(inf)},
    ("image", "photos/a/0.ppm"): {"a trillion pixels": b"P6 1000000 1000000 255\n"},
    ("image", "photos/train-images-idx3-ubyte"): {"cut": b"\0\0\x08\x03\0\0"},
    ("book", "book.txt"): {
        "Latin 1": latin, "UTF-16": utf16, "NUL": line("a\0"), "empty": b"", "blank": b"\n \n\n" * 9, "a folder": None,
    },
    ("prompts", "prompts.jsonl"): {
        "half a character": line(HALF), "deep": line(DEEP_JSON.decode()), "no text": line("{}"), "a list": line("[]"),
        "cut": line('{"text": "a'), "a number": line('{"text": 3}'),
    },
    ("rows", "rows.jsonl"): {
        "half a character": line(HALF), "deep": line(DEEP_JSON.decode()), "no text": line("{}"), "empty": b"",
        "an entry twice": line('{"instruction": "a", "instruction": "b"}'), "numbers": line('{"instruction": 1}'),
    },
    ("pairs", "a.de"): {"a line too many": line("noch eine"), "Latin 1": latin, "empty": b""},
}  # fmt: skip
KINDS = {
    f"{file}: {what}": Kind(file, content, LINES[lines])
    for (lines, file), contents in SPOILT.items()
    for what, content in contents.items()
}
