"""Runs the programs of kernels in lockstep and then one by one, started by `test_lockstep.py` in a separate process.

    TRITON_INTERPRET=1 python lockstep_probes.py [probe or file ...]

prints one JSON object: for each probe whether it found what it promises, or the exception it met; for each file of
kernels what differed (nothing, it is hoped), and how many of its launches ran together.
"""

import contextlib
import importlib.util
import json
import sys
import time
from pathlib import Path

import torch
import triton
import triton.language as tl

from triton_agent.tools.emulate.interpreter import Deadlock, EmulationError, install

TESTS = Path(__file__).parents[1]
INTERPRETER = install("cuda:90")
TOGETHER = INTERPRETER._ran_together
PROBES = {}
RECORDED = ("kernel", "programs", "bytes_loaded", "bytes_stored", "contested", "read_beside_stores")
ROWS_AT_MOST = 256
"""Problems with more rows get this many: each row is a program, and one after another thousands take ten seconds."""
LEFT_OUT = {
    "looked_up_through_another_launch": "takes most of a minute one by one, more than all others together",
    "wrong_endless_host_loop": "does not end",
    "table_of_pointers": "needs its tensors revealed, as the executor does it",
}


def probe(function):
    PROBES[function.__name__] = function
    return function


class Tried:
    """Wraps the interpreter's attempt to run programs in lockstep, and counts attempts and successes."""

    def __init__(self, allowed):
        self.allowed, self.successes, self.failures = allowed, 0, 0

    def __call__(self, *args):
        done = self.allowed and TOGETHER(*args)
        self.successes += done
        self.failures += not done
        return done


def outcome(run, *, together):
    """Return what a run gave: the bits of its tensors or its fault, and the records of its launches."""
    INTERPRETER.launches.clear()
    INTERPRETER.faults.clear()
    INTERPRETER._one_by_one.clear()
    INTERPRETER._ran_together = tried = Tried(together)
    INTERPRETER.order_seed = None
    try:
        found = [(str(each.dtype), each.shape, each.stride(), bits(each)) for each in tensors_in(run())]
    except EmulationError as error:
        found = f"{type(error).__name__}: {error}"
    records = [[getattr(record, name) for name in RECORDED] + [len(record.written)] for record in INTERPRETER.launches]
    return found, records, tried


def bits(tensor):
    return tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        return [value]
    values = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return [tensor for each in values for tensor in tensors_in(each)]


def differences(make_run):
    """Compare running in lockstep with one by one; also return how many launches ran in lockstep and how many not."""
    found, records, tried = outcome(make_run(), together=True)
    want, wanted_records, _ = outcome(make_run(), together=False)
    told = []
    if found != want:
        told.append("outcome" if isinstance(want, list) and isinstance(found, list) else f"{found} and {want}")
    if records != wanted_records:
        told.append(f"records {records} and {wanted_records}")
    return told, tried.successes, tried.failures


# --- files of kernels


def module_at(path):
    spec = importlib.util.spec_from_file_location(f"loaded_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def problem_of(path):
    if path.parent.parent.name == "kernels":
        return path.with_name("problem.py")
    return TESTS / "cheats" / "problems" / f"{path.read_text().partition('problem: ')[2].split()[0]}.py"


def differences_of_file(path):
    given = module_at(problem_of(path))
    if hasattr(given, "ROWS"):
        given.ROWS = min(given.ROWS, ROWS_AT_MOST)
    torch.manual_seed(0)
    reference = given.Model(*given.get_init_inputs())
    inputs = given.get_inputs()

    def make_run():
        torch.manual_seed(1)
        candidate = module_at(path)  # anew, since autotuners remember
        model = candidate.ModelNew(*given.get_init_inputs())
        model.load_state_dict(reference.state_dict(), strict=False)
        own = [each.clone() if isinstance(each, torch.Tensor) else each for each in inputs]
        return lambda: [model(*own), own, model.state_dict()]

    return differences(make_run)


# --- programs that meet, part, or fail


@triton.jit
def scaled_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n, other=0.0) * 2, mask=at < n)


@probe
def programs_that_do_not_meet_run_together():
    x = torch.randn(1000)
    out = torch.empty(1000)
    told, together, apart = differences(lambda: lambda: scaled_kernel[(16,)](x, out, 1000, BLOCK=64) or out.clone())
    return (not told and together == 1 and apart == 0) or [told, together, apart]


@triton.jit
def shifted_kernel(x_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at + 1) + 1)


@triton.jit
def last_wins_kernel(x_ptr):
    tl.store(x_ptr + tl.program_id(0) % 3, tl.program_id(0))


@triton.jit
def all_store_kernel(x_ptr):
    tl.store(x_ptr, 1)


@triton.jit
def two_widths_kernel(x_ptr):
    tl.store(x_ptr + tl.program_id(0), 1)
    halves = x_ptr.to(tl.pointer_type(tl.int16))
    tl.store(x_ptr + 8 + tl.program_id(0), tl.load(halves + tl.program_id(0) + 1).to(tl.int32))


@triton.jit
def counted_kernel(x_ptr):
    tl.store(x_ptr + 1 + tl.program_id(0), tl.atomic_add(x_ptr, 1))


@triton.jit
def volatile_kernel(x_ptr):
    tl.store(x_ptr + 1 + tl.program_id(0), tl.load(x_ptr, volatile=True))


@triton.jit
def by_address_kernel(x_ptr, address):
    other = address.to(tl.pointer_type(tl.int32))
    tl.store(x_ptr + tl.program_id(0), tl.load(other + 20 - tl.program_id(0)))


def meeting(launch):
    """Return True if a launch that cannot run in lockstep fell back to one by one, without traces of earlier stores."""

    def make_run():
        x = torch.arange(64, dtype=torch.int32)
        return lambda: launch(x) or x

    told, together, apart = differences(make_run)
    return (not told and together == 0 and apart == 1) or [told, together, apart]


@probe
def programs_that_read_what_others_store_run_one_by_one():
    return meeting(lambda x: shifted_kernel[(7,)](x, BLOCK=8))


@probe
def programs_that_store_to_one_place_run_one_by_one():
    found = meeting(lambda x: last_wins_kernel[(7,)](x))
    return found if found is not True else meeting(lambda x: all_store_kernel[(7,)](x))


@probe
def elements_of_two_sizes_run_one_by_one():
    return meeting(lambda x: two_widths_kernel[(7,)](x))


@probe
def atomics_run_one_by_one():
    return meeting(lambda x: counted_kernel[(7,)](x))


@probe
def volatile_loads_run_one_by_one():
    return meeting(lambda x: volatile_kernel[(7,)](x))


@probe
def pointers_of_unknown_origin_run_one_by_one():
    return meeting(lambda x: by_address_kernel[(7,)](x, x.data_ptr()))


@triton.jit
def branching_kernel(x_ptr, limit):
    program = tl.program_id(0)
    tl.store(x_ptr + program, 100)
    if program < limit:
        tl.store(x_ptr + 32 + program, program)
    else:
        tl.store(x_ptr + 32 + program, -program)


@triton.jit
def triangular_kernel(x_ptr):
    total = tl.load(x_ptr + tl.program_id(0))
    for number in range(tl.program_id(0) // 4 + 1):
        total += number
        tl.store(x_ptr + tl.program_id(0), total)
    left = tl.program_id(0) // 8
    while left > 0:
        total += left * 100
        left -= 1
    tl.store(x_ptr + tl.program_id(0), total)


def parting(launch):
    def make_run():
        x = torch.arange(64, dtype=torch.int32)
        return lambda: launch(x) or x

    told, together, apart = differences(make_run)
    return (not told and together == 1 and apart == 0) or [told, together, apart]


@probe
def programs_that_branch_run_in_groups():
    return parting(lambda x: branching_kernel[(16,)](x, 5))


@probe
def programs_that_loop_differently_run_in_groups():
    return parting(lambda x: triangular_kernel[(32,)](x))


@triton.jit
def meeting_across_groups_kernel(x_ptr):
    program = tl.program_id(0)
    if program % 2 == 0:
        tl.store(x_ptr + program + 1, 7)
    else:
        tl.store(x_ptr + program + 32, tl.load(x_ptr + program))


@probe
def groups_that_meet_run_one_by_one():
    return meeting(lambda x: meeting_across_groups_kernel[(16,)](x))


@triton.jit
def large_blocks_kernel(x_ptr, out_ptr, N: tl.constexpr):
    row = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    at = tl.program_id(0) * N * N + row
    tl.store(out_ptr + at, tl.load(x_ptr + at) + 1)


@probe
def few_programs_with_large_blocks_run_at_once():
    def make_run():
        x, out = torch.arange(12 * 256 * 256.0), torch.empty(12, 256, 256)
        return lambda: large_blocks_kernel[(12,)](x, out, N=256) or out

    told, together, apart = differences(make_run)
    return (not told and together == 1 and apart == 0) or [told, together, apart]


@triton.jit
def one_fails_kernel(x_ptr, wrong):
    program = tl.program_id(0)
    tl.store(x_ptr + program, tl.load(x_ptr + program) + 1)
    tl.store(x_ptr + program + tl.where(program == wrong, 1000, 0), 5)


@probe
def a_fault_is_that_of_its_program():
    x, y = torch.arange(64, dtype=torch.int32), torch.arange(64, dtype=torch.int32)
    got, _, tried = outcome(lambda: one_fails_kernel[(20,)](x, 11), together=True)
    want, _, _ = outcome(lambda: one_fails_kernel[(20,)](y, 11), together=False)
    is_same = got == want and "program (11, 0, 0)" in got and torch.equal(x, y)
    return (is_same and tried.failures == 1) or [got, want]


@triton.jit
def waiting_kernel(x_ptr):
    while tl.load(x_ptr) == 0:
        pass
    tl.store(x_ptr, 1)


@probe
def waiting_for_what_nobody_stores_is_a_deadlock():
    INTERPRETER._ran_together = TOGETHER
    INTERPRETER.order_seed = 1
    try:
        waiting_kernel[(20,)](torch.zeros(1, dtype=torch.int32))
    except Deadlock:
        return True
    finally:
        INTERPRETER.order_seed = None
    return False


@triton.jit
def values_kernel(x_ptr, out_ptr, N: tl.constexpr):
    program, lanes = tl.program_id(0), tl.arange(0, N)
    x = tl.load(x_ptr + program * N + lanes)
    square = tl.reshape(x, (4, N // 4))
    tl.store(out_ptr + program * 8 + 0, tl.sum(x, axis=0))
    tl.store(out_ptr + program * 8 + 1, tl.max(tl.sum(tl.trans(square), axis=0), axis=0))
    tl.store(out_ptr + program * 8 + 2, tl.sum(tl.cumsum(square, axis=1) * tl.arange(0, 4)[:, None]))
    left, right = tl.split(tl.join(x, x + program))
    tl.store(out_ptr + program * 8 + 3, tl.max(left * right, axis=0))
    tl.store(out_ptr + program * 8 + 4, tl.sum(tl.sort(x) * lanes, axis=0))
    tl.store(out_ptr + program * 8 + 5, tl.sum(tl.gather(x, (lanes + program) % N, axis=0) * lanes, axis=0))
    counts = tl.histogram((x * 2).to(tl.int32) + program, 8)
    tl.store(out_ptr + program * 8 + 6, tl.sum(counts * tl.arange(0, 8), axis=0))
    tl.store(out_ptr + program * 8 + 7, tl.argmax(x, axis=0) + tl.rand(5, program))


@probe
def operations_on_whole_blocks_know_their_program():
    def make_run():
        x, out = torch.randn(9, 32, generator=torch.Generator().manual_seed(3)), torch.empty(9, 8)
        return lambda: values_kernel[(9,)](x, out, N=32) or out

    told, together, apart = differences(make_run)
    return (not told and together == 1) or [told, together, apart, *map(str, INTERPRETER.faults)]


@triton.jit
def blocks_by_pointer_kernel(x_ptr, out_ptr, m, n, M: tl.constexpr, N: tl.constexpr):
    source = tl.make_block_ptr(x_ptr, (m, n), (n, 1), (tl.program_id(0) * M, 0), (M, N), (1, 0))
    target = tl.make_tensor_descriptor(out_ptr, (m, n), (n, 1), (M, N))
    for start in range(0, n, N):
        block = tl.load(source, boundary_check=(0, 1), padding_option="zero")
        target.store([tl.program_id(0) * M, start], block * 2)
        source = tl.advance(source, (0, N))


@probe
def block_pointers_and_descriptors_run_together():
    def make_run():
        x, out = torch.arange(30 * 20.0).view(30, 20), torch.zeros(30, 20)
        return lambda: blocks_by_pointer_kernel[(8,)](x, out, 30, 20, M=4, N=16) or out

    told, together, apart = differences(make_run)
    return (not told and together == 1) or [told, together, apart, *map(str, INTERPRETER.faults)]


def main():
    # Fresh memory is the same in both runs. The public function would import torch's compiler as well, which takes 1 s.
    torch._C._set_deterministic_algorithms(True, warn_only=True)
    files = [*TESTS.glob("kernels/*/right_*.py"), *TESTS.glob("kernels/*/wrong_*.py"), *TESTS.glob("honest/*.py")]
    chosen = sys.argv[1:]
    results = {"probes": {}, "files": {}}
    for name in PROBES if not chosen else PROBES.keys() & set(chosen):
        try:
            results["probes"][name] = PROBES[name]()
        except Exception as error:
            results["probes"][name] = f"{type(error).__name__}: {error}"
    for path in sorted(files):
        name = path.relative_to(TESTS).as_posix()
        if path.stem in LEFT_OUT or (chosen and name not in chosen):
            continue
        try:
            with contextlib.redirect_stdout(sys.stderr):
                results["files"][name] = differences_of_file(path)
        except Exception as error:  # a file that needs the evaluator's arrangements, or fails before its kernels
            results["files"][name] = f"{type(error).__name__}: {str(error)[:200]}"
        print(name, results["files"][name], f"{time.process_time():.1f} s", file=sys.stderr)
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
