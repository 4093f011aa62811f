"""A document as a value: what a result says, built once and drawn in four ways."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

from ..scheme import Scheme
from ..support.words import did_you_mean
from .charts import Chart
from .tables import Pairs, Table

T = TypeVar("T")
Kind = Literal["settled", "not supported", "open", "too few"]


class Verdict(NamedTuple):
    """One sentence made from the figures, and whether it settles something, leaves it open or lacks the data.

    Among the parts of a document it is for pages, which then do not repeat the document's own. `evidence` is the name
    of a heading of this page, to which a link leads.
    """

    kind: Kind
    sentence: str
    evidence: str = ""


def kind_of(answers: Iterable[str], few: bool = False) -> Kind:
    """The kind of a verdict about these claims: with one that is not supported it is no plain success."""
    found = set(answers)
    if "not supported" in found:
        return "not supported"
    return "settled" if "supported" in found else "too few" if few else "open"


class Heading(NamedTuple):
    """A heading of the second level, or of the third, and the name by which links lead to it."""

    text: str
    level: int = 2
    name: str = ""


class Note(NamedTuple):
    """A sentence or two between other parts, in small print unless it is plain."""

    text: str
    plain: bool = False


class Verbatim(NamedTuple):
    """Text with its own line breaks, such as a command or a recipe; an answer of a model scrolls in a box."""

    text: str
    answer: bool = False


class Diagrams(NamedTuple):
    """Schemes as pictures beside each other, each under its name."""

    schemes: Sequence[tuple[str, Scheme]]


class Beside(NamedTuple):
    """Parts beside each other if there is room."""

    parts: "Sequence[Part | Stacked]"


class Stacked(NamedTuple):
    """Parts one below the other, in one place of `Beside`."""

    parts: Sequence["Part"]


class Evidence(NamedTuple):
    """What the headline rests on: parts that a page folds under a title, which is also the place of a link."""

    title: str
    parts: Sequence["Part"]


Part = Verdict | Heading | Note | Verbatim | Pairs | Diagrams | Beside | Evidence | Table | Chart


@dataclass(frozen=True)
class Document:
    """A title, a verdict, and parts in the order of the page. On a terminal and in Markdown it has the verdict and the
    tables whose detail goes there. A page begins with the headline, the verdict without its figures, if there is one,
    and shows the verdict below the first picture."""

    title: str
    parts: Sequence[Part]
    verdict: Verdict | None = None
    headline: str = ""

    @property
    def tables(self) -> list[Table]:
        """All tables, in order."""
        return list(of_kind(Table, self.parts))

    @property
    def charts(self) -> list[Chart]:
        """All charts, in order."""
        return list(of_kind(Chart, self.parts))

    def chart(self, title: str | None = None) -> Chart:
        """The chart of this title, else the first."""
        named = {one.title: one for one in reversed(self.charts)}
        if not named or (title is not None and title not in named):
            raise ValueError(
                f"{self.title} has no chart{f' {title!r}' if title else ''}. {did_you_mean(title or '', named)}"
            )
        return self.charts[0] if title is None else named[title]


def flat(parts: Iterable[Part | Stacked]) -> Iterator[Part]:
    """All parts, also those beside each other and those that are folded."""
    for part in parts:
        if isinstance(part, Beside | Stacked | Evidence):
            yield from flat(part.parts)
        else:
            yield part


def of_kind(kind: type[T], parts: Iterable[Part | Stacked]) -> Iterator[T]:
    """The parts of one kind."""
    return (part for part in flat(parts) if isinstance(part, kind))


def in_pairs(parts: Sequence[Part]) -> list[Beside]:
    """Parts two by two beside each other."""
    return [Beside(parts[i : i + 2]) for i in range(0, len(parts), 2)]


def folded(tables: Iterable[Table]) -> list[Part]:
    """Tables that have rows as evidence, each under its own title."""
    return [Evidence(table.title, [table]) for table in tables if table.rows]
