# ruff: noqa: E402, F811
import torch
import triton
import triton.language as tl


@triton.jit
def shifted_product_kernel(x_ptr, y_ptr, out_ptr, shift, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < count)
    y = tl.load(y_ptr + at, mask=at < count)
    tl.store(out_ptr + at, (x + shift) * y, mask=at < count)


def shifted_product(x, y, shift):
    out = torch.empty_like(x)
    shifted_product_kernel[(triton.cdiv(x.numel(), 256),)](x, y, out, shift, x.numel(), BLOCK=256)
    return out


##################################################################################################################################################

import torch


def test_shifted_product():
    x = torch.randn(1000, device="cuda")
    y = torch.randn(1000, device="cuda")
    results = {}
    results["test_case_1"] = shifted_product(x, y, 0.5)
    results["test_case_2"] = shifted_product(x, y, -2.0)
    return results


result_gold = test_shifted_product()
