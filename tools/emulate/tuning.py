"""`@triton.autotune` without a clock: the first configuration left after pruning is the best.

So a verdict does not depend on noise, and a kernel runs once where a GPU would run it hundreds of times. That those
runs happen on the real data matters for one kind of kernel: one that reads what it writes, without `reset_to_zero` or
`restore_value`, gives a wrong first answer on a GPU. Such a kernel is run twice, to the same effect. A configuration
refused by a `static_assert` is passed over, as on a GPU; one that needs too many resources is not noticed here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from triton_agent.tools.emulate.faults import KernelError, StaticAssertionFailed

Updated = Callable[[], frozenset[str]]
"""Gives the parameters that the last launch both read and wrote."""


def tuned_run(updated: Updated, unrecorded: Callable[[], Any]) -> Callable[..., Any]:
    """A replacement for `Autotuner.run`; launches inside `unrecorded()` leave no trace in the record."""

    def run(tuner: Any, *args: Any, **kwargs: Any) -> Any:
        tuner.nargs = dict(zip(tuner.arg_names, args))
        try:
            key = _key(tuner, kwargs)
            if len(tuner.configs) > 1 and key not in tuner.cache:
                return _tune(tuner, key, args, kwargs, updated, unrecorded)
            tuner.best_config = tuner.cache[key] if len(tuner.configs) > 1 else tuner.configs[0]
            return _launch(tuner, tuner.best_config, args, kwargs)
        finally:
            tuner.nargs = None

    return run


def _key(tuner: Any, kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """What decides over tuning again: the named arguments' values and every tensor's type."""
    named = {name: value for name, value in {**tuner.nargs, **kwargs}.items() if name in tuner.arg_names}
    values = [named[name] for name in tuner.keys if name in named]
    return (*values, *(str(value.dtype) for value in named.values() if hasattr(value, "dtype")))


def _tune(
    tuner: Any,
    key: tuple[Any, ...],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    updated: Updated,
    unrecorded: Callable[[], Any],
) -> Any:
    configs = list(tuner.prune_configs(kwargs))
    for config in configs:
        everything = _everything(tuner, config, kwargs)
        tuner.pre_hook(everything)
        try:
            result = _launch(tuner, config, args, kwargs)
        except KernelError as error:
            if not isinstance(error.__cause__, StaticAssertionFailed) or config is configs[-1]:
                raise
            tuner.post_hook(everything, exception=error)
            continue
        tuner.cache[key] = tuner.best_config = config
        if updated() - {*tuner.reset_to_zero, *tuner.restore_value}:
            tuner.post_hook(everything, exception=None)
            tuner.pre_hook(everything, reset_only=True)
            with unrecorded():
                result = _launch(tuner, config, args, kwargs)
        return result


def _launch(tuner: Any, config: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    everything = _everything(tuner, config, kwargs)
    if config.pre_hook is not None:
        config.pre_hook(everything)
    return tuner.fn.run(*args, **kwargs, **config.all_kwargs())


def _everything(tuner: Any, config: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments by name, as hooks get them."""
    clashes = sorted(kwargs.keys() & config.kwargs.keys())
    if clashes:
        raise ValueError(f"Conflicting meta-parameters: {', '.join(clashes)}. They are both passed and autotuned.")
    return {**tuner.nargs, **kwargs, **config.all_kwargs()}
