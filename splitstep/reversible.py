"""Backpropagation through a doubled scheme that rebuilds states instead of storing them: memory flat in depth.

A part of a doubled scheme adds to one half what its fields make of the other, a += h f(b), so a -= h f(b) undoes it. In
floating point the two differ by a rounding error, which the next evaluation in half precision amplifies to the
precision of its own output. So the pair is kept in fixed point here, where sums are exact: the backward pass rebuilds
the states of the forward pass bit for bit, whatever the precision of the fields.

The fields must be pure functions of t, x, the context and their registered parameters. Otherwise gradients would be
wrong, so a checksum of the first pair is compared with that of the rebuilt one. On a CPU a difference raises an error.
On a GPU an error would have to wait for the device, so a difference makes gradients NaN; to see the error, run a batch
on a CPU. Compiled code may round differently in its two passes, so it is not compared.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.compiler import is_compiling
from torch.func import functional_call, vjp  # pyright: ignore[reportPrivateImportUsage]
from torch.utils._pytree import tree_flatten, tree_unflatten

from .integrate import At, Observe, Step, Visit, contexts, increments, total, visits
from .scheme import Scheme

GRID = 2.0**30  # states are multiples of 2^-30, below 2^33 in size
LIMIT = 2.0**30  # of a state or an increment, well inside that range


def to_grid(x: Tensor) -> Tensor:
    return torch.round(x.to(torch.promote_types(x.dtype, torch.float32)) * GRID).to(torch.int64)


def from_grid(n: Tensor, dtype: torch.dtype) -> Tensor:
    return (n.to(torch.promote_types(dtype, torch.float32)) * (1.0 / GRID)).to(dtype)


def nan_unless(good: Tensor) -> Tensor:
    """0 if all are True, else NaN: it is added to results, because an `if` would wait for the device."""
    return torch.zeros((), device=good.device).masked_fill(~good.all(), torch.nan)


def fault(x: Tensor) -> Tensor:
    """NaN if x holds a value that the grid cannot: NaN, infinity or one of a diverged field; else 0."""
    return nan_unless(x.detach().abs() < LIMIT)


def checksum(pair: Sequence[Tensor]) -> Tensor:
    """An integer for each half: the sum over its elements, each times an odd number of its own, modulo 2^64."""
    odd = 2 * torch.arange(pair[0].numel(), device=pair[0].device).view(pair[0].shape) + 1
    return torch.stack([(n * odd).sum() for n in pair])


Names = tuple[tuple[str, str], ...]  # of a step's parameters: (field, parameter)


def bind(step: Step, names: Names, values: Sequence[Tensor]) -> Step:
    """The step with these values in place of its fields' parameters."""
    parameters: dict[str, dict[str, Tensor]] = {field: {} for field in step.fields}
    for (field, name), value in zip(names, values, strict=True):
        parameters[field][name] = value
    return step._replace(fields={f: _bound(step.fields[f], parameters[f]) for f in step.fields})


def _bound(field: Any, parameters: dict[str, Tensor]) -> Any:
    if not parameters:
        return field
    return lambda t, x, context: functional_call(field, parameters, (t, x, context))


class Problem(NamedTuple):
    """What the forward and the backward pass share."""

    scheme: Scheme
    steps: tuple[Step, ...]
    names: tuple[Names, ...]
    owners: tuple[int, ...]  # which names and weights each step has: steps of the same fields share them
    treedef: Any
    leaves: tuple[Any, ...]
    tracked: tuple[int, ...]  # leaves of the context that gradients flow into
    at: At | None
    autocast: tuple[str, torch.dtype, bool]

    def visits(self) -> list[Visit]:
        """The parts of all steps in order."""
        [(_, program)] = self.scheme.plan
        return [visit for index, step in enumerate(self.steps) for visit in visits(program, step, index)]

    def increment(self, visit: Visit, x: Tensor, values: Sequence[Tensor], extra: Sequence[Tensor]) -> Tensor:
        leaves = list(self.leaves)
        for i, leaf in zip(self.tracked, extra, strict=True):
            leaves[i] = leaf
        context = tree_unflatten(leaves, self.treedef)
        bound = visit._replace(step=bind(visit.step, self.names[self.owners[visit.site.step]], values))
        added = increments(bound, x, contexts(visit, context, self.at))
        return total(term.to(x.dtype) for term in added.values())  # summed in the state's precision, as in `integrate`


class Rebuild(torch.autograd.Function):
    """(a, b, context, weights) -> (a, b) after all steps; only the final pair is kept."""

    @staticmethod
    def forward(ctx: Any, problem: Problem, sizes: tuple[int, ...], a: Tensor, b: Tensor, *rest: Tensor) -> Any:
        dtype = a.dtype
        extra, groups = split(rest, sizes)
        pair = [to_grid(a), to_grid(b)]
        first = checksum(pair)
        poison = fault(a) + fault(b)
        for visit in problem.visits():
            half = visit.move.half
            x = from_grid(pair[1 - half], dtype)
            added = problem.increment(visit, x, groups[problem.owners[visit.site.step]], extra)
            pair[half] = pair[half] + to_grid(added)
            poison = poison + fault(added) + nan_unless(pair[half].abs() < int(LIMIT * GRID))
        ctx.save_for_backward(*pair, first)
        ctx.problem, ctx.sizes, ctx.rest = problem, sizes, rest
        ctx.versions = versions(rest)
        return from_grid(pair[0], dtype) + poison, from_grid(pair[1], dtype) + poison

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        problem: Problem = ctx.problem
        check_backward(ctx)
        extra, groups = split([tensor.detach() for tensor in ctx.rest], ctx.sizes)
        a, b, first = ctx.saved_tensors
        pair = [a, b]  # by hand: dynamo of PyTorch 2.11 makes a tuple of `*pair`
        g = list(grads)
        g_extra = [torch.zeros_like(leaf) for leaf in extra]
        g_groups: list[Any] = [None] * len(groups)
        device, dtype, enabled = problem.autocast
        with torch.autocast(device, dtype=dtype, enabled=enabled, cache_enabled=False):
            for visit in reversed(problem.visits()):
                half, owner = visit.move.half, problem.owners[visit.site.step]
                x = from_grid(pair[1 - half], g[half].dtype)
                added, pull = pullback(problem, visit, x, groups[owner], extra)
                pair[half] = pair[half] - to_grid(added)
                g_x, g_values, g_context = pull(g[half])
                g[1 - half] = g[1 - half] + g_x
                g_extra = [u + v for u, v in zip(g_extra, g_context, strict=True)]
                seen = g_groups[owner]
                g_groups[owner] = g_values if seen is None else [u + v for u, v in zip(seen, g_values, strict=True)]
        found = [*g, *g_extra, *(v for group in g_groups for v in group)]
        return None, None, *(found if is_compiling() else checked(found, ctx.needs_input_grad[2:], pair, first))


INSTEAD = "Put the network in evaluation mode to store states instead of rebuilding them."


def check_backward(ctx: Any) -> None:
    """Refuse a backward pass that would be wrong."""
    if torch.is_grad_enabled() and not is_compiling():  # once_differentiable misses inputs without a gradient
        raise RuntimeError(f"Rebuilt states have no second derivatives: create_graph is True. {INSTEAD}")
    if versions(ctx.rest) != ctx.versions:
        raise RuntimeError(
            "Weights or context were changed in place between forward and backward; states cannot be rebuilt from "
            "them. Call backward before the optimizer's step."
        )


def pullback(problem: Problem, visit: Visit, x: Tensor, values: Sequence[Tensor], extra: Sequence[Tensor]) -> Any:
    """What a part adds, and the function from its gradient to those of x, the weights and the context.

    None of these requires a gradient here, so if the result does, a field reads something else that does.
    """
    with nullcontext() if is_compiling() else torch.enable_grad():
        added, pull = vjp(partial(problem.increment, visit), x, values, extra)  # pyright: ignore[reportAssignmentType]
    if added.requires_grad:
        raise RuntimeError(
            f"Field {' or '.join(visit.move.fields)} of step {visit.site.step} reads a tensor that requires a gradient "
            "and would not get one: register it as a parameter of the field, or pass it in the context as a tensor. "
            f"{INSTEAD}"
        )
    return added, pull


def checked(grads: list[Tensor], needed: Sequence[bool], pair: Sequence[Tensor], first: Tensor) -> list[Tensor]:
    """The gradients, if the first pair was rebuilt; otherwise an error. On a GPU, where the check would wait for the
    device, and under a tracer, which has no values, the gradients become NaN instead."""
    good = checksum(pair) == first
    if good.device.type != "cpu" or type(good) is not Tensor:
        poison = nan_unless(good)
        marked = [i for i, wanted in enumerate(needed) if wanted][:3]  # both halves and a weight, or three weights
        return [grad + poison if i in marked else grad for i, grad in enumerate(grads)]
    if not good.all():
        raise RuntimeError(
            "The states were not rebuilt, so a field is not a pure function of t, x, the context and its parameters: "
            f"it may draw random numbers (nn.Dropout), count its calls or change a buffer. {INSTEAD}"
        )
    return grads


def versions(tensors: Sequence[Tensor]) -> tuple[int, ...]:
    """How often each tensor was changed in place; compiled code has guards of its own."""
    return () if is_compiling() else tuple(t._version for t in tensors)


def split(rest: Sequence[Tensor], sizes: Sequence[int]) -> tuple[tuple[Tensor, ...], list[tuple[Tensor, ...]]]:
    ends = list(accumulate(sizes))
    first, *groups = [tuple(rest[end - n : end]) for n, end in zip(sizes, ends, strict=True)]
    return first, groups


def parameters(step: Step, fields: Sequence[str]) -> dict[tuple[str, str], Tensor]:
    """The parameters of these fields of a step."""
    modules = [(name, step.fields[name]) for name in fields]
    modules = [(name, module) for name, module in modules if isinstance(module, nn.Module)]
    return {(name, key): value for name, module in modules for key, value in module.named_parameters()}


def integrate_reversibly(
    scheme: Scheme,
    steps: Sequence[Step],
    x: tuple[Tensor, Tensor],
    context: Any,
    observe: Observe | None,
    at: At | None,
) -> tuple[Tensor, Tensor]:
    """`integrate` for a doubled scheme of one branch, with a backward pass that rebuilds states."""
    assert observe is None
    assert len(scheme.branches) == 1
    if torch.is_grad_enabled() and any(isinstance(step.t, Tensor) and step.t.requires_grad for step in steps):
        raise ValueError(f"Rebuilt states have no gradient for the time t: pass t.detach(). {INSTEAD}")
    leaves, treedef = tree_flatten(context)
    tracked = tuple(i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor) and leaf.requires_grad)
    weights: list[dict[tuple[str, str], Tensor]] = []
    owners: list[int] = []
    for i, step in enumerate(steps):
        if i == 0 or step.fields is not steps[i - 1].fields:
            weights.append(parameters(step, scheme.fields))
        owners.append(len(weights) - 1)
    a, b = x
    device = a.device.type
    problem = Problem(
        scheme, tuple(steps), tuple(map(tuple, weights)), tuple(owners), treedef, tuple(leaves), tracked, at,
        (device, torch.get_autocast_dtype(device), torch.is_autocast_enabled(device)),
    )  # fmt: skip
    rest = [*(leaves[i] for i in tracked), *(value for group in weights for value in group.values())]
    sizes = (len(tracked), *map(len, weights))
    return Rebuild.apply(problem, sizes, a, b.clone() if b is a else b, *rest)  # pyright: ignore
