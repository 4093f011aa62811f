"""The verdict of a comparison: which schemes its seeds tell apart from the first, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...experiments.statistics import FEWEST, Bounds, Estimate, detectable, jointly
from ...notation import shortened
from ...report.document import Verdict
from ...support.words import counted, listed
from ...tasks.measures import Metric, title_of
from .result import Comparison, Row


class Gap(NamedTuple):
    """The difference of a row to the first one, with an interval that holds for all rows at once."""

    name: str
    found: Estimate  # as the table has it
    joint: Estimate

    @property
    def few(self) -> bool:
        return self.found.n < FEWEST or self.found.low is None

    @property
    def apart(self) -> bool:
        return not self.few and excludes_zero(self.joint)


def excludes_zero(found: Estimate) -> bool:
    return found.low is not None and found.high is not None and not found.low <= 0 <= found.high


def compare_verdict(result: Comparison) -> Verdict:
    """Which schemes are better or worse than the first, or how large a difference would have been seen."""
    first, *others = result.rows
    if first.test is None:
        return Verdict("too few", f"No run of {shortened(first.name)} gave a figure.")
    if not others:
        return Verdict("open", alone(result.metric, first, first.test))
    found = [(shortened(row.name), difference(result, row)) for row in others]
    known, bounds = [(name, one) for name, one in found if one], Bounds(result.metric.least, result.metric.greatest)
    gaps = [Gap(name, one, jointly(one, len(known), bounds)) for name, one in known]
    told = [gap for gap in gaps if gap.apart]
    if all(gap.few for gap in gaps):
        kind, clauses = "too few", [too_few(result, gaps)]
    else:
        kind, clauses = "settled" if told else "open", told_apart(result, gaps, told)
    lost = [name for name, one in found if one is None]
    clauses += [f"{listed(lost)} gave no figure to compare"] if lost else []
    return Verdict(kind, f"{'; '.join(clauses)}.")


def alone(metric: Metric, row: Row, test: Estimate) -> str:
    """What is known of a single scheme."""
    form = metric.format
    interval = test.lacks or f"95% interval {form.format(test.low)} to {form.format(test.high)}"
    said = f"{shortened(row.name)} has a test {title_of(metric)} of {form.format(test.mean)} ({interval})"
    return f"{said}; nothing was compared."


def told_apart(result: Comparison, gaps: Sequence[Gap], told: Sequence[Gap]) -> list[str]:
    """The schemes that the seeds tell apart from the first, then those that they do not."""
    at_once = f"all {len(gaps)} differences at once"
    clauses = [better_or_worse(result, gap) for gap in told]
    clauses += [f"intervals hold for {at_once}"] if len(gaps) > 1 and told else []
    clauses += left_open(result, gaps)
    if not told and any(excludes_zero(gap.found) for gap in gaps):
        clauses.append(f"the intervals in the table hold one by one, not for {at_once}")
    return clauses


def difference(result: Comparison, row: Row) -> Estimate | None:
    """The difference to the first scheme; of translators that on the first test set, over sentences and seeds."""
    if not result.tests:
        return row.difference
    wanted = result.tests[0].split, row.scheme, row.arm
    return next((one.difference for one in result.tests if (one.split, one.scheme, one.arm) == wanted), None)


def better_or_worse(result: Comparison, gap: Gap) -> str:
    """By how much a scheme is better or worse than the first."""
    mean, low, high, _ = gap.joint
    word = "better" if (mean > 0) == result.metric.higher_is_better else "worse"
    near, far = sorted(abs(end) for end in (low, high) if end is not None)
    return (
        f"{gap.name} is {word} than {shortened(result.rows[0].name)} by {difference_text(result.metric, abs(mean))} "
        f"(95% interval {difference_text(result.metric, near, '')} to {difference_text(result.metric, far, '')})"
    )


def left_open(result: Comparison, gaps: Sequence[Gap]) -> list[str]:
    """The schemes that the seeds leave open, and the difference that they would have shown."""
    still = [gap for gap in gaps if not gap.apart]
    if not still:
        return []
    seeds = counted(min(gap.found.n for gap in still), "seed")
    who = f"{listed([gap.name for gap in still])} cannot" if len(still) < len(gaps) else "Nothing can"
    sizes = [size for gap in still if (size := detectable(gap.found, len(gaps))) is not None]
    apart = f"{who} be told apart from {shortened(result.rows[0].name)} with {seeds}"
    return [apart, would_be_seen(result.metric, max(sizes))] if sizes else [apart]


def would_be_seen(metric: Metric, size: float) -> str:
    """The difference that this many seeds would have shown; none, if it is larger than any that there can be."""
    if metric.least is not None and metric.greatest is not None and size > metric.greatest - metric.least:
        return "they differ so much that no difference would have been seen four times in five"
    return f"a difference of {difference_text(metric, size)} would have been seen four times in five"


def too_few(result: Comparison, gaps: Sequence[Gap]) -> str:
    """What is missing to tell anything."""
    names = listed([shortened(result.rows[0].name), *(gap.name for gap in gaps)])
    most = max((gap.found.n for gap in gaps), default=0)
    if most == 0:
        return f"No other scheme has a figure to compare with {names}'s"
    if most >= FEWEST:
        return f"All {most} seeds give the same difference, so too few seeds show how far {names} are apart"
    return f"{'One seed is' if most == 1 else 'Two seeds are'} too few to tell {names} apart: use --seeds 5"


def difference_text(metric: Metric, size: float, unit: str = " points") -> str:
    """A difference of a metric; of percentages it is in points, since a per cent of them would be something else."""
    text = metric.format.format(size)
    return f"{text[:-1]}{unit}" if text.endswith("%") else text
