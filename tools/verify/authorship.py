"""Is it the candidate's own Triton kernels that do the work? Decided by what ran, not by what the text says.

Three observations: kernels launched; operators that torch dispatched beside them, with the elements they touched; and
what is still right when the kernels are silenced. In `own-kernels` mode heavy operators (matmul, convolution,
attention, ...) may not be torch's, and torch's light arithmetic may touch at most half of what the original's operators
touch. With `--allow-library` one live kernel is enough.
"""

from __future__ import annotations

import dataclasses

from triton_agent.tools.isolate.watch import UNSEEN
from triton_agent.tools.operators import kind_of
from triton_agent.tools.results import Finding
from triton_agent.tools.verify.session import Failed

ARITHMETIC = frozenset({"arithmetic", "reduction", "random", "index"})
TORCH_SHARE = 0.5
"""Most of the original's work that torch may do in own-kernels mode: over half is no longer a kernel's work."""


SUSPECT = ("aten._embedding_bag", "aten.embedding_bag", UNSEEN)
"""Lookups that are matrix products in disguise, and registered operators that nobody could look into."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What was dispatched during one call, summed up."""

    heavy: tuple[str, ...]
    light: tuple[str, ...]
    light_elements: int

    @classmethod
    def of(cls, operators: dict[str, list[int]]) -> Work:
        kinds = {name: kind_of(name) for name in operators}
        light = [name for name, kind in kinds.items() if kind in ARITHMETIC]
        return cls(
            heavy=tuple(name for name, kind in kinds.items() if kind == "heavy" or name.startswith(SUSPECT)),
            light=tuple(light),
            light_elements=sum(int(operators[name][1]) for name in light),
        )


def check_launches(launched: int, *, empty_outputs: bool) -> None:
    """At least one kernel ran, unless there was nothing to compute."""
    if launched == 0 and not empty_outputs:
        raise Failed(Finding.NO_LAUNCH, "forward launched no Triton kernel")


def check_library(work: Work, original_elements: int, *, allow_library: bool) -> None:
    """In own-kernels mode torch must not do the kernels' work."""
    if allow_library:
        return
    if work.heavy:
        raise Failed(
            Finding.LIBRARY_WORK,
            f"torch does the heavy work: {', '.join(work.heavy[:4])}; write it as a kernel, or allow libraries",
        )
    if work.light_elements >= TORCH_SHARE * original_elements > 0:
        share = work.light_elements / max(1, original_elements)
        raise Failed(
            Finding.LIBRARY_WORK,
            f"torch operators do {100 * share:.0f}% of the arithmetic ({', '.join(work.light[:6])}); "
            f"own kernels must do the larger part",
        )


def check_alive(still_right: list[str], outputs: int, *, allow_library: bool) -> None:
    """With kernels silenced no output may still be right (with libraries allowed: not all of them)."""
    if still_right and (not allow_library or len(still_right) == outputs):
        raise Failed(
            Finding.DEAD_KERNEL,
            f"{', '.join(still_right)} came out right with every kernel silenced: the kernels launched do not make it",
        )
