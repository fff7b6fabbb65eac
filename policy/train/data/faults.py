"""Faults that kernel authors make, injected into kernels that passed, each with a sentence that describes its repair.

A fault is a change of the text. The evaluator decides if the change breaks anything. A change that still passes is
dropped. The author is shown the evaluator's message.
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable, Sequence

Change = Callable[[random.Random, str], str | None]
"""Returns the faulty text; None if the fault cannot be injected."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    name: str
    cause: str
    """The mistake, in a sentence."""
    remedy: str
    """The repair, in a sentence."""
    change: Change


def _replace(pattern: str, new: str) -> Change:
    """Return a change that replaces one random match of the pattern in a kernel or its launch."""

    def change(chance: random.Random, text: str) -> str | None:
        begin = max(text.find("@triton.jit"), 0)
        places = list(re.finditer(pattern, text[begin:], re.MULTILINE))
        if not places:
            return None
        place = chance.choice(places)
        start, end = begin + place.start(), begin + place.end()
        return text[:start] + place.expand(new) + text[end:]

    return change


def _without_a_line(chance: random.Random, text: str) -> str | None:
    """Drop an assignment of a kernel."""
    lines = text.splitlines(keepends=True)
    begin = next((number for number, line in enumerate(lines) if line.startswith("@triton.jit")), len(lines))
    end = next((number for number, line in enumerate(lines) if line.startswith("class ModelNew")), len(lines))
    whole = re.compile(r"    \w+ = .*[\w)\]]\n")
    places = [number for number in range(begin, end) if whole.fullmatch(lines[number])]
    if not places:
        return None
    gone = chance.choice(places)
    return "".join(line for number, line in enumerate(lines) if number != gone)


def _another_constant(chance: random.Random, text: str) -> str | None:
    begin = max(text.find("@triton.jit"), 0)
    end = text.find("class ModelNew")
    places = [place for place in re.finditer(r"(?<![\w.])\d+\.\d+(?![\w.])", text) if begin < place.start() < end]
    places = [place for place in places if float(place[0]) and not text[: place.start()].endswith("other=")]
    if not places:
        return None
    place = chance.choice(places)
    return f"{text[: place.start()]}{float(place[0]) * 1.5:.6g}{text[place.end() :]}"


FAULTS: Sequence[Fault] = (
    Fault(
        name="store without a mask",
        cause="The store had no mask, so the last block wrote past the end of the output.",
        remedy="Mask the store with the same condition as the loads.",
        change=_replace(r"(tl\.store\([^\n]*), mask=[^\n]*\)$", r"\1)"),
    ),
    Fault(
        name="load without a mask",
        cause="A load had no mask, so the last block read past the end of its input.",
        remedy="Mask the load where the block reaches beyond the tensor.",
        change=_replace(r"(tl\.load\([^\n]*?), mask=[^\n]*?(?:, other=[^\n)]*(?:\(\"-?inf\"\))?)?\)$", r"\1)"),
    ),
    Fault(
        name="wrong neutral element",
        cause="Masked elements were loaded as a number that changes the reduction.",
        remedy="Load masked elements as the neutral element of what is computed.",
        change=_replace(r"other=(?:0\.0|-?float\(\"-?inf\"\))", "other=1.0"),
    ),
    Fault(
        name="program id left out",
        cause="The offsets did not depend on the program id, so every program did the first block.",
        remedy="Add the program id times the block size to the offsets.",
        change=_replace(r"tl\.program_id\(0\)(?:\.to\(tl\.int64\))? \* \w+ \+ ", ""),
    ),
    Fault(
        name="grid rounded down",
        cause="The grid was rounded down, so the elements after the last whole block were never computed.",
        remedy="Round the number of programs up with `triton.cdiv`.",
        change=_replace(r"triton\.cdiv\(([^(),]+), ([^(),]+)\)", r"\1 // \2"),
    ),
    Fault(
        name="block not a power of two",
        cause="The block was as long as the row, and `tl.arange` takes powers of two only.",
        remedy="Round the block up with `triton.next_power_of_2` and mask what lies beyond.",
        change=_replace(r"triton\.next_power_of_2\(([^()]+)\)", r"\1"),
    ),
    Fault(
        name="mean over the block",
        cause="The sum was divided by the block size, which counts masked elements, too.",
        remedy="Divide by the number of columns.",
        change=_replace(r"/ columns\b", "/ BLOCK_COLUMNS"),
    ),
    Fault(
        name="wrong axis",
        cause="The reduction went over the wrong axis of the block.",
        remedy="Reduce over the axis that the row lies on.",
        change=_replace(r"axis=1\b", "axis=0"),
    ),
    Fault(
        name="maximum for a sum",
        cause="The kernel took a maximum where a sum was needed.",
        remedy="Use `tl.sum`.",
        change=_replace(r"tl\.sum\(", "tl.max("),
    ),
    Fault(
        name="minimum for a maximum",
        cause="The kernel took a minimum where a maximum was needed.",
        remedy="Use the maximum.",
        change=_replace(r"tl\.max(\(|imum\()", r"tl.min\1"),
    ),
    Fault(
        name="sign exchanged",
        cause="The kernel added where it had to subtract.",
        remedy="Subtract, in the order of the reference.",
        change=_replace(r"(?<=[\w)]) - (?=[\w(])", " + "),
    ),
    Fault(
        name="product for a sum",
        cause="The kernel multiplied two values that the reference adds.",
        remedy="Add them.",
        change=_replace(r"(?<== )(\w+) \+ (\w+)$", r"\1 * \2"),
    ),
    Fault(
        name="base of the exponential",
        cause="`tl.exp2` was taken for `tl.exp`.",
        remedy="Use `tl.exp`, whose base is e.",
        change=_replace(r"tl\.exp\(", "tl.exp2("),
    ),
    Fault(
        name="wrong constant",
        cause="A constant of the formula was wrong.",
        remedy="Take the constant from the reference.",
        change=_another_constant,
    ),
    Fault(
        name="value never computed",
        cause="The kernel used a name that it never assigned.",
        remedy="Compute the value before it is used.",
        change=_without_a_line,
    ),
    Fault(
        name="import left out",
        cause="The file used `tl` without importing it.",
        remedy="Import `triton.language as tl`.",
        change=lambda _, text: text.replace("import triton.language as tl\n", "", 1),
    ),
    Fault(
        name="bracket left open",
        cause="A bracket was never closed, so the file was no Python.",
        remedy="Close the bracket.",
        change=_replace(r"(tl\.store\([^\n]*)\)$", r"\1"),
    ),
    Fault(
        name="input returned",
        cause="`forward` returned its input in place of the output.",
        remedy="Return the tensor that the kernel wrote.",
        change=_replace(r"return out$", "return x"),
    ),
    Fault(
        name="output in another dtype",
        cause="The output was allocated in another dtype than the reference's.",
        remedy="Allocate the output with the dtype of the reference's result.",
        change=_replace(r"torch\.empty_like\((\w+)\)", r"torch.empty_like(\1, dtype=torch.float64)"),
    ),
    Fault(
        name="parameter renamed",
        cause="A parameter had another name than in the reference, so its values could not be copied.",
        remedy="Keep the names of the reference's parameters.",
        change=lambda _, text: re.sub(r"self\.(bias|scale|gain|shift)\b", r"self.\1_values", text),
    ),
)


def faulty_versions(chance: random.Random, source: str) -> list[tuple[Fault, str]]:
    """Return every fault that can be injected into this kernel, with the faulty text, in random order."""
    made = [(fault, fault.change(chance, source)) for fault in FAULTS]
    found = [(fault, text) for fault, text in made if text is not None and text != source]
    return chance.sample(found, len(found))
