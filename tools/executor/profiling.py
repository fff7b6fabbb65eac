"""The candidate's side of a profile: a few calls under torch's profiler, and which kernel took how long.

The first use of the profiler in a process costs seconds, so this is done on request only, after the verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

KERNELS_AT_MOST = 200
"""Names that are reported; a call with more kernels than that is told of as far as its slowest."""


def profile(call: Callable[[], object], calls: int) -> list[dict[str, Any]]:
    """Rows of `kernel`, `count` and `device_us` for all calls together, the slowest first."""
    call()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
    rows: dict[str, list[float]] = {}
    for event in profiler.events() or ():
        if event.device_type == torch._C._autograd.DeviceType.CUDA:
            row = rows.setdefault(event.name, [0, 0.0])
            row[0] += 1
            row[1] += event.time_range.elapsed_us()
    slowest = sorted(rows.items(), key=lambda item: -item[1][1])[:KERNELS_AT_MOST]
    return [{"kernel": name[:300], "count": int(count), "device_us": us} for name, (count, us) in slowest]
