"""Gives the same options to several commands."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

Command = Callable[..., None]


def sharing(options: Mapping[str, tuple[Any, Any]]) -> Callable[[Command], Command]:
    """Return a decorator that adds options to a command, annotation and default by name, and passes them as `said`."""
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in options.items()
    ]

    def decorate(command: Command) -> Command:
        own = inspect.signature(command, eval_str=True)

        @functools.wraps(command)
        def asked(**given: Any) -> None:
            said = {name: given.pop(name) for name in options}
            command(**given, said=said)

        kept = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own.parameters.values()]
        asked.__signature__ = own.replace(  # type: ignore[attr-defined]
            parameters=[parameter for parameter in kept if parameter.name != "said"] + shared
        )
        return asked

    return decorate
