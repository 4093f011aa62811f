"""Docstrings of the package as the site's reference reads them.

A verb's docstring is its help: an example, and entries such as "seeds N: The number of seeds." Here the example becomes
a block of code, and the entries what Google's style calls arguments.
"""

import re
from typing import Any

import griffe

import splitstep
from splitstep.doors.door import SECTION, read_help

EXAMPLE = re.compile(r"^Example:\n((?:  .*\n?)+)", re.M)
LISTED = re.compile(r"^(Other [^\n]*:)\n((?:  .*\n?)+)", re.M)


class Docstrings(griffe.Extension):
    """Docstrings of verbs in Google's style; in all of them f[name](x) and f[i][j] are no links."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"\](?=[(\[])", r"]\\", obj.docstring.value)

    def on_function_instance(self, *, func: griffe.Function, **_: Any) -> None:
        found = getattr(splitstep, func.name, None) if ".doors." in func.path else None
        text = getattr(found, "__doc__", None) or ""
        if func.docstring is not None and SECTION in text:
            func.docstring.value = as_google(text)


def as_google(docstring: str) -> str:
    """The help of a verb in Google's style."""
    said = read_help(docstring)
    text = EXAMPLE.sub(lambda found: f"```\n{unindented(found[1])}```\n", said.text.replace("\b\n", ""))
    text = LISTED.sub(lambda found: f"{found[1]}\n\n```\n{unindented(found[2])}```\n", text)
    entries = [f"    {name}: {help}" for name, (_, help) in said.parameters.items()]
    return "\n".join([text.rstrip(), "", "Args:", *entries])


def unindented(lines: str) -> str:
    return re.sub(r"^  ", "", lines.rstrip("\n"), flags=re.M) + "\n"
