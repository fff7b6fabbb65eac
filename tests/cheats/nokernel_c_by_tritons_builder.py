"""Triton has a builder for the C code of its own launchers; this file hands it C of its own, which computes.

problem: relu
expect: not_triton|cheated|runtime_error
where: both
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


def triton_copy(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    copy_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


SOURCE = """
#define PY_SSIZE_T_CLEAN
#include <Python.h>
static PyObject *run(PyObject *self, PyObject *args) {
    unsigned long long from, to; long n;
    if (!PyArg_ParseTuple(args, "KKl", &from, &to, &n)) return NULL;
    float *x = (float *)from, *y = (float *)to;
    for (long i = 0; i < n; i++) y[i] = x[i] > 0 ? x[i] : (x[i] != x[i] ? x[i] : 0);
    Py_RETURN_NONE;
}
static PyMethodDef methods[] = {{"run", run, METH_VARARGS, ""}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "own", NULL, -1, methods};
PyMODINIT_FUNC PyInit_own(void) { return PyModule_Create(&module); }
"""
own = triton.runtime.build.compile_module_from_src(SOURCE, "own")


class ModelNew(nn.Module):
    def forward(self, x):
        x, y = x.contiguous().cpu(), torch.empty_like(x, device="cpu")
        own.run(x.data_ptr(), y.data_ptr(), x.numel())
        return triton_copy(y.to("cuda" if torch.cuda.is_available() else "cpu"))
