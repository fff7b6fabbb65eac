"""Compiles CUDA C at run time by a private function of torch: a real kernel, but not one in Triton. Where Python
comes without distutils, torch cannot compile it either.

problem: relu
expect: not_triton|cheated|runtime_error
where: gpu
needs: torch.utils.cpp_extension
"""

import torch
import torch.nn as nn

SOURCE = """
extern "C" __global__ void relu(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] < 0.0f ? 0.0f : x[i];
}
"""


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.kernel = torch.cuda._compile_kernel(SOURCE, "relu")

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        n = x.numel()
        self.kernel(grid=((n + 255) // 256, 1, 1), block=(256, 1, 1), args=(x, out, n))
        return out
