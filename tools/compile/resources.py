"""What a compiled kernel needs of the machine, read from the compiler's products with no GPU and no extra process.

NVIDIA: registers and stack stand in the cubin, an ELF file; spilled bytes stand only in what `ptxas -v` says while it
compiles, so they are kept in the kernel's metadata then. AMD: all of it stands in the assembly's metadata block. For
both, spilled bytes are those *stored* by spills of one thread, each store counted once. Does not estimate occupancy.
"""

from __future__ import annotations

import dataclasses
import re
import struct
from collections.abc import Iterator
from typing import Any

from triton_agent.tools.results import KernelResources

SPILL_KEY = "ptxas_spill_store_bytes"
"""Name of the entry in a kernel's metadata that holds what `read_ptxas_log` found."""

REGISTER_WIDTH_BYTES = 4

# Codes in the `.nv.info` section: records of (format, attribute, size, payload). Format 4 carries its size in bytes.
SIZED_FORMAT = 0x04
FRAME_SIZE = 0x11
STACK_WITH_CALLEES = 0x12
REGISTER_COUNT = 0x2F

_SPILLS = re.compile(r"(\d+) bytes spill stores")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL_SIZE = 24


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BinaryResources:
    """Per thread; None where the toolchain does not tell."""

    registers: int | None
    spill_bytes: int | None
    stack_bytes: int | None


def resources_of(kernel: Any, *, target: str, compile_ms: float) -> KernelResources:
    """Everything worth reporting about a `triton.compiler.CompiledKernel`."""
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
    )


def read_binary(kernel: Any) -> BinaryResources:
    """Registers, spills and stack of a `CompiledKernel` of either vendor."""
    if "amdgcn" in kernel.asm:
        return read_amdgcn(kernel.asm["amdgcn"])
    registers, stack_bytes = read_cubin(kernel.asm["cubin"], kernel.metadata.name)
    spill_bytes = getattr(kernel.metadata, SPILL_KEY, None)
    if spill_bytes is None and stack_bytes == 0:
        spill_bytes = 0  # a kernel that came from the cache: what is spilled lives on the stack
    return BinaryResources(registers=registers, spill_bytes=spill_bytes, stack_bytes=stack_bytes)


def read_ptxas_log(log: str) -> int | None:
    """Bytes stored by spills, all functions of the kernel together; None if the text is no such log."""
    found = _SPILLS.findall(log)
    return sum(map(int, found)) if found else None


def read_amdgcn(assembly: str) -> BinaryResources:
    """From the `amdhsa.kernels` block at the end of the assembly."""
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
    """Registers per thread and bytes of stack per thread of the entry function named `kernel`."""
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
    """Each (attribute, symbol, value) in a `.nv.info` section that has that shape."""
    at = 0
    while at < len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form != SIZED_FORMAT:
            continue  # other formats keep their value where the size would be
        if size == 8:
            symbol, value = struct.unpack_from("<II", info, at)
            yield attribute, symbol, value
        at += size


def _text_at(strings: bytes, offset: int) -> str:
    return strings[offset : strings.index(b"\0", offset)].decode()
