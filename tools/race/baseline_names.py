"""Names of the baselines that a candidate can be timed against, beside the reference itself."""

COMPILED: dict[str, str | None] = {
    "compile": None,
    "compile-reduce-overhead": "reduce-overhead",
    "compile-max-autotune": "max-autotune",
}
"""The reference by `torch.compile`, and in which of its modes."""

COMPILE_LIMIT_S = 60.0
"""For `torch.compile` on one problem, by default. A reference that takes longer to compile gives no such baseline."""

EAGER_TF32 = "tf32-eager"
"""The reference as it is, where float32 products may run in TF32; nothing else may, and nothing is judged by it."""

BASELINE_NAMES = (EAGER_TF32, *COMPILED)
