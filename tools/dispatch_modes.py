"""The base class of the project's torch dispatch modes."""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode


class UncompiledMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode that keeps dynamo out: otherwise torch imports its compiler (2.6 s) at the first operator."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
