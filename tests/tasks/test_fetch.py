"""Claims about fetching: a file arrives whole and right or not at all, and every failure is one line with a remedy."""

import gzip
import hashlib
import io
import lzma
import subprocess
import sys
import tarfile
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from splitstep.text.files import Content, Source, data_root, fetch, find, locate, read, read_tar

BODY = bytes(range(256)) * 20_000  # several blocks
RIGHT = hashlib.sha256(BODY).hexdigest()
OFFICIAL = "http://official.invalid/tiny.bin"
NAME = "tiny/tiny.bin"
MOST = 6_000_000  # a little more than BODY


ANSWERS: dict[str, tuple[int, int | None, bytes]] = {  # by folder: status, announced length, body
    "whole": (200, len(BODY), BODY),
    "cut": (200, len(BODY), BODY[:-7]),
    "announced": (200, 10**12, b""),
    "endless": (200, None, BODY * 4),
}


class Handler(BaseHTTPRequestHandler):
    """Serves the tiny file whole, cut short, or not at all."""

    def do_GET(self) -> None:
        status, announced, body = ANSWERS.get(self.path.split("/")[1], (404, 0, b""))
        self.send_response(status)
        if announced is not None:
            self.send_header("Content-Length", str(announced))
        self.end_headers()
        with suppress(ConnectionError):  # hung up on
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server on this machine."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "SPLITSTEP_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()
        thread.join()


def files(root: Path) -> list[Path]:
    """All files below a folder, hidden ones too."""
    return [path for path in root.rglob("*") if path.is_file()]


def test_a_fetched_file_is_whole_and_in_place(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPLITSTEP_MIRROR", f"{server}/whole/")
    path = fetch(Source(NAME, OFFICIAL, RIGHT, MOST), tmp_path)
    assert path == tmp_path / NAME
    assert path.read_bytes() == BODY
    assert files(tmp_path) == [path]


def test_the_official_source_is_asked_without_a_mirror(server: str, tmp_path: Path) -> None:
    path = fetch(Source(NAME, f"{server}/whole/other-name.bin", RIGHT, MOST), tmp_path)
    assert path.read_bytes() == BODY


@pytest.mark.parametrize(("folder", "sha256", "says"), [
    ("missing", RIGHT, "404|Not Found"),
    ("cut", RIGHT, "5,119,993 of 5,120,000 bytes"),
    ("announced", RIGHT, "1,000,000,000,000 bytes are announced, and the file has at most 6,000,000"),
    ("endless", RIGHT, "more than 6,000,000 bytes came"),
    ("whole", "0" * 64, f"sha256 {RIGHT} and should have {'0' * 64}"),
])  # fmt: skip
@pytest.mark.parametrize("old", [b"", b"old"], ids=["nothing before", "a file before"])
def test_nothing_half_written_remains_and_what_was_there_does(
    server: str, tmp_path: Path, folder: str, sha256: str, says: str, old: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    if old:
        (tmp_path / "tiny").mkdir()
        (tmp_path / NAME).write_bytes(old)
    monkeypatch.setenv("SPLITSTEP_MIRROR", f"{server}/{folder}")
    with pytest.raises(ValueError, match=says) as caught:
        fetch(Source(NAME, OFFICIAL, sha256, MOST), tmp_path)
    message = str(caught.value)
    assert "\n" not in message
    for part in (str(tmp_path / NAME), f"{server}/{folder}/{NAME}", OFFICIAL, "SPLITSTEP_DATA"):
        assert part in message
    assert b"".join(file.read_bytes() for file in files(tmp_path)) == old


def test_locate_prefers_what_is_there(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPLITSTEP_MIRROR", f"{server}/whole")
    source = Source(NAME, OFFICIAL, RIGHT, MOST)
    (tmp_path / "second.bin.xz").write_bytes(b"here")
    assert locate(tmp_path, source, "first.bin", "second.bin") == tmp_path / "second.bin.xz"
    assert find(tmp_path, "first.bin", NAME) is None
    assert locate(tmp_path, source, "first.bin").read_bytes() == BODY
    monkeypatch.setenv("SPLITSTEP_MIRROR", f"{server}/missing")
    assert locate(tmp_path, source, "first.bin").read_bytes() == BODY  # not asked for again


def test_the_data_folder_is_given_or_set_or_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPLITSTEP_DATA", "/set")
    assert data_root(Path("given")) == Path("given")
    assert data_root(None) == Path("/set")
    monkeypatch.delenv("SPLITSTEP_DATA")
    assert data_root(None) == Path("data")


def packed(form: str) -> bytes:
    """The body in one of the forms that are read."""
    if form == ".zip":
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("inner/member", BODY)
        return file.getvalue()
    return {"": lambda: BODY, ".gz": lambda: gzip.compress(BODY), ".xz": lambda: lzma.compress(BODY)}[form]()


@pytest.mark.parametrize("form", ["", ".gz", ".xz", ".zip"])
def test_every_form_is_unpacked_and_checked(form: str, tmp_path: Path) -> None:
    path = tmp_path / f"file{form}"
    path.write_bytes(packed(form))
    assert read(path, "inner/member", Content(len(BODY), RIGHT)) == BODY
    with pytest.raises(ValueError, match="holds more than 3 bytes"):
        read(path, "inner/member", Content(3, RIGHT))
    with pytest.raises(ValueError, match="holds 5,120,000 bytes and should hold 5,120,001"):
        read(path, "inner/member", Content(len(BODY) + 1, RIGHT))
    with pytest.raises(ValueError, match=f"sha256 {RIGHT} and should have 1111"):
        read(path, "inner/member", Content(len(BODY), "1" * 64))


@pytest.mark.parametrize("form", [".gz", ".xz", ".zip"])
@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_a_damaged_file_is_named(form: str, damage: str, tmp_path: Path) -> None:
    path = tmp_path / f"file{form}"
    whole = packed(form)
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] if damage == "cut" else whole[:middle] + b"\xff\xff\xff" + whole[middle + 3 :])
    with pytest.raises(ValueError, match=r"damaged or cut short: .*Put a whole copy there") as caught:
        read(path, "inner/member")
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("form", [".gz", ".xz", ".zip", ".tgz"])
def test_a_bomb_is_not_unpacked(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of some kilobytes that holds megabytes of zeros."""
    monkeypatch.setattr("splitstep.text.files.ROOM", 1 << 20)
    path, zeros = tmp_path / f"bomb{form}", bytes(8 << 20)
    if form == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("inner/member", zeros)
    else:
        path.write_bytes(lzma.compress(zeros, preset=0) if form == ".xz" else gzip.compress(zeros, 6))
    assert path.stat().st_size < 20_000
    with pytest.raises(ValueError, match=r"bomb\S+ \([0-9,]+ bytes\) holds more than [0-9,]+ bytes"):
        list(read_tar(path)) if form == ".tgz" else read(path, "inner/member")
    with pytest.raises(ValueError, match=r"holds more than 1,000 bytes"):
        read(path, "inner/member", Content(1000, RIGHT))
    assert len(read(path, "inner/member", Content(len(zeros), hashlib.sha256(zeros).hexdigest()))) == len(zeros)


def test_a_tar_s_holes_and_links_are_left_alone(tmp_path: Path) -> None:
    """A link to itself, and a file of a terabyte that is nothing but a hole."""
    path = tmp_path / "odd.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        loop, hole, plain = (tarfile.TarInfo(name) for name in ("loop", "hole", "plain"))
        loop.type, loop.linkname = tarfile.SYMTYPE, "loop"
        archive.addfile(loop)
        hole.pax_headers = {"GNU.sparse.size": str(10**12), "GNU.sparse.map": "0,0", "GNU.sparse.numblocks": "1"}
        archive.addfile(hole)
        plain.size = 3
        archive.addfile(plain, io.BytesIO(b"abc"))
    assert list(read_tar(path)) == [("plain", b"abc")]


UNREADABLE = """
import os, sys
from pathlib import Path
from splitstep.text.files import read, read_tar
os.getuid() or os.setuid(65534)  # root may read everything
for path in map(Path, sys.argv[1:]):
    try:
        next(read_tar(path)) if path.suffix == ".tgz" else read(path, "inner/member")
    except ValueError as error:
        print(error)
"""


def test_what_may_not_be_read_is_not_called_damaged() -> None:
    """A folder, and a file without the right to read it: nobody is told to remove either."""
    with tempfile.TemporaryDirectory() as folder:  # pytest's own are for its own user alone
        root, expected = Path(folder), {}
        root.chmod(0o755)
        for form in ("", ".gz", ".xz", ".zip", ".tgz"):
            (root / f"folder{form}").mkdir()
            (root / f"locked{form}").write_bytes(b"somebody's work")
            (root / f"locked{form}").chmod(0)
            expected |= {f"folder{form}": "Is a directory", f"locked{form}": "Permission denied"}
        words = [sys.executable, "-c", UNREADABLE, *(str(root / name) for name in expected)]
        found = subprocess.run(words, check=True, capture_output=True, text=True, timeout=300).stdout.splitlines()
    assert found == [
        f"{root / name} cannot be read ({reason}): make it a file that you may read"
        for name, reason in expected.items()
    ]
