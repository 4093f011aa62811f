"""What is installed here: versions, the GPU, threads, folders, and what could be installed."""

import os
import platform
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from shutil import disk_usage

from ..report.document import Document, Verdict
from ..report.result import Report
from ..report.tables import EVERYWHERE, Pairs
from ..support.files import cache_root
from ..support.words import counted, listed
from ..text.files import data_root

REQUIREMENT = re.compile(r"([\w.-]+)[^>;]*(?:>=([\d.]+))?[^;]*(?:; *extra == \"(\w+)\")?")
FOR = {
    "cluster": "--engine dask=ADDRESS", "tensorboard": "--tensorboard", "translation": "translation tasks with Moses",
    "images": "your own images", "distil": "ROUGE-L in compare distil", "clients": "GGUF files, adapters and others",
    "notebooks": ".plot(), .frame() and notebooks",
}  # fmt: skip  # what each extra is for


@dataclass(frozen=True)
class Checkup(Report):
    """What is installed here and where its folders are; `missing` says how to install what is not there, and `wrong`
    what must be mended."""

    versions: Mapping[str, str]
    computer: Mapping[str, str]
    folders: Mapping[str, str]
    missing: Mapping[str, str]
    wrong: tuple[str, ...]

    def document(self) -> Document:
        """What must be mended, and all the rest as one list."""
        rows = [("versions", ", ".join(f"{name} {one}" for name, one in self.versions.items()))]
        rows += [*self.computer.items(), *self.folders.items(), *self.missing.items()]
        said = Verdict("settled", "Everything that splitstep needs is installed.")
        if self.wrong:
            said = Verdict("open", f"{counted(len(self.wrong), 'thing')} to mend: {'; '.join(self.wrong)}.")
        return Document("What is installed here", [Pairs(rows, EVERYWHERE)], said)


def checkup(data: Path | None = None) -> Checkup:
    """What is installed here, with the data in this folder."""
    needed = list(requirements())
    versions = {"Python": platform.python_version()} | {
        name: found for name, _, extra in needed if not extra and (found := installed(name))
    }
    wrong = [one for name, least, extra in needed if not extra and (one := to_mend(name, least))]
    return Checkup(versions, computer(), folders(data), missing(needed), tuple(wrong))


def requirements() -> Iterator[tuple[str, str, str]]:
    """The packages that splitstep asks for: name, least version, and the extra, if it belongs to one."""
    yield "splitstep", "", ""
    for text in requires("splitstep") or ():
        if one := REQUIREMENT.fullmatch(text):
            yield one[1], one[2] or "", one[3] or ""


def installed(name: str) -> str | None:
    """The version of a package, if it is installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def to_mend(name: str, least: str) -> str | None:
    """What is wrong with a package that is needed, and what to type."""
    found = installed(name)
    if found is None:
        return f"{name} is missing: pip install {name}"
    if least and numbers(found) < numbers(least):
        return f"{name} {found} is too old: pip install '{name}>={least}'"
    return None


def numbers(text: str) -> tuple[int, ...]:
    """A version as numbers."""
    return tuple(int(one) for one in re.findall(r"\d+", text)[:3])


def missing(needed: list[tuple[str, str, str]]) -> dict[str, str]:
    """What is not installed of each extra, what it is for and how to install it."""
    found = dict[str, str]()
    for extra in [one for one in FOR if any(extra == one for *_, extra in needed)]:
        if absent := [name for name, _, own in needed if own == extra and installed(name) is None]:
            found[extra] = f"for {FOR[extra]}, {listed(absent)} missing: pip install 'splitstep[{extra}]'"
    return found


def computer() -> dict[str, str]:
    """The machine, its GPU as torch sees it, and the threads of a run."""
    import torch

    from ..jobs import default_workers, threads_per_job

    gpu = "none; networks run on the CPU"
    if torch.cuda.is_available():
        one = torch.cuda.get_device_properties(0)
        gpu = f"{counted(torch.cuda.device_count(), 'device')}, {one.name}, {one.total_memory / 2**30:.0f} GiB"
    elif "CUDA_VISIBLE_DEVICES" in os.environ:
        gpu += f" (CUDA_VISIBLE_DEVICES={os.environ['CUDA_VISIBLE_DEVICES']})"
    jobs, threads = counted(default_workers(), "run"), counted(threads_per_job(), "thread")
    own = counted(torch.get_num_threads(), "thread")
    return {
        "system": f"{platform.system()} {platform.machine()}, {counted(os.cpu_count() or 1, 'core')}",
        "GPU": gpu,
        "threads": f"{own} for a single run; studies train {jobs} at once with {threads} each (OMP_NUM_THREADS)",
    }


def folders(data: Path | None) -> dict[str, str]:
    """Where data and caches are, and the room for runs."""
    root, hub = data_root(data), Path(os.environ.get("HF_HOME") or "~/.cache/huggingface").expanduser()
    free = disk_usage(Path.cwd()).free / 2**30
    return {
        "data": f"{root.absolute()}{there(root)} (--data DIR or SPLITSTEP_DATA)",
        "cache": f"{cache_root().absolute()}{there(cache_root())} (SPLITSTEP_CACHE)",
        "models": f"{hub.absolute()}{there(hub)} (HF_HOME)",
        "free": f"{free:,.0f} GiB here, where runs are written",
    }


def there(folder: Path) -> str:
    """How many entries a folder has."""
    return f", {counted(len(list(folder.iterdir())), 'item')}" if folder.is_dir() else ", not there yet"
