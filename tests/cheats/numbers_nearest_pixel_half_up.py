"""Takes the upper pixel of two that are equally near, where torch takes the one with the even number.

problem: sampled_nearest
expect: wrong_values
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sample_kernel(image_ptr, grid_ptr, out_ptr, channels, high, wide, places, BLOCK: tl.constexpr):
    batch = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < places
    x = tl.load(grid_ptr + (batch * places + at) * 2, mask=inside, other=0.0)
    y = tl.load(grid_ptr + (batch * places + at) * 2 + 1, mask=inside, other=0.0)
    x = tl.floor(((x + 1) * wide - 1) * 0.5 + 0.5)
    y = tl.floor(((y + 1) * high - 1) * 0.5 + 0.5)
    seen = inside & (x >= 0) & (x < wide) & (y >= 0) & (y < high)
    place = tl.where(seen, y, 0.0).to(tl.int32) * wide + tl.where(seen, x, 0.0).to(tl.int32)
    for c in range(channels):
        value = tl.load(image_ptr + (batch * channels + c) * high * wide + place, mask=seen, other=0.0)
        tl.store(out_ptr + (batch * channels + c) * places + at, value * 2.0, mask=inside)


class ModelNew(nn.Module):
    def forward(self, image, grid):
        image, grid = image.contiguous(), grid.contiguous()
        batch, channels, high, wide = image.shape
        places = grid.shape[1] * grid.shape[2]
        out = torch.empty(batch, channels, grid.shape[1], grid.shape[2], device=image.device)
        sample_kernel[(batch, triton.cdiv(places, 64))](image, grid, out, channels, high, wide, places, BLOCK=64)
        return out
