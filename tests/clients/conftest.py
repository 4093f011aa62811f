"""Outcomes of the tests of clients: written to a file if `--record FILE` is given."""

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from client_table import summary

OUTCOMES: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", type=Path, default=None, help="write the outcomes of tests/clients to this file")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    file, _, name = report.nodeid.partition("::")
    if "clients" in Path(file).parts and (report.when == "call" or report.outcome != "passed"):
        OUTCOMES[Path(file).stem][name.split("[")[0]][report.outcome] += 1


def pytest_sessionfinish(session: Any) -> None:
    if (place := session.config.getoption("--record", None)) is not None:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(summary(OUTCOMES), indent=1) + "\n")
