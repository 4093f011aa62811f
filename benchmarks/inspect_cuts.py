"""Whether a greedy list of layers to leave out is better than the list of those that cost least alone.

    python benchmarks/inspect_cuts.py SmolLM2-135M-Instruct.Q4_1.gguf --out results/inspect/cuts.json

The eight texts of the package choose both lists; each is judged on the 24 that are held out, text by text: what its
first 1, 2, .. 6 layers cost together in nats, and the difference of the two lists with its 95% interval over texts. A
greedy list is the better one where that interval lies below 0. Times are those of the processor.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from splitstep.experiments.statistics import estimate
from splitstep.flows import Flow
from splitstep.opening import load, open_model
from splitstep.opening.texts import batches_of, default_texts, held_out_texts
from splitstep.studies.inspect.cuts import (
    CHEAPEST,
    Chosen,
    Cuts,
    Passed,
    cut_list,
    greedy_list,
    joint_costs,
    single_list,
)
from splitstep.studies.inspect.cuts import passed as passed_of
from splitstep.studies.inspect.judge import Judge
from splitstep.support.files import write_atomically
from splitstep.support.provenance import stamp

TOKENS, TOGETHER = 64, 8  # of a text; texts of a batch


def passes(flow: Flow, texts: Sequence[str], tokenizer: Any) -> Iterator[Passed]:
    """The texts in batches; all must be long enough, or a batch would have padding."""
    for batch in batches_of(texts, tokenizer, TOKENS, TOGETHER):
        if not batch["attention_mask"].all():
            raise ValueError(f"a text has fewer than {TOKENS} tokens: give longer ones")
        yield passed_of(flow, Judge.of(flow, batch), batch)


def judged(how: str, steps: Iterable[Chosen], judging: Sequence[Passed]) -> dict[str, Any]:
    """A list as a record, with what each step would have cost with other layers, and how long it took."""
    start = time.process_time()
    kept = list(steps)
    choosing = time.process_time() - start
    found = cut_list(how, kept, len(default_texts()), joint_costs(Cuts(judging), [one.layer for one in kept]))
    return {
        **found._asdict(),
        "chosen": [{str(layer): costs for layer, costs in one.costs.items()} for one in kept],
        "processor_seconds": {"choosing": round(choosing, 1), "all": round(time.process_time() - start, 1)},
    }


def compared(one: Sequence[float], other: Sequence[float]) -> dict[str, Any]:
    """The mean difference of two costs, text by text, with its interval."""
    found = estimate([a - b for a, b in zip(one, other, strict=True)])
    assert found is not None
    same = "the same list" if one == other else "no significant difference"
    verdict = {-1: "greedy is better", 0: same, 1: "greedy is worse"}[found.sign]
    return {"difference": found.mean, "low": found.low, "high": found.high, "texts": found.n, "verdict": verdict}


def document(name: str, many: int, among: int | None) -> dict[str, Any]:
    opened = open_model(name)
    flow = load(opened._replace(model=opened.model.float()))
    choosing = list(passes(flow, default_texts(), opened.tokenizer))
    judging = list(passes(flow, [one.text for one in held_out_texts()], opened.tokenizer))
    cost = Cuts(choosing)
    singles = {layer: cost((), layer) for layer in range(choosing[0].layers)}
    among = min(among or CHEAPEST, len(singles))
    greedy = judged("greedy", greedy_list(cost, singles, many, among), judging)
    single = judged("single", single_list(singles, many), judging)
    return {
        "model": Path(name).name,
        "layers": len(singles),
        "among": among,
        "tokens": TOKENS,
        "singles": {str(layer): costs for layer, costs in singles.items()},
        "own_losses": [x for one in judging for x in one.losses or ()],
        "lists": [greedy, single],
        "paired": [compared(*both) for both in zip(greedy["changes"], single["changes"], strict=True)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--cut", type=int, default=6, help="layers of a list")
    parser.add_argument("--among", type=int, help="layers among which greedy chooses; by default the 8 cheapest alone")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    load_before = round(os.getloadavg()[0], 1)
    found = document(given.model, given.cut, given.among)
    text = json.dumps({**found, "load_before": load_before, **stamp()}, indent=1)
    print("\n".join(f"{k} {one}" for k, one in enumerate(found["paired"], 1)))
    if given.out is not None:
        write_atomically(given.out, text + "\n")


if __name__ == "__main__":
    main()
