"""Resources of a compiled kernel, read from the compiler's output without a GPU or another process.

NVIDIA: registers and stack are in the cubin, an ELF file. Spilled bytes appear only in the output of `ptxas -v` during
compilation, so they are stored in the kernel's metadata then. AMD: all values are in the metadata block of the
assembly. For both, spilled bytes are those *stored* by spills of one thread, each store counted once. Occupancy is not
estimated.
"""

from __future__ import annotations

import dataclasses
import re
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from triton_agent.tools.results import KernelResources

SPILL_KEY = "ptxas_spill_store_bytes"
"""Metadata key of a kernel for the result of `read_ptxas_log`."""

REGISTER_WIDTH_BYTES = 4

# Codes in the `.nv.info` section: records of (format, attribute, size, payload). Format 4 carries its size in bytes.
SIZED_FORMAT = 0x04
FRAME_SIZE = 0x11
STACK_WITH_CALLEES = 0x12
REGISTER_COUNT = 0x2F

TENSOR_CORES = re.compile(r"\b(?:wgmma\.mma_async|mma\.sync|tcgen05\.mma|v_mfma_|v_smfmac_|v_wmma_)")
"""Instructions for products of blocks, in PTX and in AMD's assembly."""

_SPILLS = re.compile(r"(\d+) bytes spill stores")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL_SIZE = 24


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BinaryResources:
    """Resources per thread; None if the toolchain does not report them."""

    registers: int | None
    spill_bytes: int | None
    stack_bytes: int | None


def resources_of(kernel: Any, *, target: str, compile_ms: float) -> KernelResources:
    """Return the reported resources of a `triton.compiler.CompiledKernel`."""
    binary = read_binary(kernel)
    return KernelResources(
        kernel=kernel.src.name,
        target=target,
        num_warps=kernel.metadata.num_warps,
        num_stages=kernel.metadata.num_stages,
        registers=binary.registers,
        spill_bytes=binary.spill_bytes,
        shared_bytes=kernel.metadata.shared,
        stack_bytes=binary.stack_bytes,
        compile_ms=compile_ms,
        tensor_cores=uses_tensor_cores(kernel.asm),
    )


def uses_tensor_cores(asm: Mapping[str, Any]) -> bool | None:
    """Return whether a kernel multiplies blocks on tensor cores; None without its assembly."""
    text = next((asm[name] for name in ("ptx", "amdgcn") if name in asm), None)
    return None if text is None else TENSOR_CORES.search(text) is not None


def read_binary(kernel: Any) -> BinaryResources:
    """Return registers, spills and stack of a `CompiledKernel` of either vendor."""
    if "amdgcn" in kernel.asm:
        return read_amdgcn(kernel.asm["amdgcn"])
    registers, stack_bytes = read_cubin(kernel.asm["cubin"], kernel.metadata.name)
    spill_bytes = getattr(kernel.metadata, SPILL_KEY, None)
    if spill_bytes is None and stack_bytes == 0:
        spill_bytes = 0  # the kernel came from the cache without a log; without a stack nothing can be spilled
    return BinaryResources(registers=registers, spill_bytes=spill_bytes, stack_bytes=stack_bytes)


def read_ptxas_log(log: str) -> int | None:
    """Return the bytes stored by spills in all functions of the kernel; None if the text is not such a log."""
    found = _SPILLS.findall(log)
    return sum(map(int, found)) if found else None


def read_amdgcn(assembly: str) -> BinaryResources:
    """Read the `amdhsa.kernels` block at the end of the assembly."""
    block = assembly[assembly.find("amdhsa.kernels") :]

    def field(name: str) -> int | None:
        match = re.search(rf"\.{name}:\s*(\d+)", block)
        return int(match.group(1)) if match else None

    spilled = field("vgpr_spill_count")
    return BinaryResources(
        registers=field("vgpr_count"),
        spill_bytes=None if spilled is None else spilled * REGISTER_WIDTH_BYTES,
        stack_bytes=field("private_segment_fixed_size"),
    )


def read_cubin(cubin: bytes, kernel: str) -> tuple[int | None, int | None]:
    """Return registers and stack bytes per thread of the entry function named `kernel`."""
    try:
        (table_at,) = struct.unpack_from("<Q", cubin, 0x28)
        entry_size, count, names_index = struct.unpack_from("<HHH", cubin, 0x3A)
        headers = [_SECTION.unpack_from(cubin, table_at + entry_size * index) for index in range(count)]

        def body(header: tuple[int, ...]) -> bytes:
            return cubin[header[4] : header[4] + header[5]]

        names = body(headers[names_index])
        sections = {_text_at(names, header[0]): body(header) for header in headers}
        symbols, strings = sections[".symtab"], sections[".strtab"]
        numbers = {
            attribute: value
            for attribute, symbol, value in _attributes(sections[".nv.info"])
            if _text_at(strings, struct.unpack_from("<I", symbols, symbol * _SYMBOL_SIZE)[0]) == kernel
        }
    except (KeyError, ValueError, struct.error):
        return None, None  # an ELF layout that this reader does not know
    stack = [numbers[attribute] for attribute in (FRAME_SIZE, STACK_WITH_CALLEES) if attribute in numbers]
    return numbers.get(REGISTER_COUNT), max(stack, default=None)


def _attributes(info: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield (attribute, symbol, value) for each record of that form in a `.nv.info` section."""
    at = 0
    while at < len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form != SIZED_FORMAT:
            continue  # other formats store their value in place of the size
        if size == 8:
            symbol, value = struct.unpack_from("<II", info, at)
            yield attribute, symbol, value
        at += size


def _text_at(strings: bytes, offset: int) -> str:
    return strings[offset : strings.index(b"\0", offset)].decode()
