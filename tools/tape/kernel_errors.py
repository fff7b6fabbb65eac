"""The refusal of a kernel that is not written in the language that can be checked."""

from __future__ import annotations


class NotKernelLanguage(Exception):
    """A kernel function uses something that is not Triton's language; says which, where and what.

    It is the candidate's failure, not ours, so it is outside the tree of `tools/errors.py`.
    """

    def __init__(self, kernel: str, line: int, reason: str) -> None:
        super().__init__(kernel, line, reason)
        self.kernel = kernel
        self.line = line
        """In the candidate's file."""
        self.reason = reason

    def __str__(self) -> str:
        return f"kernel {self.kernel}, line {self.line}: {self.reason}"
