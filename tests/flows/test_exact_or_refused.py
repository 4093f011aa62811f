"""A foreign model is watched as [batch, tokens, width], and it is its scheme end to end, or refused in one line."""

from itertools import count

import pytest
import torch
import transformers as hf
from test_zoo import inputs_of
from torch import Tensor, nn
from zoo import tiny

import splitstep as ss
from splitstep.flows.foreign import ForeignFlow
from splitstep.opening import load

IDS = torch.arange(1, 9).repeat(3, 1) + torch.arange(3)[:, None]
PROBES = ["state_norms", "drift", "attention", "rollout", "clustering", "rank", "jacobian", "leading", "commutator"]


class Block(nn.Module):
    """Attention and a feed-forward network on states whose axes are in some order."""

    def __init__(self, order: tuple[int, ...]) -> None:
        super().__init__()
        self.order, self.back = order, sorted(range(3), key=lambda i: order[i])
        self.norms = nn.ModuleList(nn.LayerNorm(8) for _ in range(2))
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def attention(self, x: Tensor) -> Tensor:
        return (self.query(x) @ self.key(x).mT).softmax(-1) @ self.value(x)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norms[0](x.permute(self.back))).permute(self.order)
        return x + self.down(self.up(self.norms[1](x.permute(self.back))).relu()).permute(self.order)


class Turning(Block):
    """The same, with axes turned on the way in and on the way out."""

    def forward(self, x: Tensor) -> Tensor:
        x = x.permute(self.back)
        x = x + self.attention(self.norms[0](x))
        return (x + self.down(self.up(self.norms[1](x)).relu())).permute(self.order)


class Ordered(hf.PreTrainedModel):
    """A model whose blocks see their states with axes in this order."""

    config_class = hf.PreTrainedConfig

    def __init__(self, order: tuple[int, ...] = (0, 1, 2), block: type[Block] = Block) -> None:
        super().__init__(hf.PreTrainedConfig(vocab_size=30))
        torch.manual_seed(0)
        self.order, self.back = order, sorted(range(3), key=lambda i: order[i])
        self.table, self.head = nn.Embedding(30, 8), nn.Linear(8, 30)
        self.blocks = nn.ModuleList(block(order) for _ in range(3))

    def get_input_embeddings(self) -> nn.Module:
        return self.table

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.table(input_ids).permute(self.order).contiguous()
        for block in self.blocks:
            x = block(x)
        return self.head(x.permute(self.back))


@pytest.mark.parametrize("order", [(1, 0, 2), (0, 2, 1), (2, 1, 0)])
@pytest.mark.parametrize("block", [Block, Turning])
@pytest.mark.parametrize("ids", [IDS, IDS[:, :3], IDS[:1]], ids=["text", "as many tokens as texts", "one text"])
def test_no_probe_depends_on_the_models_layout(order: tuple[int, ...], block: type[Block], ids: Tensor) -> None:
    models = Ordered(), Ordered(order, block)
    flows = [load(model.eval(), {"input_ids": IDS}) for model in models]
    assert [str(flow.scheme) for flow in flows] == ["A F", "A F"]
    wanted, found = (ss.observe(flow, {"input_ids": ids}, PROBES) for flow in flows)
    assert wanted.keys() == found.keys() == {*PROBES}
    for probe in PROBES:
        assert wanted[probe]["blocks"].keys() == found[probe]["blocks"].keys()
        for name, series in wanted[probe]["blocks"].items():
            one, other = torch.as_tensor(found[probe]["blocks"][name]), torch.as_tensor(series)
            torch.testing.assert_close(one, other, rtol=2e-3, atol=2e-4, equal_nan=True)


class OneSize(Ordered):
    """A model that takes texts of one length only."""

    def forward(self, input_ids: Tensor) -> Tensor:
        return super().forward(input_ids.reshape(-1, 8))


@pytest.mark.parametrize("order", [(1, 0, 2), (0, 2, 1), (2, 1, 0)])
def test_axes_are_found_by_moving_a_token_if_a_model_takes_one_length(order: tuple[int, ...]) -> None:
    flow = load(OneSize(order).eval(), {"input_ids": IDS})
    assert isinstance(flow, ForeignFlow)
    assert str(flow.scheme) == "A F"
    assert flow.chains["blocks"].layout.order == tuple(sorted(range(3), key=lambda i: order[i]))


class Counting(Ordered):
    """A model that counts its calls."""

    calls = count(1)

    def forward(self, input_ids: Tensor) -> Tensor:
        return super().forward(input_ids) * next(self.calls)


class Noisy(Ordered):
    """A model that draws random numbers in evaluation mode too."""

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.table(input_ids) + torch.randn(*input_ids.shape, 8)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class AllStates(Ordered):
    """A model whose output is made of all states, not of the last one."""

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.table(input_ids)
        states = [x := block(x) for block in self.blocks]
        return self.head(torch.stack(states).mean(0))


class Handing(Block):
    """A block that hands on a second state, made from the first."""

    def forward(self, x: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
        x = x + self.attention(self.norms[0](x)) + 0.1 * other
        return x, other + self.down(self.up(self.norms[1](x)).relu())


class Interrupted(Ordered):
    """A model with an encoder whose blocks are called with something in between."""

    def __init__(self) -> None:
        super().__init__()
        self.early = nn.ModuleList(Block((0, 1, 2)) for _ in range(2))

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.table(input_ids)
        for block in self.early:
            x = block(x.tanh())
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def test_a_stack_that_is_no_chain_is_left_out_aloud() -> None:
    model = Interrupted().eval()
    with pytest.warns(UserWarning, match="Interrupted: early is left out: its blocks do not follow one another"):
        flow = load(model, {"input_ids": IDS})
    assert list(flow.stacks) == ["blocks"]


class TwoStates(Ordered):
    """A model of two states, of which each changes the other."""

    def forward(self, input_ids: Tensor) -> Tensor:
        x = other = self.table(input_ids)
        for block in self.blocks:
            x, other = block(x, other.clone())
        return self.head(x)


class Gone(Ordered):
    """A model without numbers."""

    def forward(self, input_ids: Tensor) -> Tensor:
        return super().forward(input_ids) / 0


@pytest.mark.parametrize(
    ("model", "line"),
    [
        (Counting(), r"Counting is not a function: run twice on one input, its output differs by \d+\.\d%"),
        (AllStates(), r"AllStates: the blocks blocks, A F, and what follows them do not give its output: it reads .*"),
        (
            TwoStates(block=Handing),
            r"TwoStates: .* hand on more than their state: when it moves, A =C misses \d+\.\d% .*",
        ),
        (Gone(), "Gone gives numbers that are not finite, so nothing can be compared with them"),
    ],
)
def test_what_is_not_head_of_the_flow_is_refused_in_one_line(model: Ordered, line: str) -> None:
    with pytest.raises(ValueError, match=f"^{line}$"):
        load(model.eval(), {"input_ids": IDS})


def test_random_numbers_of_a_pass_come_from_one_seed() -> None:
    model = Noisy().eval()
    with pytest.warns(UserWarning, match="Noisy: it draws random numbers in each pass: here all passes draw the same"):
        flow = load(model, {"input_ids": IDS})
    assert "random numbers" in flow.notes[0]
    before = torch.get_rng_state()
    assert torch.equal(flow.embed(IDS), flow.embed(IDS))
    assert torch.equal(torch.get_rng_state(), before)


class Detour(Ordered):
    """A model that changes its state between two blocks if a text has an image, which token 29 stands for."""

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.table(input_ids)
        for i, block in enumerate(self.blocks):
            x = block(x) + 0.1 * (i == 0) * (input_ids == 29)[..., None]
        return self.head(x)


def test_what_happens_between_two_blocks_on_other_inputs_is_refused_then() -> None:
    flow = load(Detour().eval(), {"input_ids": IDS})
    with pytest.raises(ValueError, match=r"^Detour: the state changes by \d\.\d% between two of the blocks blocks$"):
        flow.context(IDS.masked_fill(IDS == 3, 29))


def test_layers_of_different_schemes_have_one_each() -> None:
    model = tiny("MllamaForCausalLM", 0.2)
    flow = load(model, inputs_of(model, "MllamaForCausalLM"))
    assert flow.notes == ("model.layers has layers of several schemes: A F in layers 0 and 2; C F in layers 1 and 3",)
    blocks = flow.context(inputs_of(model, "MllamaForCausalLM")).blocks["model.layers"]
    assert ["".join(one.fields) for one in blocks] == ["AF", "CF", "AF", "CF"]
