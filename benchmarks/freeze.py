"""Writes the manifest of each part of the benchmark suite: hash and main arithmetic of every problem.

    python benchmarks/freeze.py                 look at new and changed problems, write the manifest of every part
    python benchmarks/freeze.py --part large    of one part only
    python benchmarks/freeze.py --check         change nothing; exit 1 where files and manifest differ; needs no torch

The dominant kind of work and the dtype of a problem are found by calling it on tensors without contents, at full size.
Quick problems are chosen by hand: `quick = true` in the manifest is kept. A frozen suite that changes is another suite.
"""

from __future__ import annotations

import argparse
import collections
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from triton_agent.runs.bench.suite import (
    MANIFEST,
    PARTS,
    Dominant,
    SuiteProblem,
    digest_of,
    drift,
    folder_of,
    hash_of,
    load_suite,
    problem_files,
    read_manifest,
)
from triton_agent.tools.errors import TritonAgentError, UsageError

if TYPE_CHECKING:
    import torch

    from triton_agent.tools.graph.graph import OperatorGraph

HEAD = """\
# The benchmark suite as it was frozen. Written by benchmarks/freeze.py, all but `quick`, which is chosen by hand.
"""

PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "addbmm", "addmv", "mv", "dot", "lstm", "gru", "gru_cell", "lstm_cell")
"""Operators that count as matrix products."""
BATCHED = ("bmm", "baddbmm")
"""Beside a softmax these are attention, written as products."""


def main() -> int:
    """Freeze the parts, or check that they are as frozen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say what differs from the manifest")
    parser.add_argument("--part", choices=PARTS, help="one part of the suite (default: all)")
    parser.add_argument("--folder", type=Path, help="a folder elsewhere in place of a part")
    options = parser.parse_args()
    folders = (
        [options.folder] if options.folder else [folder_of(options.part)] if options.part else map(folder_of, PARTS)
    )
    try:
        return max(check(folder) if options.check else freeze(folder) for folder in folders)
    except TritonAgentError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def check(folder: Path) -> int:
    """Return 0 if every file is the frozen one."""
    changes = drift(read_manifest(folder))
    for change in changes:
        print(change)
    if not changes:
        suite = load_suite(folder)
        print(f"{len(suite.problems)} problems as frozen, digest {suite.digest}")
    return 1 if changes else 0


def freeze(folder: Path) -> int:
    """Write the manifest; entries of unchanged files are kept."""
    before = {problem.key: problem for problem in _manifest_if_any(folder)}
    problems = [_frozen(key, path, before.get(key)) for key, path in problem_files(folder).items()]
    if not problems:
        raise UsageError("holds no problems", where=str(folder), remedy="they lie in it as family/name.py")
    (folder / MANIFEST).write_text(manifest_text(problems), encoding="utf-8")
    changed = sum(before.get(problem.key) != problem for problem in problems)
    gone = len(before.keys() - {problem.key for problem in problems})
    print(f"{len(problems)} problems, {changed} new or changed, {gone} gone, digest {digest_of(problems)}")
    return 0


def _manifest_if_any(folder: Path) -> tuple[SuiteProblem, ...]:
    return read_manifest(folder).problems if (folder / MANIFEST).exists() else ()


def _frozen(key: str, path: Path, known: SuiteProblem | None) -> SuiteProblem:
    sha256 = hash_of(path)
    if known is not None and known.sha256 == sha256:
        return known
    print(f"looking at {key}")
    dominant, dtype = traits(path)
    quick = known is not None and known.quick
    return SuiteProblem(key=key, path=path, dominant=dominant, dtype=dtype, quick=quick, sha256=sha256)


def manifest_text(problems: Iterable[SuiteProblem]) -> str:
    """Return the manifest, with a line for each problem."""
    problems = sorted(problems, key=lambda problem: problem.key)
    lines = [HEAD, f'digest = "{digest_of(problems)}"', "", "[problems]"]
    for problem in problems:
        quick = "true" if problem.quick else "false"
        traits = f'dominant = "{problem.dominant}", dtype = "{problem.dtype}", quick = {quick}'
        lines.append(f'"{problem.key}" = {{ {traits}, sha256 = "{problem.sha256}" }}')
    return "\n".join(lines) + "\n"


def traits(path: Path) -> tuple[Dominant, str]:
    """Return the dominant kind of work of a problem, and the dtype of most of its data."""
    import torch

    from triton_agent.tools.graph.recorder import extract
    from triton_agent.tools.problem.problem import parse_problem
    from triton_agent.tools.reference.reference import load

    reference = load(parse_problem(str(path)))
    with torch.device("meta"):
        model, inputs = reference.make_model(0), reference.make_inputs(0)
        graph = extract(model, inputs)
    given = [value for value in inputs if isinstance(value, torch.Tensor)]
    return dominant_of(graph), _main_dtype([*given, *model.parameters()]) or _main_dtype(model.buffers()) or "none"


def dominant_of(graph: OperatorGraph) -> Dominant:
    """Return the kind of product that has most of the arithmetic, if that is the larger part of it."""
    from triton_agent.tools.graph.flops import flops_of

    flops: collections.Counter[Dominant] = collections.Counter()
    values = graph.values()
    names = [node.operator.removeprefix("aten.") for node in graph.nodes]
    softmax = any("softmax" in name for name in names)
    for name, node in zip(names, graph.nodes):
        for part in flops_of(node, values):
            is_product = not part.unit.startswith("vector")
            flops[_kind(name, softmax) if is_product else Dominant.MEMORY] += part.flops
    rest = flops.pop(Dominant.MEMORY, 0)
    return max(flops, key=flops.__getitem__) if flops.total() > rest else Dominant.MEMORY


def _kind(name: str, beside_softmax: bool) -> Dominant:
    if "attention" in name or (beside_softmax and name in BATCHED):
        return Dominant.ATTENTION
    if "conv" in name:
        return Dominant.CONV
    return Dominant.GEMM if name in PRODUCTS else Dominant.MEMORY


def _main_dtype(tensors: Iterable[torch.Tensor]) -> str:
    """Return the floating dtype of most elements; empty if there is none."""
    elements: collections.Counter[str] = collections.Counter()
    for tensor in tensors:
        if tensor.is_floating_point():
            elements[str(tensor.dtype).removeprefix("torch.")] += tensor.numel()
    return max(elements, key=elements.__getitem__) if elements else ""


if __name__ == "__main__":
    sys.exit(main())
