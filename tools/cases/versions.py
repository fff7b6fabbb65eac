"""Makes versions of the reference's parameters and buffers: new draws, and versions in which one of them changes alone.

A kernel may keep what it prepared from earlier ones, or ignore one of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from triton_agent.tools.cases.distributions import randomise
from triton_agent.tools.cases.plan import ALONE_BYTES_AT_MOST
from triton_agent.tools.chance import secret_seed
from triton_agent.tools.reference.module_copy import copied_module
from triton_agent.tools.reference.reference import Reference
from triton_agent.tools.settings import EvaluatorSettings
from triton_agent.tools.truth.expectation import state_of

ALONE = 2
"""Number of parameters and buffers that are changed alone, at least one buffer if there is one; drawn at random."""
ALONE_FRESH = 2
"""Number of neutral buffers (zeros, equal integers, equal flags) that are changed alone as well."""
SHORT_LIST = 8
"""Largest buffer whose elements are changed one by one. Longer tables are often computed, such as those of sines."""


def versions_of(
    reference: Reference, build_seed: int, settings: EvaluatorSettings, *, main: bool
) -> list[torch.nn.Module]:
    """Return the reference with several versions of its parameters.

    The first is as drawn. For the main variant two new draws follow, of which the last has one element of each
    parameter changed, then versions in which one parameter or buffer changes alone. If the constructor makes all
    elements of a parameter equal, half of them keep that value in the new draws.
    """
    seeds = [(build_seed, secret_seed())]
    models = [reference.make_model(build_seed)]
    if main and settings.remedies and models[0].state_dict():
        seeds += 2 * [(secret_seed(), secret_seed())]
        models += [reference.make_model(build) for build, _ in seeds[1:]]
    if settings.remedies:
        for model, (_, seed), kept in zip(models, seeds, (None, 0, 1)):
            randomise(model, seed, kept)
    if len(models) > 1:
        generator = torch.Generator().manual_seed(secret_seed())
        # One element of each parameter of the last version changes: a cache that samples the contents misses it.
        last = models[-1]
        for parameter in last.parameters():
            if parameter.is_floating_point() and parameter.numel() and parameter.dim():
                where = off_the_diagonal(parameter.shape, generator)
                value = parameter.detach()[where]
                parameter.data[where] = torch.where(value == 0, 0.25, value * 1.5)
        models += _changed_alone(models[-1], generator)
    return models


def _changed_alone(model: torch.nn.Module, generator: torch.Generator) -> list[torch.nn.Module]:
    """Return versions that each differ from the one before in a single parameter or buffer.

    Neutral buffers (zeros, equal integers, equal flags) come first: only a change shows that a kernel ignores them. In
    the last version all buffers change that did not change alone.
    """
    stored = model.state_dict()
    if sum(value.nbytes for value in state_of(model).values()) > ALONE_BYTES_AT_MOST:
        return []
    buffers = {name: value for name, value in model.named_buffers() if name in stored}
    fresh = [name for name, value in buffers.items() if value.numel() > 1 and _is_neutral(value)][:ALONE_FRESH]
    parameters, others = (
        [name for name, value in named if _can_be_multiplied(value)]
        for named in (model.named_parameters(), buffers.items())
    )
    others = [name for name in others if name not in fresh]
    names = [others.pop(int(torch.randint(len(others), (1,), generator=generator)))] if others else []
    rest = parameters + others
    names += [rest[index] for index in torch.randperm(len(rest), generator=generator)[: ALONE - len(names)].tolist()]
    found = [model]
    for name in fresh + names:
        found.append(copied_module(found[-1]))
        value = stored_in(found[-1])[name]
        if name in fresh:
            value.copy_(_replacement_for(value, generator))
            continue
        _multiply(value, name, generator, is_buffer=name in buffers)
    left = [name for name in others if name not in names and "running_" not in name]
    if left:  # no buffer keeps the values of a new module in every version
        found.append(copied_module(found[-1]))
        values = dict(found[-1].named_buffers())
        for name in left:
            values[name].data.mul_((0.5 + torch.rand((), generator=generator)).to(values[name]))
    return found[1:]


def all_changed(model: torch.nn.Module, generator: torch.Generator) -> torch.nn.Module:
    """Return a copy in which all parameters and stored buffers of floats are multiplied by numbers near one."""
    found = copied_module(model)
    stored, buffers = found.state_dict(), dict(found.named_buffers())
    for name, value in stored_in(found).items():
        if name in stored and _can_be_multiplied(value):
            _multiply(value, name, generator, is_buffer=name in buffers)
    return found


def _can_be_multiplied(value: torch.Tensor) -> bool:
    """Return True for floats, each in a place of its own in memory."""
    return value.is_floating_point() and value.numel() > 0 and 0 not in value.stride()


def _multiply(value: torch.Tensor, name: str, generator: torch.Generator, *, is_buffer: bool) -> None:
    """Multiply elements by numbers near one; a repeated value in a table stays repeated, as a kernel may rely on it."""
    alike = is_buffer and "running_" not in name and not _is_a_short_list(value)
    value.mul_((0.5 + torch.rand(() if alike else value.shape, generator=generator)).to(value))


def _is_neutral(buffer: torch.Tensor) -> bool:
    first = buffer.reshape(-1)[0]
    if buffer.is_complex() or 0 in buffer.stride() or not bool((buffer == first).all()):
        return False
    return not buffer.is_floating_point() or bool(first == 0)


def _replacement_for(fresh: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return flags with a quarter flipped, integers some of which are greater by one, or small numbers for zeros."""
    drawn = torch.rand(fresh.shape, generator=generator)
    if fresh.dtype is torch.bool:
        return fresh ^ (drawn < 0.25).to(fresh.device)
    return fresh + (drawn - 0.5 if fresh.is_floating_point() else (drawn < 0.5).int()).to(fresh)


def _is_a_short_list(buffer: torch.Tensor) -> bool:
    """Return True for a few different numbers, such as the means of three colours."""
    return 1 < buffer.numel() <= SHORT_LIST and len(set(buffer.reshape(-1).tolist())) == buffer.numel()


def stored_in(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the module's own parameters and buffers by name."""
    return {name: it.detach() for name, it in (*model.named_parameters(), *model.named_buffers())}


def off_the_diagonal(shape: Sequence[int], generator: torch.Generator) -> tuple[int, ...]:
    """Return a random index with different components if possible, so that confused axes show."""
    where: list[int] = []
    for size in shape:
        index = int(torch.randint(size, (1,), generator=generator))
        for _ in range(size):
            if index not in where:
                break
            index = (index + 1) % size
        where.append(index)
    return tuple(where)
