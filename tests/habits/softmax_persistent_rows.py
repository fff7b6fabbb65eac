"""A persistent softmax: as many programs as multiprocessors, rows taken in strides by tl.range with num_stages.

problem: row_softmax
expect: passed
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


def _properties():
    props = torch.cuda.get_device_properties(torch.cuda.current_device())
    return {"num_sm": props.multi_processor_count, "warp": props.warp_size}


@triton.jit
def softmax_kernel(
    y_ptr, x_ptr, stride_xm, stride_xn, stride_ym, n_rows, n_cols, BLOCK: tl.constexpr, STAGES: tl.constexpr
):
    first = tl.program_id(0)
    step = tl.num_programs(0)
    for row in tl.range(first, n_rows, step, num_stages=STAGES):
        cols = tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_ptr + row * stride_xm + cols * stride_xn, mask=mask, other=-float("inf"))
        x = tl.exp(x - tl.max(x, axis=0))
        tl.store(y_ptr + row * stride_ym + cols, x / tl.sum(x, axis=0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        n_rows, n_cols = x.shape
        y = torch.empty((n_rows, n_cols), dtype=x.dtype, device=x.device)
        num_programs = min(_properties()["num_sm"], n_rows)
        softmax_kernel[(num_programs, 1, 1)](
            y, x, x.stride(0), x.stride(1), y.stride(0), n_rows, n_cols, triton.next_power_of_2(n_cols), 2
        )
        return y
