"""Loads a written file, and makes its module with the tensors of a module in memory.

The tensors are copies on the same devices, with the same sharing among them, so a change to one module does not reach
the other. Modes, hooks of the module itself, and attributes that could not be written into the file are copied from
the module in memory. Torch's global state is left unchanged.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import importlib.util
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

ROOT_HOOKS = (
    *("_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks"),
    *("_forward_pre_hooks_with_kwargs", "_backward_hooks", "_backward_pre_hooks", "_state_dict_hooks"),
    *("_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"),
)


def load(path: Path) -> types.ModuleType:
    """Import the file under a private name that depends on its content."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    name = f"_triton_agent_{path.stem}_{digest}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # pickle and torch's operators look the module up here
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


@contextlib.contextmanager
def untouched() -> Iterator[None]:
    """Run a block with grad mode on and the CPU as default device; restore both and the random generators
    afterwards.
    """
    cuda: Any = torch.cuda
    gpus = list(range(cuda.device_count())) if cuda.is_initialized() else []
    with torch.random.fork_rng(devices=gpus), torch.inference_mode(False), torch.enable_grad(), torch.device("cpu"):
        yield


def made_of(kind: Callable[[], nn.Module], module: nn.Module, left_out: Sequence[str]) -> nn.Module:
    """Make a module with `kind`, and give it copies of the tensors, modes and hooks of `module`."""
    with torch.device("meta"):  # its values are replaced below
        made = kind()
    memo: dict[int, torch.Tensor] = {}
    for path, own in made.named_modules():
        _take_over(own, module.get_submodule(path), memo)
    for path in left_out:
        parent, _, name = path.rpartition(".")
        setattr(made.get_submodule(parent), name, getattr(module.get_submodule(parent), name))
    for name in ROOT_HOOKS:
        setattr(made, name, copy.copy(getattr(module, name)))
    for own in made.modules():
        if isinstance(own, nn.RNNBase):
            own._init_flat_weights()
    return made


def _take_over(own: nn.Module, live: nn.Module, memo: dict[int, torch.Tensor]) -> None:
    own.training = live.training
    for name, parameter in live._parameters.items():
        own._parameters[name] = None if parameter is None else _copied(parameter, memo)  # type: ignore[assignment]
    for name, buffer in live._buffers.items():
        own._buffers[name] = None if buffer is None else _copied(buffer, memo)
    for name, value in list(vars(own).items()):
        if isinstance(value, torch.Tensor):  # a tensor held as a plain attribute
            setattr(own, name, _copied(getattr(live, name), memo))


def _copied(tensor: torch.Tensor, memo: dict[int, torch.Tensor]) -> torch.Tensor:
    if id(tensor) not in memo:
        clone = tensor.detach().clone()
        is_parameter = isinstance(tensor, nn.Parameter)
        memo[id(tensor)] = nn.Parameter(clone, requires_grad=tensor.requires_grad) if is_parameter else clone
    return memo[id(tensor)]
