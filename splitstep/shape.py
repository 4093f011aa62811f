"""The shape of a network: what config.json and a recipe say about it, with defaults and checks. No torch here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from inspect import get_annotations
from itertools import islice, repeat
from math import inf
from typing import Any, ClassVar, Literal, get_origin

from .letters import LETTERS, NormAt, Place, letter_of
from .options import complete, options_of
from .own_letters import sources_of
from .scheme import Scheme, decoder
from .schemes import SchemeEntry, normed
from .support.registry import Registry
from .support.typed import read_as, suits
from .support.words import counted, nearest

FORMAT = 2  # of config.json; newer ones are refused
DEEPEST = 10_000  # layers: building each takes milliseconds, and comes before anything can weigh them
LARGEST = 10**8  # of a size: PyTorch can still count the bytes of a matrix of this height and width
ACTIVATIONS = ("relu", "gelu", "gelu-tanh", "relu2", "silu", "swiglu", "geglu")
NORMS = ("layer", "rms", "tanh", "none")
Number = float | int
Positions = Literal["none", "sinusoidal", "learned", "rotary"]
Init = Literal["normal", "xavier"]
SIZES = {
    **dict.fromkeys(("layers", "decoder_layers", "substeps"), DEEPEST),
    **dict.fromkeys(("width", "heads", "kv_heads", "head_size", "ffn", "max_positions", "vocab_size"), LARGEST),
    **dict.fromkeys(("image_size", "channels", "patch", "inputs", "outputs"), LARGEST),
    **dict.fromkeys(("step", "norm_eps", "rotary_base"), inf),
}  # positive entries of all kinds, and the largest that each may be
FROM_ZERO = {"init_modes": DEEPEST, "init_std": inf, "token_types": LARGEST, "next_sentence_labels": LARGEST}
RATES = ("dropout", "attention_dropout", "activation_dropout", "label_smoothing")


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    if value not in choices:
        hint = f" Did you mean {near!r}?" if (near := nearest(str(value), choices)) else ""
        raise ValueError(f"{name}={value!r} is unknown: use one of {', '.join(map(repr, choices))}.{hint}")


def check_number(name: str, value: Any) -> None:
    """Refuse a number that is out of the range of its entry."""
    if name in RATES and not 0 <= value < 1:
        raise ValueError(f"{name}={value} is a probability: use a number in [0, 1).")
    most, zero = (SIZES | FROM_ZERO).get(name), name in FROM_ZERO
    if most is None or value is None:
        return
    if not (0 < value < inf or (zero and value == 0)):
        raise ValueError(f"{name}={value} must be {'0 or ' if zero else ''}a positive number.")
    if value > most:
        raise ValueError(f"{name}={value} is too large: use at most {most:,}.")


def check_heads(width: int, heads: int, kv_heads: int | None, size: int | None) -> int:
    """The width of one head: `size`, or an equal share of the whole width."""
    if size is None and width % heads:
        best = min((h for h in range(1, width + 1) if width % h == 0), key=lambda h: abs(h - heads))
        raise ValueError(
            f"Width {width} is not divisible by {heads} heads: use heads={best} or width={width // heads * heads}, or "
            "give a head_size."
        )
    if heads % (kv_heads or heads):
        raise ValueError(f"{heads} heads cannot share {kv_heads} key-value heads: kv_heads must divide heads.")
    return size or width // heads


def feed_forwards(s: Scheme) -> list[str]:
    """Names of the fields with an inner width and an activation."""
    return [name for name in s.fields if letter_of(name).inner]


def names_fields(activation: Mapping[str, str], halves: Sequence[str]) -> bool:
    """Whether activations are given for all of a scheme's feed-forward fields; others may be of other schemes."""
    return activation.keys() >= set(halves) and all(letter_of(name).inner for name in activation)


@dataclass(kw_only=True, repr=False)
class Shape:
    """What every network has: a scheme, the shape of its fields, norms, positions, dropouts, initialisation.

    `scheme` takes a row's name or a notation and is kept as canonical text. Each layer runs `substeps` times, over
    equal parts of its step. A head is `head_size` wide, by default an equal share of the width. `ffn` is the inner
    width of each feed-forward field: one number, or a list with one entry per field, layer by layer. `activation` is
    one name, or a mapping of names of feed-forward fields, of which it may have more than the scheme. A scheme with
    projections is post-norm: the stack ends without a norm. If `init_modes` is not 0, initial weights are a smooth
    function of depth: a sum of so many waves.

    `norm_at` is where fields have norms: "before" (x + f(norm(x))), "after" (x + norm(f(x))), "both" (sandwich norms,
    x + norm(f(norm(x)))) or "none". None: before; but none beside projections, unless the scheme is the conformer.
    `letters` has the options of letters, such as {"D": {"alpha": 0.1}}; those of a field, such as F0, go before those
    of its letter.
    """

    depths: ClassVar[tuple[str, ...]] = ("layers",)  # the entries that count the layers of each stack, in order

    format: int = FORMAT
    scheme: SchemeEntry = SchemeEntry()  # noqa: RUF009  # a descriptor
    step: Number = 1.0
    substeps: int = 1
    layers: int = 6
    width: int = 512
    heads: int = 8
    kv_heads: int | None = None
    head_size: int | None = None
    ffn: int | list[int] = 2048
    activation: str | dict[str, str] = "gelu"
    norm: str = "layer"
    norm_affine: bool = True
    norm_eps: float = 1e-5
    norm_at: NormAt | None = None
    letters: dict[str, dict[str, Any]] = field(default_factory=dict)
    bias: bool = True
    positions: Positions = "learned"
    rotary_base: Number = 10000.0
    max_positions: int = 1024
    dropout: Number = 0.0
    attention_dropout: Number = 0.0
    activation_dropout: Number = 0.0
    init: Init = "normal"
    init_std: float = 0.02
    init_modes: int = 0
    matched: dict[str, Any] | None = None  # what a twin was matched to, and both costs
    sources: dict[str, dict[str, str]] | None = None  # the files of letters that no package has, and their hashes

    def __post_init__(self) -> None:
        self.check()

    @classmethod
    def entries(cls) -> dict[str, Any]:
        """The entries that splitstep itself declares, each with its type."""
        ours = [get_annotations(c, eval_str=True) for c in cls.__mro__ if issubclass(c, Shape)]
        return {name: kind for c in reversed(ours) for name, kind in c.items() if get_origin(kind) is not ClassVar}

    def check(self) -> None:
        """Refuse wrong entries."""
        self.check_format()
        for name, kind in self.entries().items():
            if kind is SchemeEntry:
                continue
            read_as(kind, value := getattr(self, name), name)
            for one in value if isinstance(value, list) else [value]:
                check_number(name, one)
        check_choice("norm", self.norm, NORMS)
        self.check_fields()
        self.check_attention()
        self.check_ffn()
        self.check_letters()

    def check_format(self) -> None:
        if not suits(int, self.format) or self.format < 1:
            raise ValueError(f"format={self.format!r} is not a version of config.json: it must be {FORMAT}.")
        if self.format > FORMAT:
            raise ValueError(
                f"This config has format {self.format}, newer than {FORMAT}, the newest that this version of splitstep "
                "reads: install a newer splitstep (pip install -U splitstep)."
            )

    def check_length(self, length: int) -> None:
        """Refuse more tokens than the model has learned positions for."""
        if self.positions == "learned" and length > self.max_positions:
            raise ValueError(
                f"{length} tokens are more than this model's max_positions={self.max_positions} learned positions: "
                "shorten the input or generate fewer tokens."
            )

    def check_fields(self) -> None:
        """Refuse a scheme with fields that models do not have, and activations that do not fit its fields."""
        self.sources = sources_of(self.fields, self.sources)
        for name in self.fields:
            letter = LETTERS.get(name[0])
            if letter is None or not letter.free:
                have = ", ".join(f"{key} ({one.title})" for key, one in LETTERS.items() if one.free)
                yet = f" ({letter.title}), which no model has yet" if letter and not letter.field else ""
                raise ValueError(
                    f"The scheme {str(self.scheme)!r} needs a field {name}{yet or ', which this model does not have'}: "
                    f"it has {have} and the projections N, M, P; a decoder adds C (cross-attention) by itself, and "
                    "--letters FILE your own."
                )
        halves = feed_forwards(self.scheme)
        if isinstance(self.activation, dict) and not names_fields(self.activation, halves):
            raise ValueError(
                f"activation={self.activation} must name each of the scheme's feed-forward fields: "
                f"{', '.join(halves) or 'none'}."
            )
        for choice in self.activation.values() if isinstance(self.activation, dict) else [self.activation]:
            check_choice("activation", choice, ACTIVATIONS)

    def check_attention(self) -> None:
        if self.positions == "rotary" and self.head_width % 2:
            raise ValueError(f"Rotary positions need heads of an even width; got {self.head_width}.")
        if self.heads * self.head_width > LARGEST:
            raise ValueError(
                f"{self.heads} heads of head_size={self.head_width} are too wide together: use at most {LARGEST:,}."
            )

    def check_letters(self) -> None:
        """Bring the options of letters to their full form; refuse those that do not fit the network."""
        self.letters = complete(self.letters, {name for s, _ in self.stacks() for name in s.fields})
        for (s, _), causal in zip(self.stacks(), self.causal_stacks(), strict=True):
            for name in s.fields:
                letter_of(name).refuse_misfit(Place(self, s, causal, name, self.options_of(name)))

    def check_ffn(self) -> None:
        if isinstance(self.ffn, list) and len(self.ffn) != self.ffn_fields:
            fields = counted(self.ffn_fields, "feed-forward field")
            raise ValueError(f"ffn lists {counted(len(self.ffn), 'width')}; this network has {fields}.")

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the scheme's fields, one for each set of weights."""
        return self.scheme.fields

    @property
    def reads_documents(self) -> bool:
        """Whether a field must know which document a token is of."""
        return any(LETTERS[name[0]].documents for name in self.fields)

    def options_of(self, name: str) -> Any:
        """The options of a field."""
        return options_of(name, self.letters)

    def norms_of(self, name: str) -> tuple[bool, bool]:
        """Whether a field has a norm before it, and one after it."""
        usual = "before" if normed(self.scheme) else "none"
        where = vars(self.options_of(name)).get("norm_at") or self.norm_at or usual
        return where in ("before", "both"), where in ("after", "both")

    def causal_stacks(self) -> list[bool]:
        """For each stack, whether its tokens look back only."""
        return [False]

    @property
    def grid(self) -> tuple[int, int] | None:
        """Rows and columns of an image's patches; None: tokens stand in a line."""
        return None

    @property
    def head_width(self) -> int:
        """The width of one head, checked."""
        return check_heads(self.width, self.heads, self.kv_heads, self.head_size)

    def ffn_rows(self) -> list[list[list[int]]]:
        """The widths of the feed-forward fields, by stack and layer."""
        given = iter(self.ffn) if isinstance(self.ffn, list) else repeat(self.ffn)
        return [[list(islice(given, len(feed_forwards(s)))) for _ in range(layers)] for s, layers in self.stacks()]

    @property
    def ffn_fields(self) -> int:
        """How many feed-forward fields the network has, over all layers."""
        return sum(layers * len(feed_forwards(s)) for s, layers in self.stacks())

    def stacks(self) -> list[tuple[Scheme, int]]:
        """The schemes that the network runs, each with its number of layers."""
        return [(self.scheme, self.layers)]


@dataclass(kw_only=True, repr=False)
class TextShape(Shape):
    """What models of token sequences share. An `embedding_scale` of "sqrt" becomes the square root of the width."""

    vocab_size: int = 256
    embedding_scale: Number | Literal["sqrt"] = 1.0
    embedding_norm: bool = False
    token_types: int = 0
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    tie_word_embeddings: bool = True
    use_cache: bool = True

    def check(self) -> None:
        super().check()
        if self.embedding_scale == "sqrt":
            self.embedding_scale = self.width**0.5
        if self.pad_token_id is not None and not 0 <= self.pad_token_id < self.vocab_size:
            raise ValueError(f"pad_token_id={self.pad_token_id} is not a token: vocab_size={self.vocab_size}.")


@dataclass(kw_only=True, repr=False)
class CausalShape(TextShape):
    """A language model that predicts the next token."""

    def causal_stacks(self) -> list[bool]:
        return [True]


@dataclass(kw_only=True, repr=False)
class MaskedShape(TextShape):
    """A language model that fills in masked tokens, with BERT's head: dense, activation, norm, output matrix.

    `next_sentence_labels`: the classes of a second head on the first token of a pair of texts, 2 for BERT's
    next-sentence prediction (0: the second text follows the first, 1: it does not); 0: no such head.
    """

    next_sentence_labels: int = 0

    def check(self) -> None:
        super().check()
        if self.next_sentence_labels and self.token_types < 2:
            raise ValueError(
                f"Next-sentence prediction reads two texts, and token_types={self.token_types} does not "
                "distinguish them: use token_types=2."
            )


@dataclass(kw_only=True, repr=False)
class SequenceShape(TextShape):
    """A classifier of token sequences; `pool` is what the head reads: the "mean" over tokens or the "first" one.
    `head_start`: the head's first weights are "drawn" like all others, or "zero", so all classes begin equal."""

    pool: Literal["mean", "first"] = "mean"
    head_start: Literal["drawn", "zero"] = "drawn"


@dataclass(kw_only=True, repr=False)
class TranslationShape(TextShape):
    """An encoder-decoder with one embedding for source, target and output. The decoder's scheme gains C."""

    depths: ClassVar[tuple[str, ...]] = ("layers", "decoder_layers")

    decoder_layers: int = 6
    positions: Positions = "sinusoidal"
    activation: str | dict[str, str] = "relu"
    init: Init = "xavier"
    label_smoothing: Number = 0.0
    is_encoder_decoder: bool = True
    pad_token_id: int | None = 0
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2
    decoder_start_token_id: int | None = 1

    def causal_stacks(self) -> list[bool]:
        return [False, True]

    def stacks(self) -> list[tuple[Scheme, int]]:
        return [(self.scheme, self.layers), (decoder(self.scheme), self.decoder_layers)]


@dataclass(kw_only=True, repr=False)
class ImageShape(Shape):
    """A classifier of images cut into square patches."""

    image_size: int = 28
    channels: int = 1
    patch: int = 4

    def check(self) -> None:
        super().check()
        if self.image_size % self.patch:
            raise ValueError(f"image_size={self.image_size} is not divisible by patch={self.patch}.")
        self.max_positions = (self.image_size // self.patch) ** 2

    @property
    def grid(self) -> tuple[int, int]:
        return (side := self.image_size // self.patch), side

    def check_length(self, length: int) -> None:
        if length != self.max_positions:
            raise ValueError(f"length={length}: an image of this config always has {self.max_positions} patches.")


@dataclass(kw_only=True, repr=False)
class VectorsShape(Shape):
    """A map of sequences of vectors: `inputs` numbers for each token become `outputs` numbers for each token."""

    inputs: int = 1
    outputs: int = 1


ALL = (CausalShape, ImageShape, MaskedShape, SequenceShape, TranslationShape, VectorsShape)
SHAPES: dict[str, type[Shape]] = {one.__name__.removesuffix("Shape").lower(): one for one in ALL}  # by kind of model
FILES = {"image": "vectors", "masked": "encoder", "sequence": "encoder"}  # other kinds have a file of their name
PATHS = {name: f"splitstep.models.{FILES.get(name, name)}:{name.upper()}" for name in SHAPES}
KINDS: Registry[Any] = Registry("kind", paths=PATHS)


def shape_of(kind: str) -> type[Shape]:
    """What a model of this kind has in its config; torch is imported only if another package provides the kind."""
    return SHAPES[kind] if kind in SHAPES else KINDS.find(kind).config
