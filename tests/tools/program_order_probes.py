"""Kernels that depend, or seem to depend, on the order of programs. `test_program_order.py` runs them in a subprocess.

    TRITON_INTERPRET=1 python program_order_probes.py [probe ...]

prints one JSON object: for each probe whether it found what it promises, or the exception it met.
"""

import importlib.util
import inspect
import json
import sys
import threading
import time
from pathlib import Path

import torch
import triton
import triton.language as tl

from triton_agent.tools.emulate.interpreter import Deadlock, KernelError, OutOfBounds, install

TESTS = Path(__file__).parents[1]
INTERPRETER = install("cuda:90")
PROBES = {}
HONEST = (
    *("sum_under_a_lock", "split_k_in_turn", "last_program_finishes", "persistent_kernel", "split_k_atomics"),
    *("partial_products_kept", "partials_summed_by_torch", "in_place_on_a_clone", "atomic_reduction"),
    "workspaces_in_turns",
)


def probe(function):
    PROBES[function.__name__] = function
    return function


def launched(seed, launch):
    """Return the record of one launch with this seed."""
    INTERPRETER.launches.clear()
    INTERPRETER.order_seed = seed
    launch()
    (record,) = INTERPRETER.launches
    return record


def caught(kind, launch, seed):
    INTERPRETER.order_seed = seed
    try:
        launch()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised")


def threads_of_launches():
    return [thread.name for thread in threading.enumerate() if "_live" in thread.name]


# --- order


@triton.jit
def stamp_kernel(clock_ptr, begin_ptr, end_ptr, x_ptr):
    program = (tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)) * tl.num_programs(2) + tl.program_id(2)
    tl.store(begin_ptr + program, tl.atomic_add(clock_ptr, 1))
    tl.store(x_ptr + program, tl.load(x_ptr + program) + 1)
    tl.store(end_ptr + program, tl.atomic_add(clock_ptr, 1))


def stamps(seed, grid=(5, 3, 2)):
    clock, begin, end, x = (torch.zeros(size, dtype=torch.int32) for size in (1, 30, 30, 30))
    launched(seed, lambda: stamp_kernel[grid](clock, begin, end, x))
    assert x.tolist() == [1] * 30, "a program did not run once"
    return begin.tolist(), end.tolist()


@probe
def without_a_seed_programs_run_one_after_another():
    begin, end = stamps(None)
    return begin == list(range(0, 60, 2)) and end == list(range(1, 60, 2))


@probe
def with_a_seed_the_order_is_random():
    begin, _ = stamps(2)
    order = sorted(range(30), key=begin.__getitem__)
    return order != sorted(order) and sorted(order[:15]) != list(range(15))


@probe
def with_a_seed_programs_are_interleaved():
    begin, end = stamps(2)
    under_way = [sum(b <= now < e for b, e in zip(begin, end)) for now in range(60)]
    return 3 <= max(under_way) <= 8 or under_way


@probe
def a_seed_repeats_its_order():
    return stamps(7) == stamps(7) and stamps(7) != stamps(8)


@probe
def some_seeds_give_the_order_of_the_grid():
    in_order = [stamps(seed, (30, 1, 1)) == stamps(None, (30, 1, 1)) for seed in range(24)]
    return 2 <= sum(in_order) <= 12 or in_order


@probe
def later_launches_have_orders_of_their_own():
    first = stamps(7)
    INTERPRETER.order_seed = 7
    clock, begin, end, x = (torch.zeros(size, dtype=torch.int32) for size in (1, 30, 30, 30))
    for _ in range(2):
        for tensor in (clock, begin, end):
            tensor.zero_()
        stamp_kernel[(5, 3, 2)](clock, begin, end, x)
    return (begin.tolist(), end.tolist()) != first


# --- races


@triton.jit
def shift_kernel(from_ptr, to_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(to_ptr + at, tl.load(from_ptr + at + 1, mask=at + 1 < n, other=0.0), mask=at < n)


@probe
def shifting_in_place_is_a_race_in_any_order():
    found = []
    for seed in (None, 0, 1, 2):
        x = torch.arange(100.0)
        found.append(launched(seed, lambda x=x: shift_kernel[(7,)](x, x, 100, BLOCK=16)))
    return all(set(launch.read_beside_stores) & {"from_ptr", "to_ptr"} for launch in found)


@probe
def shifting_into_other_memory_is_none():
    x, out = torch.arange(100.0), torch.empty(100)
    found = [launched(seed, lambda: shift_kernel[(7,)](x, out, 100, BLOCK=16)) for seed in (None, 0, 1)]
    return all(launch.read_beside_stores == launch.contested == () for launch in found)


@triton.jit
def double_kernel(x_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, 2 * BLOCK)
    mine = (at < n) & (at < (tl.program_id(0) + 1) * BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at, mask=mine) * 2, mask=mine)
    tl.store(x_ptr + at, tl.load(x_ptr + at, mask=mine) + 1, mask=mine)


@probe
def own_elements_in_place_are_no_race():
    for seed in (None, 0, 1, 2):
        x = torch.arange(100.0)
        launch = launched(seed, lambda x=x: double_kernel[(7,)](x, 100, BLOCK=16))
        if launch.read_beside_stores or launch.contested or not torch.equal(x, torch.arange(100.0) * 2 + 1):
            return f"{seed}: {launch}"
    return True


@triton.jit
def agreed_kernel(x_ptr, scratch_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(scratch_ptr, tl.sum(tl.load(x_ptr + at, mask=at < n, other=0.0), 0))
    tl.store(out_ptr + tl.program_id(0), tl.load(scratch_ptr))


@probe
def equal_values_stored_by_all_are_no_race():
    found = []
    for seed in (None, 0, 1, 2):
        scratch, out = torch.zeros(1), torch.zeros(12)
        found.append(launched(seed, lambda s=scratch, o=out: agreed_kernel[(12,)](torch.ones(10), s, o, 10, BLOCK=16)))
    return all(launch.contested == launch.read_beside_stores == () for launch in found) or str(found)


@triton.jit
def first_prepares_kernel(x_ptr, scale_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if tl.program_id(0) == 0:
        tl.store(scale_ptr, tl.sum(tl.load(x_ptr + at), 0))
    tl.store(out_ptr + at, tl.load(x_ptr + at) * tl.load(scale_ptr))


@probe
def relying_on_the_first_program_goes_wrong_and_is_a_race():
    x, want = torch.ones(12 * 16), torch.full((12 * 16,), 16.0)
    right, raced = {}, []
    for seed in (None, 0, 2, 5):
        scale, out = torch.zeros(1), torch.empty(12 * 16)
        launch = launched(seed, lambda s=scale, o=out: first_prepares_kernel[(12,)](x, s, o, BLOCK=16))
        right[seed] = torch.equal(out, want)
        raced.append(launch.read_beside_stores)
    return (right.pop(None) and not any(right.values()) and set(raced) == {("scale_ptr",)}) or f"{right} {raced}"


# --- programs that wait


@triton.jit
def lock_kernel(lock_ptr, total_ptr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(total_ptr, tl.load(total_ptr) + tl.program_id(0))
    tl.atomic_xchg(lock_ptr, 0)


@probe
def a_lock_works_under_any_seed():
    for seed in range(20):
        lock, total = torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
        launch = launched(seed, lambda at=lock, t=total: lock_kernel[(20,)](at, t))
        if total.item() != sum(range(20)) or launch.contested or launch.read_beside_stores:
            return f"seed {seed}: {total.item()} {launch}"
    return True


@triton.jit
def in_turn_kernel(turn_ptr, x_ptr, BY_LOADS: tl.constexpr):
    program = tl.program_id(0)
    if BY_LOADS:
        while tl.load(turn_ptr, volatile=True) != program:
            pass
    else:
        while tl.atomic_add(turn_ptr, 0) != program:
            pass
    tl.store(x_ptr + program, tl.load(x_ptr + program - 1, mask=program > 0, other=0) + program)
    tl.atomic_add(turn_ptr, 1)


@probe
def programs_that_wait_for_earlier_ones_finish_under_any_seed():
    """There are more programs than run at once, so programs that wait must not keep earlier ones from starting."""
    want = torch.arange(40).cumsum(0).int()
    for seed in range(20):
        turn, x = torch.zeros(1, dtype=torch.int32), torch.zeros(40, dtype=torch.int32)
        launched(seed, lambda t=turn, x=x, s=seed: in_turn_kernel[(40,)](t, x, s % 2 == 0))
        if not torch.equal(x, want):
            return f"seed {seed}: {x.tolist()}"
    return True


@triton.jit
def barrier_kernel(count_ptr, x_ptr, out_ptr):
    program, programs = tl.program_id(0), tl.num_programs(0)
    tl.store(x_ptr + program, program * 3)
    tl.atomic_add(count_ptr, 1)
    while tl.atomic_add(count_ptr, 0) < programs:
        pass
    tl.store(out_ptr + program, tl.load(x_ptr + (program + 1) % programs))


@probe
def a_barrier_works_for_as_many_programs_as_multiprocessors():
    count, x, out = (torch.zeros(size, dtype=torch.int32) for size in (1, 132, 132))
    launched(3, lambda: barrier_kernel[(132,)](count, x, out))
    return out.tolist() == [(i + 1) % 132 * 3 for i in range(132)] and threads_of_launches() == []


@triton.jit
def last_prepares_kernel(flag_ptr, out_ptr, BY_LOADS: tl.constexpr):
    program = tl.program_id(0)
    if program == tl.num_programs(0) - 1:
        tl.atomic_xchg(flag_ptr, 1)
    elif BY_LOADS:
        while tl.load(flag_ptr) == 0:
            pass
    else:
        while tl.atomic_add(flag_ptr, 0) == 0:
            pass
    tl.store(out_ptr + program, program)


def waiting_for_the_last(by_loads):
    """The seed must be one that does not start the last program among the first."""
    programs, start = 100_000, time.process_time()
    flag, out = torch.zeros(1, dtype=torch.int32), torch.zeros(programs, dtype=torch.int32)
    error = caught(Deadlock, lambda: last_prepares_kernel[(programs,)](flag, out, by_loads), seed=1)
    took_s = time.process_time() - start
    said = str(error)
    return (
        took_s < 5
        and said.startswith(f"last_prepares_kernel line {error.line}: deadlock: programs wait for a program that was")
        and "while" in inspect.getsource(last_prepares_kernel.fn).splitlines()[error.line - first_line()]
        and threads_of_launches() == []
    ) or f"{took_s:.1f} s: {said}"


def first_line():
    return inspect.getsourcelines(last_prepares_kernel.fn)[1]


@probe
def waiting_for_a_program_that_cannot_start_is_a_deadlock():
    return waiting_for_the_last(False)


@probe
def waiting_so_by_plain_loads_is_one_too():
    return waiting_for_the_last(True)


@triton.jit
def crossed_kernel(flags_ptr):
    program = tl.program_id(0)
    while tl.atomic_add(flags_ptr + 1 - program, 0) == 0:
        pass
    tl.atomic_xchg(flags_ptr + program, 1)


@probe
def waiting_for_each_other_is_a_deadlock():
    error = caught(Deadlock, lambda: crossed_kernel[(2,)](torch.zeros(2, dtype=torch.int32)), seed=0)
    return "wait for each other" in str(error) or str(error)


@triton.jit
def reread_kernel(x_ptr, out_ptr, rounds, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(rounds):
        total += tl.load(x_ptr + at)
    tl.store(out_ptr + at, total)


@probe
def reading_the_same_over_and_over_is_not_waiting():
    x, out = torch.ones(20 * 16), torch.zeros(20 * 16)
    launched(0, lambda: reread_kernel[(20,)](x, out, 100, BLOCK=16))
    return out.unique().tolist() == [100.0]


# --- failures, threads and what kernels do through torch


@triton.jit
def one_fails_kernel(x_ptr, wrong):
    program = tl.program_id(0)
    tl.store(x_ptr + program, tl.load(x_ptr + program) + 1)
    if program == wrong:
        tl.store(x_ptr + 1000, 0.0)
    tl.store(x_ptr + program, tl.load(x_ptr + program) + 1)


@probe
def the_first_error_ends_the_launch():
    for seed in range(5):
        INTERPRETER.faults.clear()
        x = torch.zeros(30)
        error = caught(OutOfBounds, lambda x=x: one_fails_kernel[(30,)](x, 17), seed)
        if not str(error).endswith("program (17, 0, 0)") or INTERPRETER.faults != [error] or threads_of_launches():
            return f"seed {seed}: {error} {INTERPRETER.faults} {threads_of_launches()}"
    return stamps(3) == stamps(3)


@triton.jit
def refused_kernel(x_ptr):
    tl.store(x_ptr + tl.program_id(0), tl.zeros((2,), tl.float32) + tl.zeros((4,), tl.float32))


@probe
def an_error_names_kernel_and_line():
    error = caught(KernelError, lambda: refused_kernel[(30,)](torch.zeros(30)), seed=2)
    line = inspect.getsourcelines(refused_kernel.fn)[1] + 2
    return str(error).startswith(f"refused_kernel line {line}: ValueError") or str(error)


@probe
def no_thread_stays_without_a_seed():
    stamps(1)
    INTERPRETER.order_seed = None
    return threading.active_count() == 1 or [thread.name for thread in threading.enumerate()]


# --- honest kernels


def module_at(path):
    spec = importlib.util.spec_from_file_location(f"loaded_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def is_right_in_any_order(name):
    path = TESTS / "honest" / f"{name}.py"
    problem = path.read_text().partition("problem: ")[2].split()[0]
    given, candidate = module_at(TESTS / "cheats" / "problems" / f"{problem}.py"), module_at(path)
    torch.manual_seed(0)
    reference = given.Model(*given.get_init_inputs())
    model = candidate.ModelNew(*given.get_init_inputs())
    model.load_state_dict(reference.state_dict(), strict=False)
    inputs = given.get_inputs()
    want = reference(*(each.clone() for each in inputs))
    for seed in range(5):
        INTERPRETER.launches.clear()
        INTERPRETER.order_seed = seed
        got = model(*(each.clone() for each in inputs))
        if not torch.allclose(got.float(), want.float(), rtol=1e-2, atol=1e-2):
            return f"wrong under seed {seed}"
        for launch in INTERPRETER.launches:
            if launch.contested or launch.read_beside_stores:
                return f"a race under seed {seed}: {launch}"
    return bool(INTERPRETER.launches)


def main():
    for name in HONEST:
        PROBES[f"honest_{name}"] = lambda name=name: is_right_in_any_order(name)
    results = {}
    for name in sys.argv[1:] or list(PROBES):
        try:
            results[name] = PROBES[name]()
        except Exception as error:
            results[name] = f"{type(error).__name__}: {error}"
        print(name, results[name], f"{time.process_time():.1f} s", file=sys.stderr)
    INTERPRETER.order_seed = None
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
