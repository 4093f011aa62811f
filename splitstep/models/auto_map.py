"""How programs that never imported splitstep open a saved model: `auto_map` in config.json, and one small file.

transformers would copy the source of every class that is involved. It need not: the small file imports the classes from
the installed package.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

FILE = Path("splitstep_models.py")
MADE_BY: dict[type, Mapping[str, type]] = {}  # by config class: the Auto classes' names, and the class that each makes

SOURCE = '''"""Where transformers finds the classes of this model: in the package splitstep (pip install splitstep)."""

{imports}

__all__ = {names}
'''


def auto_map(config: type) -> dict[str, str]:
    """The entry `auto_map` of config.json; empty if the config belongs to no kind of model."""
    return {auto: f"{FILE.stem}.{made.__name__}" for auto, made in MADE_BY.get(config, {}).items()}


def source(config: type) -> str:
    """The text of the small file."""
    found: dict[str, set[str]] = defaultdict(set)
    for made in MADE_BY[config].values():
        package = made.__module__.split(".")[0]
        found["splitstep" if package == "splitstep" else made.__module__].add(made.__name__)  # files may be renamed
    lines = [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(found.items())]
    return SOURCE.format(imports="\n".join(lines), names=sorted(name for names in found.values() for name in names))
