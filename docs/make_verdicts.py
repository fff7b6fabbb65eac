"""Writes `docs/verdicts.md`, the table of verdicts, from `DECISIONS`, so that the two cannot disagree.

python docs/make_verdicts.py            write it
python docs/make_verdicts.py --check    exit 1 if the page differs from the text that would be written
"""

from __future__ import annotations

import sys
from pathlib import Path

from triton_agent.tools.results import DECISIONS, Finding, Status

PAGE = Path(__file__).with_name("verdicts.md")

MEANINGS = {
    Status.PASSED: "right on every case, and by kernels of its own",
    Status.NO_ANSWER: "there is nothing to judge",
    Status.WRONG_VALUES: "it runs, but its values differ from the reference's",
    Status.WRONG_SHAPE: "its outputs differ from the reference's in number, nesting or shape",
    Status.WRONG_DTYPE: "an output has another dtype, or is on another device",
    Status.COMPILE_ERROR: "the file is not valid Python, or a kernel does not compile",
    Status.RUNTIME_ERROR: "it raised, accessed memory outside its tensors, or its process died",
    Status.TIMEOUT: "it exceeded a time limit",
    Status.OUT_OF_MEMORY: "it used more memory than allowed",
    Status.CHEATED: "it interferes with the evaluation, or uses something that no kernel file needs",
    Status.NOT_TRITON: "something other than its own Triton kernels does the work",
}

ALSO = {Finding.MUTATED_INPUT: "; or an input that the reference changes was left unchanged, or changed otherwise"}
"""What else findings mean. The texts in `DECISIONS` are part of prompts, whose versions keep their words."""

HEAD = """\
# Verdicts

<!-- Written by docs/make_verdicts.py from tools/results.py. Change it there. -->

Every candidate that is judged gets exactly one status. A status other than `passed` has a finding, which gives the
reason; each finding belongs to one status. If a candidate cannot be judged, there is no status: the evaluator raises an
`InstrumentError`, the command exits with code 3, and nothing is said about the kernel. So it is if other processes hold
GPU memory that the candidate may use (three quarters of the card), or if a process that runs none of its Python ends
without an error; then it is judged a second time first.
"""

LINE = """\
## Where the line is

A file may specialise to everything that a guard can check before a call: the constructor's arguments, the shapes,
strides and dtypes of the inputs, plain values such as numbers and flags, training or evaluation mode, and the GPU. It
may choose kernels, tiles and grids by these, and fall back to others. It may not specialise to the values of tensors: a
guard cannot check them without reading them, and they differ from call to call. These rules follow:

- Host code that reads values of a tensor is refused (`reads_values`). Kernels may read them.
- Memory prepared from parameters is prepared again when they change. A result that still uses an old value is
  `stale_parameter`.
- A call's result may depend only on its own inputs, on parameters and on buffers. Using values of an earlier call's
  inputs is refused (`retained_input`); a workspace that each call initialises is allowed.
- A number in the text that only fits the inputs as given (a scale, a range, a count of rows) fails at other sizes,
  magnitudes, signs and orders, as `values`, `non_finite` or `unwritten_output`. The next section lists the inputs that
  are tried.
- A kernel may ask something of the values, such as if a number is negative or a row in order. But both outcomes have to
  occur in calls that are checked. If one never does, whatever is tried of the list below, and answers would be wrong
  with it, the file is refused (`one_sided`). Not concerned are single elements and their places, lengths and other
  whole numbers computed from those of an input, limits of a value, bounds of accesses, guards against NaN, infinities
  and sums of exponentials that are zero, numbers beyond what a value can be, and a comparison that the reference makes,
  too, of the same values. But limits of sums and other reductions count, unless they are zero, smaller than 1e-4 or
  larger than 1e4, or are approached; and so do three or more questions, joined by `&` or `|`, about four or more
  elements of one tensor of whole numbers.
- If the reference does the same in training and evaluation mode, but a file does not, the file is checked with the same
  cases in both modes.
- A mode in which the reference draws random numbers (dropout in training mode) is not checked, since two right answers
  differ there. A shipped file runs the reference in that mode.
- The file's own kernels do the larger part of the work, counted in bytes. Bytes that a launch loads without any effect
  on the answer do not count. If torch computes the answer, up to a factor, a shift or the order of its elements, and
  kernels only pass it on, the file is refused (`library_work`). So it is if torch rounds or wraps the answer by a copy
  to a narrower dtype, and the reference makes no copy to that dtype.
- An output may have other strides than the reference's, with one exception. Where the reference moves elements into
  another order (`.contiguous()`), the output has to be stored in that order or row by row (`layout`).
- Only the user may choose lower precision than the reference's (`--precision`, `--autocast`). A file that chooses it is
  refused (`precision`).

## What is tried besides the inputs as given

- Values of inputs: some equal the values that the reference compares them with. Some rows begin or end with zeros, hold
  only one sign or few different values, or are as small as an epsilon; so do columns, channels or all elements where
  the reference reduces these. Others are sorted, periodic, smooth, sparse, loud, some spreads from zero, or like the
  row before. Of several inputs each is zero once. The first input gets one sign and all others, with the parameters,
  the other one, which are so large once that exponentials of scores are zero. Rows of two inputs of one shape, or of
  an input and a parameter, are equal, opposite, sorted, or otherwise made from each other. Some numbers lie
  half-way between two steps of a grid, or between two pixels of which the nearest is taken, where no division rounds.
  Numbers between 0 and 1 (or -1 and 1) reach both ends, and bfloat16 exceeds what float16 holds. Some samples of
  float32 are rounded to bfloat16, others to float16, and some of float64 to float32. NaN is asked of each input that
  the reference passes it on from, single ones and half a row.
- Magnitudes: if the reference multiplies its answer by a power of two where its inputs are, all floating inputs are
  multiplied by up to 2**56, and by as little as 2**-56; one of several inputs is far larger and the others are far
  smaller, where a weight counts as an input; and products are too small for any number, so the answer is zero. The
  reference has to bear the double exponent. References with exponentials and the like are left out.
- Integers and flags: some repeat within an input, alone and in runs, and between inputs, or are zero; all are equal;
  all of one input are zero; all are some thousands, or large; rows of 8 or 16 bits lie at a limit. Of numbers from
  2**28 on, some get all bits flipped. Lengths and places are drawn up to the end. Some samples hold nothing but padding
  or ignored labels. Rows of flags begin or end with a run of cleared ones, and those of a mask that is added to scores
  with minus infinity. Sizes, offsets and places that are written to keep what the file draws.
- Memory: inputs that share memory also get memory of their own, and other values there. Each input lies transposed, and
  with gaps in its rows, between samples and between planes; any two of up to six inputs lie differently once. Samples,
  heads, or columns of several inputs are repeated with a stride of zero.
- Sizes: odd ones, primes, powers of two, a batch of one, and some up to four times as large. A larger size is left out,
  with a note, if a kernel needs more shared memory there than the GPU has or takes more than ten seconds to compile.
  So are sizes at which something is empty or not finite, unless that is so at the sizes given, and those at which
  offsets that rise from 0 to the size of another input no longer end there. A number above 2**38 is no size.
  Where a file takes another branch than at the sizes given (another kernel, another outcome of a condition on the
  arguments of a launch, or several rounds of a loop), all these values are tried again; so in the second mode.
- Inputs at full size: they hold several magnitudes and signs at once. In other calls they hold outliers, NaN, repeated
  and negative indices, full and empty masks, mostly equal whole numbers, and the numbers that kernels name.
- Parameters and buffers: those that a new module fills with one value also get other values, and those of one sign get
  both signs if the reference accepts that. Scales also get larger values, some rows of a weight are zero, and biases,
  tables and normalised weights before a norm are far from zero.
- Buffers that count calls or samples: they also begin at higher counts, reach the numbers that the reference names and
  the middle and the end of other buffers, and pass them within a call. Those that count down reach zero.
- Other buffers that calls change: calls before may have been much louder, and the call itself quieter. They also stand
  at and beyond the numbers that the reference compares them with. In a chain of 32 calls, or of fewer if these
  take more than a second, each begins with the state that the file's own call before left, and each is checked; the
  last one is in the other mode.
- What a call returned: two calls get it as an input of the same shape and dtype, up to sixteen if inputs are
  changed, such as the moments of an optimiser.
- Configurations of autotuned kernels: without a GPU, four at full size, sixteen with the numbers that kernels name, and
  each in one call, as far as ten seconds suffice; a note says how many are left. On a GPU it is the one that is timed.
"""


CLOCKS = """\
## The three clocks

On a GPU a candidate that passed is timed against the reference and against `torch.compile`, in pairs of random order
(`tools/race`). A shipped file has to meet the conditions of all three clocks, guard included:

| clock | what is read | a file is shipped if its speed-up over the reference |
|---|---|---|
| device time | the GPU's work on one call, with a cold L2 cache | has an interval above 1.02 |
| call latency | one call by the host's clock, from an idle GPU to an idle GPU | has an interval above 1.02 |
| back-to-back calls | 200 calls queued without waiting, host cost included, per call | has an interval from 1 on |

An interval is that of the speed-up's median, with 95% confidence. A call that takes at least 5 ms, and ten times as
long as queueing it, is timed once for device time and latency. If 200 calls would take longer than 30 ms, fewer are
queued. Back-to-back calls are measured only for files that may be shipped, since a candidate's tape has no
guard. If a file is not shipped, the message names the clocks that failed.
"""


def page() -> str:
    """Return the text of the page."""
    return "\n".join([HEAD, LINE, CLOCKS, *(_status(status) for status in Status), ""])


def _status(status: Status) -> str:
    lines = [f"## `{status}`", "", f"{MEANINGS[status][0].upper()}{MEANINGS[status][1:]}."]
    findings = [finding for finding in Finding if DECISIONS[finding].status is status]
    if findings:
        lines += ["", "| finding | means |", "|---|---|"]
        lines += [f"| `{finding}` | {DECISIONS[finding].means}{ALSO.get(finding, '')} |" for finding in findings]
    return "\n".join([*lines, ""])


def main() -> int:
    text = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    print(f"{PAGE} does not agree with tools/results.py; run python docs/make_verdicts.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
