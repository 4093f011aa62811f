"""Freezes what must not change by accident: pages, help, batches, configs, weights and curves, as hashes in one file.

python tests/helpers/golden.py check [SECTION...]    # say what differs from tests/golden.json
python tests/helpers/golden.py write [SECTION...]    # take what there is now
python tests/helpers/golden.py show SECTION NAME     # print one entry, to compare it with that of an older checkout
"""

import hashlib
import json
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")  # as in tests/conftest.py

import torch
from golden_sections import Entries, sections

FILE = Path(__file__).parents[1] / "golden.json"
VERSIONS = ("numpy", "rich", "scikit-learn", "tokenizers", "torch", "transformers", "typer")
ON_ONE_KIND = ("models", "runs")  # sections whose numbers depend on the processor
Stored = dict[str, dict[str, str]]


def stored() -> Stored:
    """The hashes of all sections, and what they were made with."""
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def made_with() -> dict[str, str]:
    """What texts and numbers depend on besides the package; of a processor, the instructions that PyTorch uses."""
    versions = {name: version(name).split("+")[0] for name in VERSIONS}
    processor = f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"
    return {**versions, "python": platform.python_version(), "processor": processor}


def other_ground(section: str) -> str:
    """Why this machine may rightly give other texts than those stored for a section; empty if it may not."""
    before, now = stored().get("made with", {}), made_with()
    different = [name for name in now if before.get(name) != now[name]]
    different = [name for name in different if name != "processor" or section in ON_ONE_KIND]
    return ", ".join(f"{name} is {now[name]} and was {before.get(name)}" for name in different)


def mark(text: str) -> str:
    """A text's hash and its size in characters."""
    return f"{hashlib.sha256(text.encode()).hexdigest()} {len(text)}"


def differences(section: str, now: Entries) -> Iterator[str]:
    """What differs from the stored hashes of a section; one without entries lacks its data."""
    before = stored().get(section, {})
    for name, make in now.items():
        if name not in before:
            yield f"{section}: {name} is new"
        elif mark(make()) != before[name]:
            yield f"{section}: {name} differs"
    if now:
        yield from (f"{section}: {name} is gone" for name in before if name not in now)


def write(names: Sequence[str]) -> None:
    """Store the hashes of these sections; those of others stay."""
    document = stored() | {"made with": made_with()}
    for section in names:
        entries = sections()[section]()
        if entries:
            document[section] = {name: mark(make()) for name, make in entries.items()}
            print(f"{section}: {len(entries)} entries", flush=True)
    FILE.write_text(json.dumps(document, indent=0, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def check(names: Sequence[str]) -> int:
    """Print what differs; the exit code."""
    code = 0
    for section in names:
        if ground := other_ground(section):
            print(f"{section}: {ground}: differences may come from there", flush=True)
        if not (entries := sections()[section]()):
            print(f"{section}: nothing is checked, for there are no data: set SPLITSTEP_DATA", flush=True)
        found = list(differences(section, entries))
        print(*found, f"{section}: differences: {len(found)}", sep="\n", flush=True)
        code = code or int(bool(found))
    return code


def main(words: Sequence[str]) -> int:
    torch.set_num_threads(1)
    command, *rest = words or ["help"]
    if command == "show" and len(rest) >= 2:
        sys.stdout.write(sections()[rest[0]]()[" ".join(rest[1:])]())
        return 0
    unknown = [name for name in rest if name not in sections()]
    if command not in ("write", "check") or unknown:
        print(f"{__doc__}\nSections: {', '.join(sections())}", file=sys.stderr)
        return 2
    names = rest or list(sections())
    return write(names) or 0 if command == "write" else check(names)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
