"""Sentences of documents as tokens, in a file: any of them can be read at once, which pairs of texts need."""

import re
from array import array
from collections.abc import Iterable, Iterator
from typing import IO, Any, NamedTuple, final

import numpy as np

from ...text.documents import Chunk

# A sentence ends with a full stop, a question or exclamation mark before a blank, closing quotes and brackets included,
# or before a blank line. Of "e.g. this" it makes two.
END = re.compile(r"[.!?]+[\"'\u201d\u2019)\]]*(?=\s)|[\u3002\uff01\uff1f]+|(?<=\S)(?=[^\S\n]*\n[^\S\n]*\n)")


def sentences_of(text: str) -> list[str]:
    """The sentences of a text, which together are the text: a blank between two belongs to the second."""
    ends = sorted({found.end() for found in END.finditer(text)} - {len(text)})
    return [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)]


class Sentences(NamedTuple):
    """The documents of a split. `tokens`: all of them; `starts`: where each sentence begins there, and the end;
    `documents`: the first sentence of each document, and their number; `sources`: for each document the number of the
    one it was cut from, ascending."""

    tokens: np.ndarray
    starts: np.ndarray
    documents: np.ndarray
    sources: np.ndarray


@final
class SentenceFile:
    """Writes the tokens of documents to a file, and remembers where sentences begin."""

    def __init__(self, file: IO[bytes], dtype: np.dtype) -> None:
        self.file, self.dtype, self.size, self.new = file, dtype, 0, True
        self.starts, self.documents, self.sources = array("q"), array("q"), array("q")

    def add(self, first: bool, source: int, sentences: Iterable[np.ndarray]) -> None:
        """Take the sentences of a part. The first goes on with the last one of the part before."""
        self.new = self.new or first
        for number, ids in enumerate(sentences):
            if not len(ids):
                continue
            if self.new:
                self.documents.append(len(self.starts))
                self.sources.append(source)
            if self.new or number:
                self.starts.append(self.size)
            self.file.write(ids.data)
            self.size, self.new = self.size + len(ids), False

    def read(self) -> Sentences:
        """What was written, once the file is closed."""
        tokens = np.memmap(self.file.name, self.dtype, "r") if self.size else np.empty(0, self.dtype)
        starts, documents = np.array(self.starts), np.array(self.documents)
        return Sentences(
            tokens, np.append(starts, self.size), np.append(documents, len(starts)), np.array(self.sources)
        )


def encoded_sentences(
    tokenizer: Any, batches: Iterable[list[tuple[str, Chunk, int]]], dtype: np.dtype
) -> Iterator[tuple[str, Chunk, int, list[np.ndarray]]]:
    """The tokens of each part, sentence by sentence, with its split and its document's number."""
    tokenizer.encode_special_tokens = True  # "[SEP]" in a text is text
    for batch in batches:
        texts = [sentences_of(part.text) for _, part, _ in batch]
        found = iter(tokenizer.encode_batch_fast([one for text in texts for one in text], add_special_tokens=False))
        for (name, part, source), text in zip(batch, texts, strict=True):
            yield name, part, source, [np.array(next(found).ids, dtype) for _ in text]
