"""Is it the candidate's own Triton kernels that do the work? Decided by what ran, not by what the text says.

Three observations: kernels of the file's own that were launched; operators that torch dispatched beside them, with the
elements they touched; and what is still right when the kernels are silenced. In `own-kernels` mode heavy operators
(matmul, convolution, attention, ...) and kernels of others may not do the work, and torch's light arithmetic may touch
at most half of what the original's operators touch: a compound operator, such as a norm, as often as the elementary
ones it stands for. Where the original only moves data, that is what counts. With `--allow-library` one live kernel is
enough.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from triton_agent.tools.isolate.watch import TO_WHOLE, UNSEEN
from triton_agent.tools.operators import bare_name, functional_name, kind_of, passes_of
from triton_agent.tools.results import Finding
from triton_agent.tools.verify.session import Failed

ARITHMETIC = frozenset({"arithmetic", "reduction", "random", "index"})
TORCH_SHARE = 0.5
"""Most of the original's work that torch may do in own-kernels mode: over half is no longer a kernel's work."""


READ_BY_PYTHON = "aten._local_scalar_dense"
NUMBERS_READ = 64
"""That a call may read in any case: lengths, offsets, a scale for each head."""
SHARE_READ = 0.05
"""Of all elements of inputs and outputs: beyond that Python does the work."""

FILLS = frozenset({"fill", "zero"})
"""Movements out of nowhere: they get memory ready for a kernel."""

SUSPECT = ("aten._embedding_bag", "aten.embedding_bag", UNSEEN)
"""Lookups that are matrix products in disguise, and registered operators that nobody could look into."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What was dispatched during one call, summed up."""

    heavy: tuple[str, ...]
    light: tuple[str, ...]
    light_elements: int
    moved_elements: int
    rounded_elements: int
    """Made whole numbers by copying."""
    numbers_read: int
    """Single values that went over to Python, as `item()` takes them."""

    @classmethod
    def of(cls, reply: Mapping[str, Any]) -> Work:
        """What a worker's reply tells of a call."""
        operators: dict[str, list[int]] = {**reply["operators"]}
        rounded = operators.pop(TO_WHOLE, [0, 0])
        kinds = {name: kind_of(name) for name in operators}
        light = [name for name, kind in kinds.items() if kind in ARITHMETIC]
        inside = [name.replace("::", ".") for name in reply["inside"]]
        heavy = [name for name in (*operators, *inside) if kind_of(name) == "heavy" or name.startswith(SUSPECT)]
        return cls(
            heavy=tuple(dict.fromkeys(heavy)),
            light=tuple(light),
            light_elements=sum(passes_of(name) * int(operators[name][1]) for name in light),
            moved_elements=sum(int(operators[name][1]) for name, kind in kinds.items() if moves(name, kind)),
            rounded_elements=int(rounded[1]),
            numbers_read=_calls(reply, READ_BY_PYTHON) + int(reply["numbers"]),
        )


def moves(name: str, kind: str) -> bool:
    return kind == "movement" and functional_name(bare_name(name)) not in FILLS


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OriginalWork:
    """What the original does in one call, in elements."""

    arithmetic: int
    """A multiply-add counts as one."""
    moved: int
    """Copied from one place to another."""
    rounded: int = 0
    """Made whole numbers by copying."""


def check_record(reply: Mapping[str, Any]) -> None:
    """The watch and the witness agree: nothing ran out of sight, and neither was stopped."""
    unseen = [name for name in reply["unseen"] if kind_of(name) in ARITHMETIC | {"heavy"}]
    if unseen:
        raise Failed(Finding.TAMPERED, f"operators of torch ran out of sight of the log: {', '.join(unseen[:4])}")
    lost = [name for name, calls in _dotted(reply["shown"]).items() if _calls(reply, name) < calls]
    if lost:
        raise Failed(Finding.TAMPERED, f"operators of torch were taken out of the log: {', '.join(lost[:4])}")
    if not reply["complete"]:
        raise Failed(Finding.TAMPERED, "the record of torch's operators was stopped during the call")


def _dotted(shown: Mapping[str, Any]) -> dict[str, int]:
    return {str(name).replace("::", "."): int(calls) for name, calls in shown.items()}


def _calls(reply: Mapping[str, Any], name: str) -> int:
    return int(reply["operators"].get(name, (0,))[0])


def check_launches(launched: int, *, empty_outputs: bool) -> None:
    """At least one kernel ran, unless there was nothing to compute."""
    if launched == 0 and not empty_outputs:
        raise Failed(Finding.NO_LAUNCH, "forward launched no Triton kernel")


def check_kernels_of_others(names: Sequence[str], *, allow_library: bool) -> None:
    """A kernel that came with torch, called by the candidate itself, is a library's as much as an operator is."""
    if names and not allow_library:
        raise Failed(
            Finding.LIBRARY_WORK,
            f"kernels that are not this file's were launched: {', '.join(names[:4])}; write them, or allow libraries",
        )


def check_library(work: Work, original: OriginalWork, *, allow_library: bool) -> None:
    """In own-kernels mode torch must not do the kernels' work."""
    if allow_library:
        return
    if work.heavy:
        raise Failed(
            Finding.LIBRARY_WORK,
            f"torch does the heavy work: {', '.join(work.heavy[:4])}; write it as a kernel, or allow libraries",
        )
    if original.arithmetic:
        rounded = max(0, work.rounded_elements - original.rounded)
        share = (work.light_elements + rounded) / original.arithmetic
        names = [*(["copies to whole numbers"] if rounded else ()), *work.light]
        what = f"arithmetic ({', '.join(names[:6])})"
    else:
        moved = work.moved_elements + work.light_elements  # what is gathered is moved, too
        share, what = moved / max(1, original.moved), "copying, and the original does nothing else"
    if share >= TORCH_SHARE and (original.arithmetic or original.moved):
        raise Failed(
            Finding.LIBRARY_WORK,
            f"torch operators do {100 * share:.0f}% of the {what}; own kernels must do the larger part",
        )


def check_host(work: Work, elements: int) -> None:
    """Python must not do the kernels' work, number by number."""
    if work.numbers_read > max(NUMBERS_READ, SHARE_READ * elements):
        raise Failed(
            Finding.LIBRARY_WORK,
            f"Python reads {work.numbers_read} single numbers out of tensors in one call; kernels must do that work",
        )


def check_alive(still_right: list[str], outputs: int, *, allow_library: bool) -> None:
    """With kernels silenced no output may still be right (with libraries allowed: not all of them)."""
    if still_right and (not allow_library or len(still_right) == outputs):
        raise Failed(
            Finding.DEAD_KERNEL,
            f"{', '.join(still_right)} came out right with every kernel silenced: the kernels launched do not make it",
        )
