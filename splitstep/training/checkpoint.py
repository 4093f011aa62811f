"""Checkpoints: the state of a run in a folder that appears whole or not at all, with checksums that show damage.

Each process writes the rows that it holds of each tensor, as safetensors. `state.json` holds the run's progress and,
for each file, its checksum and the rows at which its tensors begin. Any number of processes can continue from it. The
files are written one tensor at a time and read row by row.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, final
from zlib import crc32

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ..support.documents import read_json
from ..support.files import naming, remove, whole_folder
from ..support.memory import no_memory
from .objective import Learner
from .processes import Processes
from .weights import LocalShard

PREFIX = "step-"
Groups = Mapping[str, Mapping[str, Tensor]]
Shards = Mapping[str, LocalShard]


def learned(learner: Learner, optimizer: torch.optim.Optimizer) -> Groups:
    """The tensors that training changes, by the file that stores them; a moment is named after its weight. The
    objective's own have a file of their own, so the model's files are the same under any objective."""

    def moments(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {f"{name}:{key}": x for name, p in weights.items() for key, x in optimizer.state.get(p, {}).items()}

    weights, own = dict(learner.model.named_parameters()), learner.own()
    groups = {"model": weights, "optimizer": moments(weights)}
    return {**groups, "objective": own | moments(own)} if own else groups


def generators(rank: int) -> dict[str, Tensor]:
    """The states of this process's generators; only a fused attention dropout on a GPU ever draws from them."""
    number = f"-{rank}" if rank else ""
    states = {f"cpu{number}": torch.get_rng_state()}
    return states | ({f"cuda{number}": torch.cuda.get_rng_state()} if torch.cuda.is_available() else {})


def set_generators(states: Mapping[str, Tensor]) -> None:
    for name, state in states.items():
        (torch.cuda if name.startswith("cuda") else torch).set_rng_state(state)


def share(group: Shards, world: Processes) -> Shards:
    """What this process writes: its rows of sharded tensors, and its share of those that every process has."""
    return {
        name: one
        for number, (name, one) in enumerate(group.items())
        if (one.local.numel() if one.is_sharded else number % world.size == world.rank)
    }


def save_checkpoint(
    folder: Path, step: int, state: Mapping[str, Any], shares: Mapping[str, Shards], world: Processes, keep: int
) -> None:
    """Write `step-N` under `folder`, each process its shares of the groups; then delete all but the newest `keep`."""
    final = folder / f"{PREFIX}{step:09d}"
    if not world.from_first(final.exists):  # writing it again would give the same files
        with ExitStack() as held:
            part = world.from_first(lambda: held.enter_context(whole_folder(final)))
            written = world.together(lambda: write_shares(part, shares, world))
            files = {name: entry for one in written for name, entry in one.items()}
            world.on_first(lambda: write_state(part / "state.json", {**state, "files": files}))
            world.on_first(held.close)
    world.on_first(lambda: prune(folder, keep))


def write_shares(part: Path, shares: Mapping[str, Shards], world: Processes) -> dict[str, Any]:
    """Write a file for each group, and return what `state.json` says of each."""
    files: dict[str, Any] = {}
    for group, share in shares.items():
        name = f"{group}.safetensors" if world.size == 1 else f"{group}-{world.rank}-of-{world.size}.safetensors"
        if share:
            with naming(part / name):
                checksum = write_tensors(part / name, {key: one.local for key, one in share.items()})
            starts = {key: one.start for key, one in share.items() if one.start}
            files[name] = {"group": group, "crc32": checksum, "starts": starts}
    return files


def write_state(file: Path, document: Mapping[str, Any]) -> None:
    file.write_text(json.dumps({**document, "crc32": checksum_of_state(document)}, indent=1, allow_nan=False))


def checksum_of_state(document: Mapping[str, Any]) -> int:
    return crc32(json.dumps(document).encode())


def prune(folder: Path, keep: int) -> None:
    """Delete all checkpoints but the newest; 0 keeps them all."""
    for old in list_checkpoints(folder)[:-keep] if keep else []:
        remove(old)


def list_checkpoints(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{PREFIX}*")) if folder.is_dir() else []


@final
class CheckpointReader:
    """A checkpoint to read: its state, and rows of its tensors. One of an older version has no checksums."""

    def __init__(self, folder: Path, world: Processes) -> None:
        self.state = read_json(folder / "state.json")
        checksum = self.state.pop("crc32", None)
        if checksum not in (None, checksum_of_state(self.state)):
            raise ValueError("state.json has changed: its checksum differs")
        older = {file.name: {"group": file.stem, "starts": {}} for file in sorted(folder.glob("*.safetensors"))}
        files: dict[str, Any] = self.state.pop("files", older)
        self.groups: dict[str, dict[str, list[Rows]]] = {}
        for number, (name, entry) in enumerate(files.items()):
            mine = number % world.size == world.rank  # the processes share the work
            if mine and "crc32" in entry and entry["crc32"] != checksum_of(folder / name):
                raise ValueError(f"{name} has changed: its checksum differs")
            group = self.groups.setdefault(entry["group"], {})
            for rows in rows_of(folder / name, entry["starts"]):
                group.setdefault(rows.name, []).append(rows)

    @torch.no_grad()
    def fill(self, group: str, targets: Shards) -> None:
        """Copy stored tensors into those of a run; `copy_` alone would broadcast one of another shape."""
        for name, target in targets.items():
            found = self.groups[group][name]
            if (shape := whole_shape(found)) != list(target.shape):
                raise ValueError(f"{name} has shape {shape} instead of {list(target.shape)}")
            for rows in found:
                rows.copy_to(target)


def restore(folder: Path, load: Callable[[CheckpointReader], None], world: Processes) -> str:
    """Call `load` with the newest undamaged checkpoint, if there is one. Newer ones that are damaged are deleted, and
    the remark that is returned says so; if all are damaged, that is an error."""
    paths: list[Path] = world.from_first(lambda: list_checkpoints(folder)[::-1])
    reasons: list[str] = []  # of the newest ones that are damaged
    for path in paths:
        faults = world.together(partial(fault, path, load, world))
        if not any(faults):
            break
        reasons.append(next(filter(None, faults)))
    if not reasons:
        return ""
    count = len(reasons)
    others = {1: "", 2: ", and so is the one before it"}.get(count, f", and so are the {count - 1} before it")
    told = f"the checkpoint {paths[0]} is damaged ({reasons[0]}){others}"
    if count == len(paths):
        raise ValueError(f"{told}: delete {folder} to start from the beginning, or name a new directory with --out")
    world.on_first(lambda: [remove(path) for path in paths[:count]])
    return f"{told}, so the one before {'it' if count == 1 else 'them'} is used"


def fault(path: Path, load: Callable[[CheckpointReader], None], world: Processes) -> str:
    """Why a checkpoint cannot be loaded; empty if it was loaded."""
    try:
        load(CheckpointReader(path, world))
    except (OSError, AttributeError, KeyError, TypeError, ValueError, RuntimeError, SafetensorError) as error:
        if no_memory(error):
            raise
        return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    return ""


NAMES = {
    torch.float64: "F64", torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip
CHUNK = 2**22  # bytes read at a time


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> int:
    """Write a file, flush it to the disk, and return its checksum."""
    checksum = 0
    with path.open("wb") as file:
        for data in contents(tensors):
            file.write(data)
            checksum = crc32(data, checksum)
        file.flush()
        os.fsync(file.fileno())
    return checksum


def contents(tensors: Mapping[str, Tensor]) -> Iterator[bytes | memoryview]:
    """The header's length, the header, and the tensors, brought into the host's memory one at a time. Wide types come
    first, so all are aligned."""
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, Any] = {}
    end = 0
    for name in order:
        x, begin = tensors[name], end
        end += x.nbytes
        header[name] = {"dtype": NAMES[x.dtype], "shape": list(x.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little")
    yield text
    for name in order:
        yield tensors[name].detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data


def checksum_of(path: Path) -> int:
    """The checksum of a file: the one that `write_tensors` returned, if nothing has changed."""
    checksum = 0
    with path.open("rb") as file:
        while data := file.read(CHUNK):
            checksum = crc32(data, checksum)
    return checksum


class Rows(NamedTuple):
    """Some rows of a tensor in a file; the first of them is row `start` of the whole tensor."""

    file: Any
    name: str
    start: int

    @property
    def shape(self) -> list[int]:
        return self.file.get_slice(self.name).get_shape()

    def copy_to(self, target: LocalShard) -> None:
        """Copy the rows that both have, and read no others."""
        if not target.shape:
            target.local.copy_(self.file.get_tensor(self.name))
            return
        begin = max(self.start, target.start)
        end = min(self.start + self.shape[0], target.start + len(target.local))
        if begin < end:
            found = self.file.get_slice(self.name)[begin - self.start : end - self.start]
            target.local[begin - target.start : end - target.start].copy_(found)


def rows_of(path: Path, starts: Mapping[str, int]) -> Iterator[Rows]:
    """The rows that a file holds. A tensor begins at row 0, unless `starts` has another number."""
    file: Any = safe_open(path, "pt")
    return (Rows(file, name, starts.get(name, 0)) for name in file.keys())  # noqa: SIM118  # not a mapping


def whole_shape(parts: Sequence[Rows]) -> list[int]:
    """The shape of a tensor whose rows are in several parts."""
    shapes = [rows.shape for rows in parts]
    return [sum(shape[0] for shape in shapes), *shapes[0][1:]] if shapes[0] else []
