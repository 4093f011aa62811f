"""The settings of the papers: methods by name, as text."""

from __future__ import annotations

from typing import NamedTuple


class Preset(NamedTuple):
    """A method with a name, and where its weights come from."""

    method: str
    source: str


ALIASES = {
    "mta": "2 mta.dsa + .2 mta.hid",
    "sra": ".6 ce + .4 sra.centre + 20 sra.geometry + .4 sra.vocabulary(temperature=2)",
}
"""Names that stand for several terms inside of a sum."""

PRESETS = {
    "distillm": Preset("skl(alpha=.1)", "DistiLLM, arXiv 2402.03898; without its sampling from the student"),
    "distillm-reverse": Preset("srkl(alpha=.1)", "DistiLLM, arXiv 2402.03898; without its sampling from the student"),
    "mta": Preset("skl + mta", "MTA on DistiLLM, arXiv 2605.01374, weights (2, .2)"),
    "mta-strong": Preset("skl + 3 mta.dsa + .3 mta.hid", "MTA on DistiLLM, arXiv 2605.01374, weights (3, .3)"),
    "sra": Preset("sra", "SRA, arXiv 2605.01205: alpha .6, lambda 50, temperature 2, as one port has them"),
    "uld-paper": Preset("ce + 1.5 uld", "ULD, arXiv 2402.12030; 1.5 as in the commands of its code"),
}
"""Names that stand for a whole method. They hold if nothing else is written: `mta` alone is `skl + mta`."""
