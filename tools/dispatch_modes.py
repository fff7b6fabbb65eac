"""The base class of our dispatch modes."""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode


class UncompiledMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode in which torch compiles nothing; otherwise it imports its whole compiler (2.6 s) at the first operator."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
