"""Problems of public benchmarks: KernelBench's and TritonBench's repositories, and KernelBench's own check.

Only the commands `bench kernelbench` and `bench tritonbench` need this package; no verdict depends on it.
"""
