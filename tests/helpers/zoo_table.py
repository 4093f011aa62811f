"""The table of architectures in docs/guide/inspect.md, written from the zoo: `python tests/helpers/zoo_table.py`."""

from pathlib import Path

from zoo import APART, OTHERS, REFUSED

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "inspect.md"
BEGIN, END = "<!-- begin: written by tests/helpers/zoo_table.py -->", "<!-- end -->"


def table() -> str:
    """The table as Markdown: a row for each scheme, and one for each model with a reason of its own."""
    rows = [(f"`{scheme}`", sorted(names.split(), key=str.lower), "exact") for scheme, names in APART.items()]
    rows += [
        (f"`{scheme}`", [name], f"exact{' by whole layers' * (scheme == 'W')}; {reason}")
        for name, (scheme, reason) in sorted(OTHERS.items())
    ]
    rows += [("none", [name], f"refused: {reason}") for name, (_, reason) in sorted(REFUSED.items())]
    lines = [f"| {', '.join(names)} | {cell(scheme)} | {verdict} |" for scheme, names, verdict in rows]
    return "\n".join(["| architectures | scheme | exact, or why not |", "|---|---|---|", *lines])


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def page(text: str) -> str:
    """The page with this table in place of the one that it holds."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
