"""Knows the harness's framing (three lengths, then JSON) and answers on the inherited socket in the worker's place:
no operators, one launch, no violations. Then it lets torch's result through.

problem: relu
expect: cheated|runtime_error|not_triton
where: both
"""

import json
import socket
import struct

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.where(x < 0, 0.0, x), mask=at < n)


def triton_relu(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


def forge(fd, blob):
    tensor = {"dtype": "float32", "shape": [40, 96]}
    body = {"launches": [{"kernel": "relu_kernel", "programs": 4}], "operators": {}, "tree": {"tensor": 0}}
    body.update(tensors=[tensor], inputs=[], aliases=[], wall_ms=1.0, violations=[], broken_seal="")
    text = json.dumps({"m": body, "b": [len(blob)]}).encode()
    connection = socket.socket(fileno=fd)
    connection.sendall(struct.pack("!IIQ", len(text), 1, len(blob)) + text + blob)
    connection.detach()


class ModelNew(nn.Module):
    def forward(self, x):
        answer = torch.relu(x)
        for fd in range(3, 64):
            try:
                forge(fd, bytes(answer.view(torch.uint8).flatten().tolist()))
            except OSError:
                pass
        return answer
