"""Writes `docs/verdicts.md`, the decision table, from `DECISIONS`, so that the two cannot disagree.

python docs/make_verdicts.py            write it
python docs/make_verdicts.py --check    exit 1 if what is there is not what would be written
"""

from __future__ import annotations

import sys
from pathlib import Path

from triton_agent.tools.results import DECISIONS, Finding, Status

PAGE = Path(__file__).with_name("verdicts.md")

MEANINGS = {
    Status.PASSED: "right on every case, and by kernels of its own",
    Status.NO_ANSWER: "there is nothing to judge",
    Status.WRONG_VALUES: "it runs, and what it computes is not what the reference computes",
    Status.WRONG_SHAPE: "other outputs than the reference's in number, nesting or shape",
    Status.WRONG_DTYPE: "outputs of another type, or on another device",
    Status.COMPILE_ERROR: "it cannot be compiled",
    Status.RUNTIME_ERROR: "it raised, reached outside its tensors, or died",
    Status.TIMEOUT: "it took longer than it may",
    Status.OUT_OF_MEMORY: "it asked for more memory than it may",
    Status.CHEATED: "it interfered with the measurement, or reached for what no kernel file needs",
    Status.NOT_TRITON: "something else than its own Triton kernels does the work",
}

HEAD = """\
# Verdicts

<!-- Written by docs/make_verdicts.py from tools/results.py. Change it there. -->

Every candidate ends in exactly one status. Beneath it lies a finding, which says what was seen; each finding has one
status. *We could not measure* is neither: it is an `InstrumentError`, exit code 3, and says nothing about the kernel.
"""

LINE = """\
## Where the line is

A file may specialise to what a guard can check before a call: the constructor's arguments, the shapes, strides and
dtypes of the inputs, their plain values such as numbers and flags, training or evaluation mode, and the GPU. It may
choose kernels, tiles and grids by them, and fall back to others. It may not specialise to the values of tensors: no
guard can check those without reading them, and tomorrow's values differ from today's. These rules follow:

- Host code that reads values of a tensor is refused (`reads_values`). Kernels read them where they lie.
- What is prepared from parameters is prepared anew when they change, and what still uses an old value is
  `stale_parameter`.
- A call depends on its own inputs, on parameters and on buffers. What it takes from an earlier call's inputs is refused
  (`retained_input`); a workspace that each call begins anew is not.
- A number in the text that happens to fit the inputs as given (a scale, a range, a count of rows) meets other sizes,
  magnitudes, signs and orders, and ends as `values`, `non_finite` or `unwritten_output`. Inputs are also made equal to
  what the reference compares them with, rows begin or end with zeros, and inputs that share memory get memory of their
  own. At full size the inputs hold several magnitudes and signs at once. Parameters and buffers that a fresh module
  fills with one value get others.
- Own kernels do the larger part of the work, counted in bytes. What launches load without any effect on the answer does
  not count.
- Lower precision than the reference's is the user's choice (`--precision`, `--autocast`), never the file's:
  `precision`.
"""


CLOCKS = """\
## The three clocks

On a GPU what passed is timed against the reference, and against `torch.compile` beside it, in pairs of an order drawn
by chance (`tools/race`). A shipped file has to hold its own by all three clocks, guard included:

| clock | what is read | a file is shipped if its speed-up over the reference |
|---|---|---|
| device time | the GPU's work on one call, with a cold L2 cache | has an interval above 1.02 |
| call latency | one call by the host's clock, from an idle GPU to an idle GPU | has an interval above 1.02 |
| back-to-back calls | 200 calls queued without waiting, host cost included, per call | has an interval from 1 on |

Slow calls are queued for 30 ms instead. Back-to-back calls are read of files that may be shipped only: a candidate's
tape has no guard. Where a file is not shipped, the message names the clocks that spoke against it.
"""


def page() -> str:
    """The whole text."""
    return "\n".join([HEAD, LINE, CLOCKS, *(_status(status) for status in Status), ""])


def _status(status: Status) -> str:
    lines = [f"## `{status}`", "", f"{MEANINGS[status][0].upper()}{MEANINGS[status][1:]}."]
    findings = [finding for finding in Finding if DECISIONS[finding].status is status]
    if findings:
        lines += ["", "| finding | means |", "|---|---|"]
        lines += [f"| `{finding}` | {DECISIONS[finding].means} |" for finding in findings]
    return "\n".join([*lines, ""])


def main() -> int:
    text = page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    print(f"{PAGE} is not what tools/results.py says; run python docs/make_verdicts.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
