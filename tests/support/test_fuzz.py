"""Whatever bytes a reader of foreign files gets: a value or one line of an error, soon, and nothing is written."""

import gzip
import io
import json
import lzma
import os
import resource
import shutil
import signal
import tarfile
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pretrained_folders
import pytest
import torch
from children import NUMBERS, RECIPE, trained
from damage import damaged
from gguf_files import BEGIN, END, write_gguf
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from rubbish import write_wrapped

import splitstep as ss
from splitstep import own_letters
from splitstep.doors import lists
from splitstep.inference.generate import open_language_model
from splitstep.inference.predict import predict_run
from splitstep.inference.translate import SearchOverrides, translate_run
from splitstep.letters import LETTERS
from splitstep.opening import open_model
from splitstep.opening.texts import read_texts
from splitstep.recipe import load_recipe
from splitstep.recipes import FOLDER
from splitstep.studies.inspect.units import Found, bytes_of, read_unit
from splitstep.studies.orders import orders
from splitstep.support.words import one_line
from splitstep.tasks import newsgroups
from splitstep.tasks.images import parse_idx
from splitstep.tasks.own_images import open_image, pixels_of
from splitstep.text import documents, files, instructions, tables
from splitstep.text.lines import read_pairs
from splitstep.text.tokenizers import open_tokenizer
from splitstep.training.checkpoint import CheckpointReader, restore
from splitstep.training.directory import RunDirectory
from splitstep.training.processes import Processes
from splitstep.training.weights import pieces

SECONDS, LINE, ROOM = 2.0, 600, 4 << 30
FEW, MANY = 12, int(os.environ.get("FUZZ_EXAMPLES", "400"))  # examples of each kind; the nightly ones differ each time
RESULTS = Path(__file__).parents[2] / "results"
ALONE = Processes(0, 1, torch.device("cpu"))


class Foreign(NamedTuple):
    """Files that come from elsewhere: how whole ones are made in a folder, which are damaged, and their reader."""

    make: Callable[[Path], Any]
    files: tuple[str, ...]
    read: Callable[[Path], Any]


FOREIGN: dict[str, Foreign] = {}


def texts(**contents: str | bytes) -> Callable[[Path], None]:
    """A maker of files with these contents; `_` stands for the dot of a name."""

    def make(folder: Path) -> None:
        for name, content in contents.items():
            file = folder / name.replace("_", ".")
            file.write_bytes(content.encode() if isinstance(content, str) else content)

    return make


def one(name: str, content: str | bytes, read: Callable[[Path], Any]) -> Foreign:
    """One file with a content, and a reader of it."""
    return Foreign(texts(**{name.replace(".", "_"): content}), (name,), lambda folder: read(folder / name))


def words_of(file: Path) -> list[str]:
    """The lines of a file as words of a shell."""
    return file.read_bytes().decode(errors="surrogateescape").split("\n")


OVERRIDES = """train.lr=1e-3
data.patch=4
model={layers: 2, width: 16}
train.steps=100
scheme=F/2 A F/2 @midpoint
probes=[drift]"""
NOTATIONS = ("F/2 A F/2 @midpoint", "1/2(A F) + 1/2(F A)", "b:(A+F)/2 a:A+F b:(A+F)/2 @midpoint", "A N F M", "A+F@rk4")
for recipe in ("digits", "mlm-small", "numbers", "distil"):
    FOREIGN[f"recipe {recipe}"] = one(
        "recipe.yaml", (FOLDER / f"{recipe}.yaml").read_bytes(), lambda file: load_recipe(str(file))
    )
FOREIGN["overrides"] = one("words", OVERRIDES, lambda file: load_recipe("digits", words_of(file)))
for number, notation in enumerate(NOTATIONS):
    FOREIGN[f"notation {number}"] = one("words", notation, lambda file: orders([str(ss.scheme(words_of(file)[0]))]))


def report(folder: Path) -> None:
    """What `splitstep report` prints and draws."""
    lists.report(folder, markdown=True)
    lists.report(folder, out=folder / "again")
    shutil.rmtree(folder / "again")


def stored_results() -> dict[str, Path]:
    """The smallest result of each study."""
    found = dict[str, Path]()
    for file in sorted(RESULTS.rglob("result.json"), key=lambda file: file.stat().st_size):
        study = json.loads(file.read_text()).get("study")
        if study is not None:
            found.setdefault(study, file)
    return found


for study, stored in stored_results().items():
    FOREIGN[f"result of {study}"] = one("result.json", stored.read_bytes(), lambda file: report(file.parent))


CLASSIFY = {
    "task": "classify", "data": {"train": "rows.csv"},
    "model": {"layers": 1, "width": 16, "heads": 2, "ffn": 16}, "train": {"steps": 2, "batch": 8},
}  # fmt: skip
OWN_TEXT = {
    "task": "text", "data": {"path": ["notes.txt"], "length": 16, "tokens": "bpe", "vocab_size": 300},
    "model": {"layers": 1, "width": 16, "heads": 2, "ffn": 16}, "train": {"steps": 2, "batch": 4},
}  # fmt: skip
TRANSLATE = {**NUMBERS, "train": {"steps": 2, "batch": 512}}


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Work in a folder, with a cache in it."""
    before, cached = Path.cwd(), os.environ.get("SPLITSTEP_CACHE")
    os.chdir(folder)
    os.environ["SPLITSTEP_CACHE"] = str(folder / "cache")
    try:
        yield
    finally:
        os.chdir(before)
        del os.environ["SPLITSTEP_CACHE"]
        if cached is not None:
            os.environ["SPLITSTEP_CACHE"] = cached


def run_of(document: dict[str, Any]) -> Callable[[Path], None]:
    """A maker of a tiny run."""

    def make(folder: Path) -> None:
        texts(
            rows_csv="text,label\n" + "".join(f"word{n % 7} {n},{'ab'[n % 2]}\n" for n in range(60)),
            notes_txt="".join(f"the cat number {n * n} {n * n} sat on the mat\n" for n in range(400)),
        )(folder)
        with inside(folder):
            trained({**document, "train": {**document["train"], "steps": 2, "evaluate_every": 2}}, folder / "run")

    return make


def shown(folder: Path) -> Any:
    """The model and the result of a run."""
    from splitstep.doors.results import Trained

    run = folder / "run"
    found = RunDirectory(run).result()
    assert found is None or Trained(run, found).document()
    return ss.load(run)


def continued(folder: Path) -> None:
    model = open_language_model(folder / "run")
    model.load()
    model.decode(model.encode("the cat"))


SAVED = ("recipe.yaml", "result.json", "environment.json", "metrics.jsonl", "model/config.json")
WEIGHTS = "model/model.safetensors"
TOKENS = ("model/tokenizer.json", "model/tokenizer_config.json", WEIGHTS, "model/config.json")
RUNS: dict[str, tuple[dict[str, Any], tuple[str, ...], Callable[[Path], Any]]] = {
    "run": (RECIPE, (*SAVED, WEIGHTS, "model/preprocessor_config.json"), shown),
    "language model": (OWN_TEXT, TOKENS, continued),
    "classifier": (CLASSIFY, TOKENS, lambda folder: predict_run(folder / "run", ["word1 2", ""])),
    "translator": (TRANSLATE, TOKENS, lambda folder: translate_run(folder / "run", ["one"], SearchOverrides(1, None))),
}
for name, (document, damageable, read) in RUNS.items():
    FOREIGN[name] = Foreign(run_of(document), tuple(f"run/{file}" for file in damageable), read)


def checkpoint(folder: Path) -> None:
    """A checkpoint that is begun from."""
    newest = next((folder / "run" / "checkpoints").iterdir())

    def load(found: CheckpointReader) -> None:
        found.fill("rng", pieces({"cpu": torch.get_rng_state()}))
        found.fill("model", pieces({"x": torch.zeros(2, 3)}))

    restore(newest.parent, load, ALONE)


def make_checkpoint(folder: Path) -> None:
    from splitstep.training.checkpoint import save_checkpoint

    groups = {"model": {"x": torch.ones(2, 3)}, "rng": {"cpu": torch.get_rng_state()}}
    shares = {name: pieces(group) for name, group in groups.items()}
    save_checkpoint(folder / "run" / "checkpoints", 2, {"step": 2, "best": None}, shares, ALONE, 2)
    state = folder / "run" / "checkpoints" / "step-000000002" / "state.json"
    older = json.loads(state.read_text())  # as an older version wrote it: nothing but the content says what is wrong
    del older["crc32"], older["files"]
    state.write_text(json.dumps(older))


def tensors(folder: Path) -> None:
    RunDirectory(folder / "run").tensors(2)


def make_tensors(folder: Path) -> None:
    (folder / "run").mkdir()
    RunDirectory(folder / "run").write_tensors(2, {"drift/layers/a": torch.ones(4), "b": torch.zeros(2, 2)})


STEP = "run/checkpoints/step-000000002"
FOREIGN["checkpoint"] = Foreign(
    make_checkpoint, (f"{STEP}/state.json", f"{STEP}/model.safetensors", f"{STEP}/rng.safetensors"), checkpoint
)
FOREIGN["tensors of probes"] = Foreign(make_tensors, ("run/probes/step-00000002.safetensors",), tensors)
FOREIGN["model of others"] = Foreign(
    lambda folder: pretrained_folders.saved(folder / "model", pretrained_folders.llama(1)),
    ("model/config.json", "model/generation_config.json", "model/tokenizer_config.json", "model/model.safetensors"),
    lambda folder: open_model(folder / "model"),
)
FOREIGN["tokenizer"] = Foreign(
    lambda folder: pretrained_folders.tokenizer().save_pretrained(folder / "model"),
    ("model/tokenizer.json", "model/tokenizer_config.json"),
    lambda folder: open_tokenizer(str(folder / "model")).encode("the cat \u00e9"),
)


FOREIGN["adapter"] = Foreign(
    lambda folder: [pretrained_folders.saved(folder / "llama", pretrained_folders.llama(3)), write_wrapped(folder)],
    ("tuned/adapter_config.json", "tuned/adapter_model.safetensors"),
    lambda folder: open_model(folder / "tuned"),
)
FOREIGN["modules"] = Foreign(
    write_wrapped, ("sentences/modules.json",), lambda folder: open_model(folder / "sentences")
)
FOREIGN["unit"] = one(
    "unit.safetensors", bytes_of(Found({0: {"a": (1.0,), "b": torch.ones(2)}}, "", {"n": 3})), read_unit
)


def letters_of(file: Path) -> None:
    """Read a file of letters, and forget them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LETTERS, "given", {})
        patch.setattr(own_letters, "SOURCES", {})
        own_letters.read_letters([file])


FOREIGN["letters"] = one("mine.py", (Path(__file__).parents[1] / "helpers" / "my_letter.py").read_bytes(), letters_of)
FOREIGN["gguf"] = Foreign(
    lambda folder: write_gguf(folder / "tiny.gguf", layers=1, bos=BEGIN, eos=END),
    ("tiny.gguf",),
    lambda folder: open_model(folder / "tiny.gguf"),
)


def labelled(file: Path) -> None:
    tables.labelled_rows(*tables.find_columns(tables.read_table(file), "", "", ""))


def parts(boundary: Any) -> Callable[[Path], Any]:
    return lambda file: list(documents.read_parts([file], boundary))


PLAIN = "the first line\n\nthe second, with \u00e9\n   \nthird\n" * 3
JSONL = '{"text": "one", "label": 1}\n\n{"text": "two \\u00e9", "label": "b"}\n' * 3
TASKS = '{"instruction": "say", "response": "yes", "instances": [{"input": "a", "output": "b"}]}\n' * 3
MESSAGES = '{"group": "sci.space", "id": "7", "text": "up"}\n' * 2
FOREIGN |= {
    "csv": one("rows.csv", 'text,label\n"one, two",a\nthree,b\n', labelled),
    "tsv": one("rows.tsv", "text\tlabel\none\ta\ntwo\tb\n", labelled),
    "jsonl": one("rows.jsonl", JSONL, labelled),
    "rows of gzip": one("rows.csv.gz", gzip.compress(b"text,label\none,a\n", mtime=0), labelled),
    "text": one("a.txt", PLAIN, parts("file")),
    "paragraphs": one("a.txt", PLAIN, parts("blank")),
    "lines of xz": one("a.txt.xz", lzma.compress(PLAIN.encode()), parts("line")),
    "documents": one("a.jsonl", JSONL, parts("file")),
    "instructions": one("a.jsonl", TASKS, lambda file: instructions.read_rows(file, "Q: {prompt} A:")),
    "instructions in one": one("a.json", f"[{TASKS.splitlines()[0]}]", lambda f: instructions.read_rows(f, "{prompt}")),
    "prompts": one("a.txt", PLAIN, read_texts),
    "prompts of JSON": one("a.jsonl", JSONL, read_texts),
    "messages": one("a.jsonl", MESSAGES, newsgroups.read_lines),
    "pairs": Foreign(
        texts(a_en="one\ntwo\n", a_de="eins\nzwei\n"), ("a.en", "a.de"),
        lambda folder: read_pairs(folder / "a.en", folder / "a.de"),
    ),
}  # fmt: skip


def arrow_file(kind: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        import pyarrow
        from pyarrow import parquet

        table = pyarrow.table({"text": ["one", None, "two \u00e9"], "n": [1, 2, 3]})
        if kind == "parquet":
            parquet.write_table(table, folder / "a.parquet")
        else:
            with pyarrow.OSFile(str(folder / "a.arrow"), "wb") as out, pyarrow.ipc.new_stream(out, table.schema) as to:
                to.write_table(table)

    return make


for kind in ("parquet", "arrow"):
    FOREIGN[kind] = Foreign(arrow_file(kind), (f"a.{kind}",), lambda folder: parts("file")(next(folder.glob("a.*"))))


def make_archives(folder: Path) -> None:
    with zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.txt", PLAIN)
    with tarfile.open(folder / "a.tgz", "w:gz") as archive:
        entry = tarfile.TarInfo("a.txt")
        entry.size = len(PLAIN.encode())
        archive.addfile(entry, io.BytesIO(PLAIN.encode()))


FOREIGN["zip"] = Foreign(make_archives, ("a.zip",), lambda folder: files.read_text(folder / "a.zip", "a.txt"))
FOREIGN["tar"] = Foreign(make_archives, ("a.tgz",), lambda folder: list(files.read_tar(folder / "a.tgz")))


FORMATS = {"png": "PNG", "jpg": "JPEG", "gif": "GIF", "bmp": "BMP", "webp": "WEBP", "tif": "TIFF", "pgm": "PPM"}


def make_images(folder: Path) -> None:
    from PIL import Image

    for suffix, kind in FORMATS.items():
        image = Image.fromarray(np.arange(768, dtype=np.uint8).reshape(16, 16, 3))
        (image.convert("L") if suffix == "pgm" else image).save(folder / f"a.{suffix}", kind)
    for mode in ("F", "I;16", "LA", "P"):
        values = np.arange(256, dtype=np.float32 if mode == "F" else np.uint16).reshape(16, 16)
        image = Image.fromarray(values) if mode in ("F", "I;16") else Image.new(mode, (16, 16))
        image.save(folder / f"{mode.replace(';', '')}.tif")


for name in (*(f"a.{suffix}" for suffix in FORMATS), "F.tif", "I16.tif", "LA.tif", "P.tif"):
    FOREIGN[f"image {name}"] = Foreign(
        make_images, (name,), lambda folder, name=name: pixels_of(open_image(folder / name), "RGB", 8)
    )
FOREIGN["idx"] = one(
    "idx3", b"\0\0\x08\x03" + bytes([0, 0, 0, 2] * 3) + bytes(8), lambda file: parse_idx(file.read_bytes(), file)
)


MADE: dict[str, TemporaryDirectory[str]] = {}  # the folders of files; they go with the process


def whole(name: str) -> Path:
    """The folder of a kind's files, made once."""
    if name not in MADE:
        MADE[name] = TemporaryDirectory(prefix="fuzz-")
        FOREIGN[name].make(Path(MADE[name].name))
    return Path(MADE[name].name)


class Hangs(BaseException):
    """The reader took too long."""


@contextmanager
def watched() -> Iterator[None]:
    """An end after some seconds of processor time, and little memory beyond what is in use."""

    def ring(*_: Any) -> None:
        raise Hangs

    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = signal.signal(signal.SIGPROF, ring)
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, limits[1]))
    signal.setitimer(signal.ITIMER_PROF, 3 * SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        resource.setrlimit(resource.RLIMIT_AS, limits)


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(p): (p.stat().st_mtime_ns, p.stat().st_size) for p in folder.rglob("*") if p.is_file()}


def check(name: str, data: st.DataObject) -> None:
    """The property, for one damaged file of a kind."""
    foreign, folder = FOREIGN[name], whole(name)
    file = folder / data.draw(st.sampled_from(foreign.files), "file")
    content = file.read_bytes()
    given = data.draw(damaged(content), "content")
    try:
        file.write_bytes(given)
        before = listing(folder)
        begin = time.process_time()
        with watched(), inside(folder), warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", module="PIL")  # of tags that it leaves out
            told = message_of(lambda: foreign.read(folder))
        seconds = time.process_time() - begin
        assert seconds < SECONDS, f"{seconds:.1f} s"
        assert listing(folder) == before
        assert len(told.splitlines()) < 2, told[:LINE]
        assert len(told) < LINE, f"{len(told)} characters: {told[:LINE]}"
    finally:
        file.write_bytes(content)


def message_of(read: Callable[[], Any]) -> str:
    """The message of an error that the shell makes one line of. Errors of the system name a file; all others are
    raised by the package itself, for its words say what to do."""
    try:
        read()
    except (OSError, ValueError) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        ours = Path(ss.__file__).parent in Path(last.filename).parents and (last.line or "").startswith("raise ")
        if not (ours or (isinstance(error, OSError) and error.errno and error.filename)):
            raise AssertionError(f"not an error of the package: {error!r}"[:LINE]) from error
        return one_line(str(error))
    return ""


FUZZ = settings(suppress_health_check=list(HealthCheck), phases=[Phase.generate])  # shrinking would take minutes


@pytest.mark.parametrize("many", [False, pytest.param(True, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("name", FOREIGN)
def test_garbage_gets_one_line(name: str, many: bool) -> None:
    @settings(FUZZ, max_examples=MANY if many else FEW, derandomize=not many)
    @given(data=st.data())
    def each(data: st.DataObject) -> None:
        check(name, data)

    each()
