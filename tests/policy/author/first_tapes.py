"""Checks which of the built-in author's first files for the suite leave a tape, without a GPU.

    PYTHONPATH=src:. python -m tests.policy.author.first_tapes --target cuda:90

For each problem of `benchmarks/problems` this writes the first file, traces it at full size in both modes of a module,
and checks its kernels against the kernel language. It prints the share with a tape, and the reason for each file
without one.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.policy.author.briefs import full_size_brief, on_target
from tests.tools.tape.tracing_process import Traced, traced

from triton_agent.policy.author.decisions import first_choice
from triton_agent.policy.author.writer import write
from triton_agent.tools.kernels.kernel import NotKernelLanguage
from triton_agent.tools.kernels.language import check
from triton_agent.tools.problem.problem import parse_problem
from triton_agent.tools.processes.tensors import Malformed

SUITE = Path(__file__).parents[3] / "benchmarks" / "problems"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cuda:90", help="write the files for this GPU")
    parser.add_argument("--only", default="", help="take only problems whose path holds this text")
    options = parser.parse_args()
    requests, unwritten = {}, []
    for path in sorted(SUITE.glob("*/*.py")):
        name = f"{path.parent.name}/{path.stem}"
        if options.only not in name:
            continue
        try:
            brief = on_target(full_size_brief(parse_problem(str(path))), options.target)
            source = write(brief, first_choice(brief)).source
        except Exception as error:
            unwritten.append(f"{name}: no first file: {type(error).__name__}: {error}")
            continue
        for mode in ("eval", "train"):
            asked = {"source": source, "problem": str(path), "train": mode == "train", "target": options.target}
            requests[f"{name} {mode}"] = asked
    replies = traced(requests) if requests else {}
    failures = [f"{name}: {why}" for name, found in replies.items() if (why := fault_of(found))]
    print("\n".join([*unwritten, *failures]))
    taped = len(requests) - len(failures)
    print(f"{taped} of {len(requests)} first files leave a tape ({taped / max(1, len(requests)):.1%})")


def fault_of(found: Traced) -> str:
    """Return why the file has no tape, or "" if it has one."""
    if "tape" not in found.reply:
        raised = found.reply.get("raised", found.reply)
        return f"{raised.get('ending') or raised.get('kind')}: {raised.get('text', raised)}"
    try:
        check(found.kernels)
    except (Malformed, NotKernelLanguage) as error:
        return str(error)
    return ""


if __name__ == "__main__":
    main()
