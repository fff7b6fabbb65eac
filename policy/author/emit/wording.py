"""Names of kernels, their comments, and the plan in words."""

from __future__ import annotations

from collections.abc import Sequence

from triton_agent.policy.author.emit.kernel_text import KernelText
from triton_agent.policy.author.ir.program import EXPENSIVE, Program
from triton_agent.policy.author.plan.kernel_plan import Kernel

_NAMES = {
    "mm": "matmul",
    "addmm": "linear",
    "bmm": "batched_matmul",
    "baddbmm": "batched_matmul",
    "native_layer_norm": "layer_norm",
    "native_group_norm": "group_norm",
    "_softmax": "softmax",
    "_log_softmax": "log_softmax",
    "linalg_vector_norm": "norm",
    "convolution": "convolution",
    "_to_copy": "cast",
    "clone": "copy",
    "nll_loss_forward": "nll_loss",
    "_prelu_kernel": "prelu",
    "constant_pad_nd": "pad",
    "_cdist_forward": "distances",
    "_euclidean_dist": "distances",
    "_trilinear": "bilinear",
    "_weight_norm_interface": "weight_norm",
    "as_strided_scatter": "write",
    "index_put": "write",
    "linalg_cross": "cross",
    "fake_quantize_per_tensor_affine_cachemask": "fake_quantize",
}
_LONGEST = 3


def operators_of(program: Program, kernel: Kernel) -> list[str]:
    """Return the kernel's operators by their torch names, in order."""
    order = {name: i for i, name in enumerate(program.values)}
    found: dict[tuple[int, str], None] = {}
    for name in sorted(kernel.covers, key=order.__getitem__):
        value = program.values[name]
        if value.operation in ("reshape", "permute", "expand", "slice", "full", "iota"):
            continue
        if name in program.origins:
            found[program.origins[name]] = None
    return [word for word in (_word(operator) for _, operator in found) if word]


def _word(operator: str) -> str:
    bare = operator.split(".")[1] if "." in operator else operator
    return _NAMES.get(bare, bare.strip("_"))


def kernel_name(program: Program, kernel: Kernel) -> str:
    if kernel.kind == "attention":
        return "attention_kernel"
    if kernel.kind == "recurrence":
        return f"{program.values[kernel.key].function}_steps_kernel"
    words = list(dict.fromkeys(operators_of(program, kernel)))
    if len(words) > _LONGEST:
        heavy = [
            _word(program.origins[name][1])
            for name in sorted(kernel.covers)
            if program.values[name].operation in EXPENSIVE and name in program.origins
        ]
        kept = list(dict.fromkeys([*heavy, words[-1]]))[:_LONGEST]
        words = [word for word in words if word in kept][:_LONGEST]
    return "_".join([*words, "kernel"]) if words else f"{'copy' if kernel.loads else 'fill'}_kernel"


def kernel_comment(program: Program, kernel: Kernel) -> tuple[str, ...]:
    """Return one line for the top of the kernel."""
    words = operators_of(program, kernel)
    shown = _listed(words) if words else "Copied" if kernel.loads else "Filled"
    if kernel.kind == "points":
        return (f"{shown}, element by element.",)
    if kernel.kind == "product":
        return (f"{shown}: the result tile by tile.",)
    if kernel.kind == "attention":
        return (f"{shown}: no score is stored.",)
    if kernel.kind == "recurrence":
        return (f"{shown}: a few rows of the batch in each program, step by step.",)
    if kernel.kind == "chain":
        return (f"{shown}: a few rows in each program.",)
    return (f"{shown}: one program for each row.",)


_LONGEST_LIST = 64
"""Longest list of operator names in a comment."""


def _listed(words: Sequence[str]) -> str:
    words = [word for word, before in zip(words, [None, *words]) if word != before]
    if len(words) > 6:
        words = [*words[:3], "...", *words[-2:]]
    if len(words) > 3 and len(", ".join(words)) > _LONGEST_LIST:
        words = [words[0], "...", words[-1]]
    text = ", ".join(words[:-1]) + (" and " if len(words) > 1 else "") + words[-1]
    text = text.replace("_", " ")
    return text[:1].upper() + text[1:]


LEFT_OUT = "Left out: "
"""Begins a line of the plan that names a part without a kernel."""


def plan_text(drafts: Sequence[Sequence[KernelText]], limits: Sequence[str]) -> str:
    """Describe the kernels of a file for its readers."""
    lines = []
    every = [kernel for kernels in drafts for kernel in kernels]
    count = sum(not kernel.repeats for kernel in every)
    lines.append(f"{count} kernel{'s' if count != 1 else ''}, {len(every)} launch{'es' if len(every) != 1 else ''}.")
    for kernel in every:
        if not kernel.repeats:
            said = kernel.comment[0].rstrip(".") if kernel.comment else kernel.name
            lines.append(f"- {kernel.name}: {said}; {_tiles(kernel)}.")
    lines += [f"{LEFT_OUT}{limit}." for limit in limits]
    return "\n".join(lines)


def _tiles(kernel: KernelText) -> str:
    tiles = kernel.tiles
    parts = []
    if kernel.kernel.kind == "points":
        parts.append(f"{max(1, tiles.rows) * max(1, tiles.columns)} elements a program")
    elif kernel.kernel.kind == "product":
        step = "one element" if tiles.inner == 1 else str(tiles.inner)
        parts.append(f"tiles of {tiles.rows} x {tiles.columns}, {step} of the inner dimension at a time")
        parts += ["by tensor descriptors"] if tiles.described else []
    elif kernel.kernel.kind in ("chain", "recurrence"):
        parts.append(f"{tiles.rows} rows a program")
    elif kernel.kernel.kind == "attention":
        parts.append(f"{tiles.rows} queries a program, {tiles.inner} keys at a time")
        parts += ["by tensor descriptors"] if tiles.described else []
    else:
        parts.append("one row a program" if tiles.rows == 1 else f"{tiles.rows} rows a program")
        parts.append(f"in steps of {tiles.columns}" if tiles.looped else "a whole row at once")
    parts.append("one warp" if tiles.warps == 1 else f"{tiles.warps} warps")
    return ", ".join(parts)
