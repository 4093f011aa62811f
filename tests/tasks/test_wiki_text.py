"""A Wikipedia dump as text: markup goes, words stay, articles are documents."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from splitstep.text.wiki_text import clean


@pytest.mark.parametrize(("markup", "text"), [
    ("'''Bold''' and ''slanted''", "Bold and slanted"),
    ("a [[link]] and [[target|another]]s", "a link and anothers"),
    ("before[[Image:x.png|thumb|a [[nested]] caption]] after", "before after"),
    ("end.[[Category:Things]][[de:Dinge]][[zh-min-nan:X]]", "end."),
    ("a {{template|with {{another}} inside}}b", "a b"),
    ("x&lt;ref name=&quot;a&quot;&gt;note&lt;/ref&gt; y&lt;ref name=&quot;a&quot; /&gt; z", "x y z"),
    ("a &amp;alpha; &amp;#945; &lt;!-- no --&gt;b", "a \u03b1 \u03b1 b"),
    ("one\n{| class=x\n| cell\n|}\ntwo", "one\n\ntwo"),
    ("== Heading ==\n* item\n** inner\n:indented", "Heading\nitem\ninner\nindented"),
    ("see [http://x.org the page] or http://y.org now", "see the page or now"),
    ("H&lt;sub&gt;2&lt;/sub&gt;O and 1 &lt; 2", "H2O and 1 < 2"),
    ("Name (''[[wikt:x|]]'') is", "Name (wikt:x) is"),
])  # fmt: skip
def test_markup_goes_and_words_stay(markup: str, text: str) -> None:
    assert clean(markup) == text


def test_articles_of_a_dump_are_rows(tmp_path: Path) -> None:
    long = "Words that make an article long enough to be kept, whatever they say, and a few more."
    pages = {
        "One": long,
        "Talk:One": long,
        "Two": "#REDIRECT [[One]]",
        "Three": "short",
        "Four &amp; five": f"{long}\n\n{long}",
    }
    body = "".join(
        f'  <page>\n    <title>{title}</title>\n      <text xml:space="preserve">{text}</text>\n  </page>\n'
        for title, text in pages.items()
    )
    cut = f"<page><title>Cut</title>\n<text>{long}"
    (tmp_path / "dump.gz").write_bytes(gzip.compress(f"<mediawiki>\n{body}{cut}".encode()))
    command = [sys.executable, "-m", "splitstep.text.wiki_text", "dump.gz", "out.jsonl"]
    said = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True, timeout=300).stdout
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["title"] for row in rows] == ["One", "Four & five"]
    assert rows[1]["text"] == f"{long}\n\n{long}"
    assert said == f"out.jsonl: 2 articles, {sum(len(row['text']) for row in rows)} characters\n"
