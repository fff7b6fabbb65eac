"""Names of the baselines that a candidate can be timed against, besides the eager reference."""

COMPILED: dict[str, str | None] = {
    "compile": None,
    "compile-reduce-overhead": "reduce-overhead",
    "compile-max-autotune": "max-autotune",
}
"""Baselines compiled by `torch.compile`, with the `mode` passed to it."""

COMPILE_LIMIT_S = 60.0
"""Default time limit for compiling one problem's baselines. A reference that needs longer gets no compiled baseline."""

EAGER_TF32 = "tf32-eager"
"""The eager reference with TF32 allowed for float32 products. It is only timed; answers are judged without TF32."""

BASELINE_NAMES = (EAGER_TF32, *COMPILED)
