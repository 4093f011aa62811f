"""A model of others that runs on from a state between its blocks, some of them left out."""

from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from torch import Tensor

from .blocks import exchanged
from .decompose import BlockCall, state_of
from .flow import PassEnded
from .foreign import ForeignFlow
from .passes import ForeignPass


def states_after(
    flow: ForeignFlow,
    of: ForeignPass,
    first: int,
    x: Tensor,
    gone: Collection[int],
    change: Callable[[int, Tensor], Tensor],
) -> list[Tensor]:
    """The states after block `first` of the main stack, which is given x, and after all later ones. Those that are gone
    hand on their state; each is given change(number, state) instead of its state.

    Blocks run as they are, so what they choose by their state, such as experts, is chosen anew: fields of a recorded
    pass hold that. Blocks before them, and other stacks, are not run: they return what they returned in the pass.
    """
    main, found = flow.main, list[Tensor]()
    numbers = {stack: iter(range(len(chain.modules))) for stack, chain in flow.chains.items()}

    def block(stack: str, call: BlockCall) -> Any:
        layer = next(numbers[stack])
        before = of.blocks[stack][layer].returned
        if stack != main or layer + 1 < first:
            return before
        if layer + 1 == first:
            return exchanged(before, state := state_of(before), call.layout.own(x.clone(), state.shape))
        if layer == first == 0:  # no block before it hands x on
            call = call.moved(call.frame.own(x.clone()))
        own = call.frame.own(change(layer, call.x))
        returned = exchanged(before, state_of(before), own) if layer in gone else call.on(own)
        found.append(call.state(returned).clone())  # later blocks may write into it
        if layer + 1 == len(flow.chains[main].modules):
            raise PassEnded
        return returned

    if first < len(flow.chains[main].modules):
        with suppress(PassEnded):
            flow.watch(of.inputs, flow.chains, block)
    return found
