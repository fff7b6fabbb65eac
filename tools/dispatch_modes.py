"""What our dispatch modes have in common."""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode


class UncompiledMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Inside, nothing is compiled. Else torch imports its whole compiler, 2.6 s, at the first operator."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
