"""A block as a scheme with fields, accepted only if they give what the block gives, here and at another state."""

from collections.abc import Sequence
from fractions import Fraction
from functools import reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..integrate import Step, integrate
from ..parts import PROJECTIONS
from ..scheme import Program, Project, Scheme, Substep
from .blocks import Forward, exchanged, first_float, floats
from .layout import PLAIN, Frame, Layout
from .parts import WHOLE, Function, Letters, Piece, letters_of, pieces
from .record import Functions, Record
from .sums import Graph, distance, read

TOLERANCE = 1e-5
CHANGE = 1e-2  # of a change that may be missed: a branch held by mistake misses more, however small it is
NOISE = 10  # rounding errors of a block, in units of the last place


class BlockCall(NamedTuple):
    """One call of a block in a pass: its arguments, and which of them is the state, as the model lays it out."""

    forward: Forward
    args: Any
    kwargs: Any
    own: Tensor
    layout: Layout = PLAIN

    @property
    def frame(self) -> Frame:
        return Frame(self.layout, self.own.shape)

    @property
    def x(self) -> Tensor:
        """The state, [batch, tokens, width]."""
        return self.layout.seen(self.own)

    def on(self, own: Tensor) -> Any:
        """What the block returns at another state of the model's own layout, all other arguments as they were."""
        call = self.moved(own)
        return call.forward(*call.args, **call.kwargs)

    def state(self, returned: Any) -> Tensor:
        """The state that the block returned, [batch, tokens, width]."""
        return self.layout.seen(state_of(returned))

    def state_at(self, u: Tensor) -> Tensor:
        return self.state(self.on(self.frame.own(u)))

    def moved(self, own: Tensor) -> "BlockCall":
        """The call at another state of the model's own layout."""
        args, kwargs = exchanged((self.args, self.kwargs), self.own, own)
        return self._replace(args=args, kwargs=kwargs, own=own)

    @property
    def others(self) -> list[Tensor]:
        """States of another stack that the block was given, such as an encoder's."""
        return [one for one in floats((self.args, self.kwargs)) if one is not self.own and one.dim() == 3]


def state_of(result: Any) -> Tensor:
    """The state that a block returned."""
    found = first_float(result)
    assert found is not None
    return found


class Reading(NamedTuple):
    """How a block was read: the letters of its parts. With these, another pass reads the same."""

    letters: Letters | None  # None: as a whole
    why: str = ""  # a whole layer could not be taken apart


class ReadBlock(NamedTuple):
    """A block in one pass: the parts of its scheme with their fields, what it returned and how it was read."""

    pieces: Sequence[Piece]
    returned: Any
    reading: Reading

    @property
    def fields(self) -> dict[str, Function]:
        return {name: f for piece in self.pieces for name, f in piece.fields.items()}

    @property
    def weights(self) -> dict[str, Function]:
        """Of attention, as functions of the state."""
        return {name: f for piece in self.pieces for name, f in piece.weights.items()}

    @property
    def program(self) -> Program:
        return tuple(piece.part for piece in self.pieces)

    @property
    def mixes(self) -> bool:
        """Whether a part that replaces the state mixes tokens."""
        return any(isinstance(part, Substep) for part in self.program)

    @property
    def adds(self) -> bool:
        return any(isinstance(part, Substep) and not part.replaces for part in self.program)


def take_apart(call: BlockCall) -> ReadBlock:
    """Read a block for the first time: by its operations, else as a whole."""
    try:
        found = recorded(call, None)
        if found.adds:
            check(call, found)
        return found
    except Exception as error:  # other people's code and any of its operations
        return read_whole(call, str(error) or type(error).__name__)


def read_whole(call: BlockCall, why: str) -> ReadBlock:
    """The layer's whole increment as one field."""
    pieces = [Piece(Substep((WHOLE,)), {WHOLE: lambda x: call.state_at(x) - x})]
    return ReadBlock(pieces, call.on(call.own), Reading(None, why=why))


def read_again(call: BlockCall, reading: Reading) -> ReadBlock:
    """Read a block in another pass as it was read before."""
    return read_whole(call, reading.why) if reading.letters is None else recorded(call, reading.letters)


def recorded(call: BlockCall, letters: Letters | None) -> ReadBlock:
    """The block's parts from a record of its operations."""
    graph, returned = record_call(call)
    letters, found = named(graph, call, letters)
    return ReadBlock(found, returned, Reading(letters))


def named(graph: Graph, call: BlockCall, letters: Letters | None) -> tuple[Letters, list[Piece]]:
    """The parts of a recorded block with their letters: those of an earlier pass, or as they are found."""
    parts = read(graph, call.frame)
    if letters is None:
        letters = letters_of(graph, parts, call.others, call.frame)
    if [len(own) for own in letters] != [len(part.terms) for part in parts]:
        raise ValueError("its operations differ from those of the first pass")
    return letters, pieces(graph, parts, letters, call.frame)


def record_call(call: BlockCall) -> tuple[Graph, Any]:
    """The graph of a block's operations, and what it returned."""
    x = call.own.clone()  # the block may write into its input
    record = Record(x)
    with Functions(record):
        returned = call.on(x)
    return Graph(record, state_of(returned)), returned


def check(call: BlockCall, found: ReadBlock) -> None:
    """Refuse parts that do not rebuild the block's output, or differ from the block at another state."""
    output = call.state(found.returned)
    allowed = tolerance(output)
    if (error := distance(advanced(found.pieces, call.x), output)) > allowed:
        raise ValueError(f"its parts rebuild its output with a relative error of {error:.0e}")
    moves = [deviation_at(call, found.pieces, u, output) for u in perturbed(call.x)]
    if not any(error <= allowed and missed <= allowed + CHANGE for error, missed in moves):
        raise ValueError(f"its parts differ from it at another state by {min(error for error, _ in moves):.0e}")


def deviation_at(call: BlockCall, found: Sequence[Piece], u: Tensor, output: Tensor) -> tuple[float, float]:
    """How far parts and block are apart at another state: relative to the state, and to how its increment changed."""
    ours, theirs = advanced(found, u), call.state_at(u)
    change = (theirs - output - (u - call.x)).double().norm()
    noise = NOISE * torch.finfo(u.dtype).eps * theirs.double().norm()
    return distance(ours, theirs), float((ours - theirs).double().norm() / (change + noise / CHANGE))


def tolerance(x: Tensor) -> float:
    return TOLERANCE if torch.finfo(x.dtype).bits >= 32 else 4 * torch.finfo(x.dtype).eps


def perturbed(x: Tensor) -> list[Tensor]:
    """States near x. In the second and third only one token moves: the choice of experts, which is held, may flip."""
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(1)).to(x)
    everywhere = 1e-2 * x.std() * noise
    tokens = torch.arange(x[..., 0].numel(), device=x.device).reshape(x.shape[:-1])[..., None]
    return [x + everywhere, *(x + torch.where(tokens == i, everywhere, 0) for i in (0, tokens.numel() - 1))]


def scheme_of(program: Program) -> Scheme:
    return Scheme(((Fraction(1), program),))


def advanced(found: Sequence[Piece], x: Tensor) -> Tensor:
    """The state after a block, by its parts."""
    fields = {name: lambda t, x, context, f=f: f(x) for piece in found for name, f in piece.fields.items()}
    return integrate(scheme_of(tuple(piece.part for piece in found)), [Step(fields, 0.0, 1.0)], x)


def common_program(programs: Sequence[Program]) -> Program | None:
    """The shortest program of which each of these is a part, in order; None if a field would act in it twice."""
    whole = reduce(merged, dict.fromkeys(programs))
    names = [name for part in whole for name in ((part.field,) if isinstance(part, Project) else part.fields)]
    return whole if len(names) == len({*names}) else None


def merged(one: Program, other: Program) -> Program:
    """The shortest program that has the parts of both, each in their order; where they differ, the first goes first."""
    if not one or not other:
        return one or other
    if one[0] == other[0]:
        return (one[0], *merged(one[1:], other[1:]))
    return min((one[0], *merged(one[1:], other)), (other[0], *merged(one, other[1:])), key=len)


def missing(name: str, x: Tensor) -> Tensor:
    """What a field does in a layer that does not have it: nothing."""
    return x if name[0] in PROJECTIONS else torch.zeros_like(x)
