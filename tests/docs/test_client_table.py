"""The table of clients in the docs is that of the tests: every test, every client, the versions that CI installs."""

import json
import re

from client_table import CLIENTS, PAGE, RESULTS, ROOT, claims, page, verdict

DOCUMENT = json.loads(RESULTS.read_text())
AGAIN = "run make matrix"


def test_the_table_has_every_client_and_every_test() -> None:
    assert set(CLIENTS) == set(claims()), "give each file of tests/clients a row in tests/helpers/client_table.py"
    assert {file: sorted(tests) for file, tests in DOCUMENT["clients"].items()} == {
        file: sorted(tests) for file, tests in claims().items()
    }, AGAIN


def test_every_client_works() -> None:
    assert {verdict(tests) for tests in DOCUMENT["clients"].values()} == {"yes"}, AGAIN


def test_the_versions_are_those_that_are_installed_by_make() -> None:
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M))
    assert DOCUMENT["versions"] == {name: pinned[name] for name in DOCUMENT["versions"]}, AGAIN


def test_the_page_shows_what_was_measured() -> None:
    assert PAGE.read_text() == page(PAGE.read_text(), DOCUMENT), AGAIN
