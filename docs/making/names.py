"""The table of public names in docs/api.md, for readers of the repository; the site replaces it by the whole reference.

    python docs/making/names.py

writes it anew from docstrings.
"""

import inspect
import re
from pathlib import Path

from hooks import NAMES, sections

import splitstep as ss

PAGE = Path(__file__).parents[1] / "api.md"
VALUES = {  # what has no docstring of its own
    "Field": "The type of a field: a function of t, x and a context that gives dx/dt.",
    "SCHEMES": "The named schemes, by name.",
    "TABLEAUX": "The tableaux, by name.",
}


def said(name: str) -> str:
    """The first sentence of a name's docstring."""
    text = " ".join((inspect.getdoc(getattr(ss, name)) or "").split("\n\n")[0].split())
    return VALUES.get(name) or re.split(r"(?<=[.:])\s+(?=[A-Z])", text)[0].rstrip(":.").replace("|", "\\|") + "."


def table() -> str:
    """All names in sections, each with a sentence."""
    found = [
        "\n".join([f"| {title} | |", "|---|---|", *(f"| `{name}` | {said(name)} |" for name in names)])
        for title, names in sections().items()
    ]
    return "\n\n".join(found)


def page() -> str:
    """The page with its table as it is now."""
    begin, end = NAMES
    before, _, rest = PAGE.read_text().partition(begin)
    return f"{before}{begin}\n\n{table()}\n\n{end}{rest.partition(end)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page())
