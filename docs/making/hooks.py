"""What the site has beside the pages of docs/: the log, notebooks as pages, and the reports of real results.

mkdocs calls these hooks. A link to a file of the repository that is no page of the site becomes its text.
"""

import inspect
import json
import re
from collections.abc import Iterator
from dataclasses import fields
from os.path import normpath, relpath
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import splitstep as ss
from splitstep.doors.lists import report

ROOT = Path(__file__).parents[2]
PAGES = {"LOG.md": "log.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
REPORTS = (  # of which the gallery shows the page: folders of results/
    "compare/newsgroups-unscaled", "compare/newsgroups", "compare/wikitext2-flops", "compare/mnist-order",
    "pretrain/mlm", "pretrain/glue", "inspect/smollm2", "inspect/minilm", "inspect/smollm2-converge", "schemes",
    "pde/mnist", "pde/digits-discretisation", "pde/digits-limit", "approximate/product", "distil/pair_e",
    "distil/pair_f", "translation/multi30k-en-de",
)  # fmt: skip
PICTURE = r"!\[[^\]]*\]\([^)]*\)"
LINK = re.compile(rf"(!?)\[((?:{PICTURE}|[^\[\]])*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
NAMES = "<!-- names -->", "<!-- end of names -->"  # around the table that the reference of Python replaces
SECTIONS = (  # of the reference: a title, and the modules whose names stand below it, as the beginning of their path
    ("Commands and pictures", ("splitstep.doors",)),
    ("Schemes", ("splitstep.scheme", "splitstep.notation", "splitstep.tableau", "splitstep.own_letters")),
    ("Integration", ("splitstep.integrate", "splitstep.stack", "splitstep.reversible")),
    ("Models", ("splitstep.models", "splitstep.inference", "splitstep.opening", "splitstep.flows", "splitstep.probes")),
    ("Values", ("",)),
)
RESULTS = (  # whose attributes and methods the reference shows
    "experiments.result.Result", "studies.compare.result.Comparison", "studies.inspect.result.Inspection",
    "studies.inspect.result.ModelFindings", "studies.inspect.result.Series", "studies.orders.Orders",
    "studies.orders.Row", "studies.trajectory.Trajectory", "studies.ablate.result.Ablation",
    "studies.glue.result.GlueResult", "studies.distil.result.DistilResult",
)  # fmt: skip
MEMBERS = '\n    options:\n      members: null\n      filters: ["!^_(?!repr_html_$)"]'
OF_ALL = (
    "\n    options:\n      inherited_members: true"
    "\n      members: [verdict, frame, plot, _repr_html_, json, document, records, save, save_page]"
)
FENCED = re.compile(r"(^```.*?^```$)", re.M | re.S)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not kept in docs/."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    for notebook in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        page = f"notebooks/{notebook.stem}.md"
        files.append(File.generated(config, page, content=as_markdown(json.loads(notebook.read_text()))))
    for name, file in reports(Path(config.site_dir).parent / "reports"):
        files.append(File.generated(config, address(name), abs_src_path=str(file)))
    return files


def reports(folder: Path) -> Iterator[tuple[str, Path]]:
    """The pages that `splitstep report` makes of the results, each with the name of its folder."""
    for name in REPORTS:
        [made] = report(ROOT / "results" / name, out=folder / name)
        assert not isinstance(made, str)
        yield name, made.page


def address(name: str) -> str:
    """Where on the site the report of a result is."""
    return f"gallery/{name.replace('/', '-')}.html"


def as_markdown(notebook: Any) -> str:
    """The cells of a notebook, those with code as blocks."""
    cells = [("".join(cell["source"]), cell["cell_type"]) for cell in notebook["cells"]]
    return "\n\n".join(f"```python\n{text}\n```" if kind == "code" else text for text, kind in cells) + "\n"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links of the repository become links of the site."""
    here = next((source for source, own in PAGES.items() if own == page.file.src_uri), f"docs/{page.file.src_uri}")
    before, begin, rest = markdown.partition(NAMES[0])
    parts = FENCED.split(f"{before}{reference()}{rest.partition(NAMES[1])[2]}" if begin else markdown)
    parts[::2] = [LINK.sub(lambda found: link(found, here, page.file.src_uri), part) for part in parts[::2]]
    return "".join(parts)


def sections() -> dict[str, list[str]]:
    """Every public name, by section."""
    found: dict[str, list[str]] = {title: [] for title, _ in SECTIONS}
    for name in sorted(set(ss.__all__) - {"__version__"}, key=lambda name: (name.lower(), name)):
        module = home(getattr(ss, name))
        found[next(title for title, starts in SECTIONS if module.startswith(starts))].append(name)
    return found


def reference() -> str:
    """Every public name with its parameters, in sections."""
    found = {
        title: [f"::: splitstep.{name}{MEMBERS if name == 'Scheme' else ''}" for name in names]
        for title, names in sections().items()
    }
    shown = [f"::: splitstep.{name}{MEMBERS if i else OF_ALL}" for i, name in enumerate(RESULTS)]
    found = {"Letters": [letters()], SECTIONS[0][0]: found.pop(SECTIONS[0][0]), "Results": shown} | found
    return "\n\n".join("\n\n".join([f"## {title}", *names]) for title, names in found.items() if names)


def letters() -> str:
    """The letters of schemes, `ss.letters.LETTERS`: what each field is, and its options with their defaults."""
    rows = ["| letter | field | mixes tokens | keeps for generation | options |", "|---|---|---|---|---|"]
    for name in sorted(ss.letters.OWN):
        one = ss.letters.LETTERS[name]
        options = ", ".join(f"`{each.name}={each.default}`" for each in fields(one.options)) or "none"
        rows.append(f"| `{name}` | {one.title} | {'yes' if one.mixes else 'no'} | {one.state} | {options} |")
    said = "`ss.letters.LETTERS` has them by name, and `@ss.letter` adds one. An option: `model.letters.A.qk_norm=rms`."
    return "\n".join([said, "", *rows])


def home(value: Any) -> str:
    """The module of a class or a function, the name of a module; nothing for other values."""
    if isinstance(value, ModuleType):
        return value.__name__
    return inspect.unwrap(value).__module__ if inspect.isfunction(value) or inspect.isclass(value) else ""


def link(found: re.Match[str], here: str, page: str) -> str:
    """A link on a page, with its target as the site has it."""
    image, text, target, anchor = found.groups(default="")
    if "://" in target:
        return found[0]
    path = normpath(PurePosixPath(here).parent / target)
    there = site_path(path)
    if there is None:
        return text
    return f"{image}[{text}]({relpath(there, str(PurePosixPath(page).parent))}{anchor})"


def site_path(path: str) -> str | None:
    """The page, relative to docs/, that shows a file of the repository."""
    if path in PAGES:
        return PAGES[path]
    if path.startswith("docs/"):
        return re.sub(r"\.ipynb$", ".md", path.removeprefix("docs/"))
    name = path.removeprefix("results/").removesuffix("/result.json")
    return address(name) if name in REPORTS else None
