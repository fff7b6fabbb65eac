"""What a candidate can be timed against beside the original as it is, by name."""

COMPILED: dict[str, str | None] = {
    "compile": None,
    "compile-reduce-overhead": "reduce-overhead",
    "compile-max-autotune": "max-autotune",
}
"""The original by `torch.compile`, and in which of its modes."""
