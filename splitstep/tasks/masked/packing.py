"""Documents in full rows: every piece of a document is [CLS] tokens [SEP], a text of its own."""

from typing import IO, final

import numpy as np

from ...text.subwords import CLS, PAD, SEP

LEAST = 3  # places that a piece takes: [CLS], a token, [SEP]
BLOCK = 1024  # rows that are written at a time


def row_type(vocab_size: int) -> np.dtype:
    """The smallest type that holds every token."""
    return np.dtype(np.uint16 if vocab_size <= 1 << 16 else np.uint32)


@final
class Packer:
    """Writes rows of `length` tokens to a file.

    A document that does not end with its row goes on in the next one as a piece of its own. Where fewer than three
    places are left, no piece fits, and they stay [PAD]. The last row is left out unless it is full.
    """

    def __init__(self, file: IO[bytes], length: int, dtype: np.dtype) -> None:
        self.file, self.length = file, length
        self.block = np.full((BLOCK, length), PAD, dtype)
        self.row, self.at, self.open = 0, 0, False
        self.rows = self.tokens = 0  # in full rows; tokens without [CLS], [SEP] and [PAD]
        self.pairs = self.in_row = self.most = 0  # in all rows, in this one, and the most in any

    def add(self, tokens: np.ndarray, first: bool) -> None:
        """Take tokens of a document: the first ones, or those that follow what came before."""
        if first:
            self.end_piece()
        done = 0
        while done < len(tokens):
            if not self.open:
                self.begin_piece()
            n = min(len(tokens) - done, self.length - 1 - self.at)
            self.block[self.row, self.at : self.at + n] = tokens[done : done + n]
            done, self.at, self.tokens = done + n, self.at + n, self.tokens + n
            if self.at == self.length - 1:
                self.end_piece()

    def room(self) -> int:
        """The places that a new piece can take."""
        self.end_piece()
        if self.length - self.at < LEAST:
            self.end_row()
        return self.length - self.at

    def add_pair(self, one: np.ndarray, two: np.ndarray, between: int) -> None:
        """Take two texts as a piece with the token `between` them. They must fit into the room."""
        assert len(one) + len(two) + 3 <= self.room()
        self.begin_piece()
        for part in (one, [between], two):
            self.block[self.row, self.at : self.at + len(part)] = part
            self.at += len(part)
        self.tokens, self.pairs, self.in_row = self.tokens + len(one) + len(two), self.pairs + 1, self.in_row + 1
        self.most = max(self.most, self.in_row)
        self.end_piece()

    def begin_piece(self) -> None:
        if self.length - self.at < LEAST:
            self.end_row()
        self.block[self.row, self.at] = CLS
        self.at, self.open = self.at + 1, True

    def end_piece(self) -> None:
        if self.open:
            self.block[self.row, self.at] = SEP
            self.at, self.open = self.at + 1, False
        if self.at == self.length:
            self.end_row()

    def end_row(self) -> None:
        self.row, self.at, self.rows, self.in_row = self.row + 1, 0, self.rows + 1, 0
        if self.row == BLOCK:
            self.write()

    def write(self) -> None:
        """Write the rows that are full."""
        self.file.write(np.ascontiguousarray(self.block[: self.row]).data)
        self.block[:] = PAD
        self.row = 0

    def finish(self) -> None:
        """Write what is left in full rows."""
        self.end_piece()
        if self.at > self.length - LEAST:
            self.end_row()
        if self.row:
            self.write()


def piece_numbers(rows: np.ndarray) -> np.ndarray:
    """The number of each token's piece in its row [B, T], from 0; [PAD] is a piece by itself."""
    return np.cumsum((rows == CLS) | (rows == PAD), axis=1) - 1


def piece_begins(rows: np.ndarray) -> np.ndarray:
    """Where the piece of each token begins in its row [B, T]."""
    return np.maximum.accumulate(np.where((rows == CLS) | (rows == PAD), np.arange(rows.shape[1]), 0), axis=1)
