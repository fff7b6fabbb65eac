"""Memory of a GPU that one process lends to another: allocated by the lender, passed on as a descriptor.

It is allocated with CUDA's virtual memory management, separately for each loan. The borrower maps nothing else of the
lender's. It writes and unmaps; the lender reads afterwards. All functions raise OSError if the driver refuses.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
from typing import Any

import torch

LIBRARY = "libcuda.so.1"
PINNED, ON_DEVICE, AS_DESCRIPTOR, READ_AND_WRITE, LEAST_GRANULARITY = 1, 1, 1, 3, 0
"""Constants of the driver's public header: CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE,
CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, CU_MEM_ALLOC_GRANULARITY_MINIMUM."""


class _Location(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("id", ctypes.c_int))


class _Properties(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("handle_types", ctypes.c_int),
        ("location", _Location),
        ("windows_attributes", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )


class _Access(ctypes.Structure):
    _fields_ = (("location", _Location), ("flags", ctypes.c_int))


def create(size_bytes: int) -> tuple[int, torch.Tensor]:
    """Allocate memory on the current GPU; return its descriptor, which the caller closes, and the memory as bytes."""
    device = torch.cuda.current_device()
    properties = _Properties(PINNED, AS_DESCRIPTOR, _Location(ON_DEVICE, device))
    padded = _padded(size_bytes, properties)
    handle, file = ctypes.c_ulonglong(), ctypes.c_int(-1)
    _call("cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(padded), ctypes.byref(properties), ctypes.c_ulonglong(0))
    try:
        _call("cuMemExportToShareableHandle", ctypes.byref(file), handle, AS_DESCRIPTOR, ctypes.c_ulonglong(0))
        return file.value, _mapped(handle, padded, device)[:size_bytes]
    finally:
        _call("cuMemRelease", handle)  # the mapping and the descriptor keep the memory alive


def borrowed(file: int, size_bytes: int) -> torch.Tensor:
    """Return another process's memory as bytes; it is unmapped when the tensor is freed."""
    device = torch.cuda.current_device()
    padded = _padded(size_bytes, _Properties(PINNED, AS_DESCRIPTOR, _Location(ON_DEVICE, device)))
    handle = ctypes.c_ulonglong()
    _call("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(file), AS_DESCRIPTOR)
    try:
        return _mapped(handle, padded, device)[:size_bytes]
    finally:
        _call("cuMemRelease", handle)


def _padded(size_bytes: int, properties: _Properties) -> int:
    granularity = ctypes.c_size_t()
    _call("cuMemGetAllocationGranularity", ctypes.byref(granularity), ctypes.byref(properties), LEAST_GRANULARITY)
    return -(-size_bytes // granularity.value) * granularity.value


def _mapped(handle: ctypes.c_ulonglong, size_bytes: int, device: int) -> torch.Tensor:
    mapping = _Mapping(size_bytes)
    _call("cuMemMap", mapping.address, mapping.size, ctypes.c_size_t(0), handle, ctypes.c_ulonglong(0))
    mapping.is_mapped = True
    access = _Access(_Location(ON_DEVICE, device), READ_AND_WRITE)
    _call("cuMemSetAccess", mapping.address, mapping.size, ctypes.byref(access), ctypes.c_size_t(1))
    return torch.as_tensor(mapping, device=f"cuda:{device}")


class _Mapping:
    """A range of addresses. The tensor made from it keeps it alive, and it is freed together with the tensor."""

    def __init__(self, size_bytes: int) -> None:
        self.size = ctypes.c_size_t(size_bytes)
        self.address = ctypes.c_ulonglong()
        self.is_mapped = False
        zero = ctypes.c_ulonglong(0)
        _call("cuMemAddressReserve", ctypes.byref(self.address), self.size, ctypes.c_size_t(0), zero, zero)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        data = (self.address.value, False)
        return {"shape": (self.size.value,), "typestr": "|u1", "data": data, "strides": None, "version": 3}

    def __del__(self) -> None:
        if not self.address.value:
            return
        with contextlib.suppress(Exception):  # the context is broken or Python is exiting; the process ends soon
            torch.cuda.synchronize()  # wait until nothing on the GPU uses the memory
            if self.is_mapped:
                _call("cuMemUnmap", self.address, self.size)
            _call("cuMemAddressFree", self.address, self.size)


@functools.cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL(LIBRARY)


def _call(name: str, *arguments: Any) -> None:
    code = int(getattr(_driver(), name)(*arguments))
    if code:
        raise OSError(errno.ENOMEM, f"{name} ended with error {code} of CUDA")
