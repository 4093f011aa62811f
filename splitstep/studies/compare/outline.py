"""The plan of a comparison as a record, and what it says: what it takes here, arm by arm, and what it can detect."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from ...experiments.ladder import EQUAL_COST
from ...experiments.noise import Outlook
from ...experiments.plan import Planned
from ...report.document import Document, Verdict
from ...report.result import Report
from ...report.tables import EVERYWHERE, Column, Pairs, Record, Table
from ...support.words import counted, duration
from ...tasks.measures import Metric
from .design import MOST_SEEDS
from .pace import Pace
from .standing import unit_of

UNEQUAL = 0.1  # how far a cost may be from the first arm's before it is said


class Arm(NamedTuple):
    """An arm of the plan, with its pace, the width of its feed-forward networks, if one was chosen, and its cost as a
    multiple of the first arm's."""

    name: str
    pace: Pace
    ffn: int | None = None
    ratio: float = 1.0
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outline(Report):
    """The plan of a comparison. `text`: tokens of the training text, if the task has one."""

    asked: str  # a hash of what was asked for
    recipe: dict[str, Any]
    metric: Metric
    seeds: tuple[int, ...]
    arms: tuple[Arm, ...]
    runs: int
    steps: int  # of a run at the largest budget
    tokens: int  # of all runs
    seconds: float
    bytes: int
    workers: int
    text: int | None
    detectable: Outlook | None  # None if the short runs do not show their spread
    faster: float | None = None  # how many times as fast bfloat16 is as float32, if both were timed

    @property
    def passes(self) -> float:
        """How often the longest run sees the training text."""
        return self.steps * self.arms[0].pace.tokens / self.text if self.text else 0.0

    @property
    def equal(self) -> str:
        """What all arms have as much of, if the recipe says so."""
        return "parameters" if self.recipe["match"] == "parameters" else "FLOPs"

    def seconds_of(self, run: Planned) -> float:
        """How long a run takes."""
        return next(one.pace.seconds(run.recipe.train) for one in self.arms if one.name == run.arm)

    def document(self) -> Document:
        """What the plan says."""
        table = Table.of([record(one, self.equal) for one in self.arms], "Arms", [note(self), *unequal(self)])
        return Document("The plan", [Pairs(totals(self), EVERYWHERE), table], Verdict("open", summary(self)))


def record(one: Arm, equal: str) -> Record:
    """A row of the table of arms, with the cost by which they are equal as a multiple of the first arm's."""
    return {
        Column("arm", text=True): (one.name, *one.remarks),
        Column("feed-forward width"): "-" if one.ffn is None else f"{one.ffn:,}",
        Column("parameters"): f"{one.pace.parameters:,}",
        Column("FLOPs/token"): f"{one.pace.flops:,}",
        Column(f"{equal}, ratio"): f"{one.ratio:.3f}",
        Column("µs/token"): f"{1e6 * one.pace.step / one.pace.tokens:,.1f}",
    }


def note(plan: Outline) -> str:
    """How to read the table of arms."""
    by = {"parameters": "parameters of the body", "flops": "FLOPs per token", "none": "FLOPs per token"}
    return (
        f"Ratio: {by[plan.recipe['match']]}, as a multiple of the first arm's. Updates were timed here with "
        f"{counted(plan.workers, 'run')} at once."
    )


def unequal(plan: Outline) -> list[str]:
    """The arms that are equal to the first in one cost and not in the other."""
    first, match = plan.arms[0], plan.recipe["match"]
    if match == "none":
        return []
    other, name = ("flops", "FLOPs") if match == "parameters" else ("parameters", "parameters")
    end = ": --match flops makes these equal." if match == "parameters" else "."
    ratios = [(one, getattr(one.pace, other) / getattr(first.pace, other)) for one in plan.arms]
    return [
        f"{one.name} has as many {plan.equal} as {first.name} and {ratio:.2f} times its {name}{end}"
        for one, ratio in ratios
        if abs(one.ratio - 1) < EQUAL_COST and abs(ratio - 1) > UNEQUAL
    ]


def totals(plan: Outline) -> list[tuple[str, str]]:
    """What all runs take together."""
    train, model = plan.recipe["train"], plan.recipe.get("model", {})
    shape = [f"{model[key]} {key}" for key in ("layers", "width", "heads") if key in model]
    found = [
        ("runs", f"{plan.runs:,}: {counted(len(plan.arms), 'arm')}, {counted(len(plan.seeds), 'seed')}"),
        ("network", ", ".join(shape)),
        ("longest run", f"{plan.steps:,} steps of {plan.arms[0].pace.tokens:,} tokens, batch {train['batch']}"),
        ("tokens", f"{plan.tokens:,} in all"),
        ("time", duration(plan.seconds)),
        ("disk", f"{plan.bytes / 2**20:,.0f} MiB"),
    ]
    if plan.faster is not None:
        taken = "bfloat16" if train["precision"] == "bfloat16" else "float32"
        found.append(("precision", f"{taken}; bfloat16 is {plan.faster:.2f} times as fast here as float32"))
    if plan.text is not None:
        seen = f"the longest run sees {plan.passes:.2f} times as many"
        found.append(("text", f"{plan.text:,} tokens for training; {seen}"))
    return found


def used_up(plan: Outline) -> str:
    """That a step more would need more text, if so, and whether time could still go into seeds."""
    base = plan.recipe["train"]["steps"]
    if not plan.passes <= 1 < plan.passes * (base + 1) / base:
        return ""
    full = ", and more time would not help" if len(plan.seeds) >= MOST_SEEDS else ""
    return f"; with {counted(plan.steps, 'step')} the text is used up{full}"


def announced(plan: Outline) -> str:
    """What is said before the runs begin: the plan in one sentence, and what was changed in each config."""
    changed = [f"{one.name}: {', '.join(one.remarks)}" for one in plan.arms if one.remarks]
    return "\n".join([summary(plan), *unequal(plan), *changed])


def summary(plan: Outline) -> str:
    """The plan in one sentence."""
    found, used = plan.detectable, used_up(plan)
    time = f"{counted(plan.runs, 'run')} take {duration(plan.seconds)} here"
    if found is None:
        return f"{time}{used}."
    unit = unit_of(plan.metric)
    size = f"{unit.size(found.size)} [{unit.numbers((found.low, found.high))}]"
    return f"{time}; by the spread of short runs, {counted(found.seeds, 'seed')} detect {size} with 80% power{used}."
