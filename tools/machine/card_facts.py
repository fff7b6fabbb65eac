"""Properties of the GPU as shown to traced host code, named as in `torch.cuda.get_device_properties`."""

from __future__ import annotations

from typing import Any

from triton_agent.tools.compile.targets import KIB, REGISTER_FILE, Target

_MEMORY_BYTES = 80 * KIB**3
_L2_BYTES = 50 * KIB**2
"""Sizes of an H100, used for every target: host code rarely depends on them."""
_ASKED = (
    *("name", "major", "minor", "multi_processor_count", "total_memory", "L2_cache_size", "warp_size"),
    *("regs_per_multiprocessor", "max_threads_per_multi_processor", "shared_memory_per_block"),
    *("shared_memory_per_block_optin", "shared_memory_per_multiprocessor"),
)


def facts_of_target(target: Target) -> dict[str, Any]:
    """Return the properties of the card that represents a target."""
    major, minor = target.capability
    return {
        "name": target.card,
        "major": major,
        "minor": minor,
        "multi_processor_count": target.multiprocessors,
        "total_memory": _MEMORY_BYTES,
        "L2_cache_size": _L2_BYTES,
        "warp_size": target.warp_size,
        "regs_per_multiprocessor": REGISTER_FILE,
        "max_threads_per_multi_processor": 2048,
        "shared_memory_per_block": 48 * KIB,
        "shared_memory_per_block_optin": target.shared_limit_bytes,
        "shared_memory_per_multiprocessor": target.shared_limit_bytes + KIB,
    }


def facts_of_device(target: Target) -> dict[str, Any]:
    """Return the properties of this machine's first GPU; those the driver does not report come from the target."""
    import torch  # the driver's process does without

    properties = torch.cuda.get_device_properties(0)
    told = {name: getattr(properties, name) for name in _ASKED if hasattr(properties, name)}
    return {**facts_of_target(target), **told}
