"""Cards that are not there: a stand-in `nvidia-smi`, and a driver library that goes by CUDA_VISIBLE_DEVICES.

For what is decided before anything runs on a GPU: how many there are, which, in what order.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SMI = """#!{python} -S
import sys
cards = {cards!r}
for argument in sys.argv[1:]:
    if argument.startswith("--query-gpu="):
        for card in cards:
            print(", ".join(card.get(field, "[N/A]") for field in argument.split("=")[1].split(",")))
"""

DRIVER = r"""
#include <stdlib.h>
#include <string.h>

static const char *raw = "RAW";
static const int processors[] = {PROCESSORS};
static int shown[16], count;

int cuInit(unsigned flags) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    count = 0;
    for (int i = 0; !visible && i < COUNT; i++) shown[count++] = i;
    for (const char *at = visible; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : "") {
        int index = -1;
        for (int i = 0; i < COUNT; i++) {
            char first[3] = {0};
            strncpy(first, at + (strncmp(at, "GPU-", 4) ? 0 : 4), 2);
            if (strncmp(at, "GPU-", 4) == 0 && strtoul(first, 0, 16) == (unsigned char)raw[16 * i]) index = i;
        }
        if (index < 0 && strncmp(at, "GPU-", 4)) index = atoi(at);
        if (index < 0 || index >= COUNT) break;
        shown[count++] = index;
    }
    return count ? 0 : 100;
}
int cuDeviceGetCount(int *found) { *found = count; return 0; }
int cuDeviceGet(int *device, int index) { *device = shown[index]; return 0; }
int cuDeviceGetUuid(char *uuid, int device) { memcpy(uuid, raw + 16 * device, 16); return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == 16 ? processors[device] : 52428800;
    return 0;
}
"""


def uuid_of(number: int) -> str:
    """Return the UUID of the stand-in card with that number."""
    digits = f"{number + 0xA0:02x}" + "0" * 30
    return f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def put_cards(folder: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> tuple[str, ...]:
    """Put a card for each name, which is its model; return their UUIDs in the order of nvidia-smi."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("a stand-in driver is compiled with a C compiler, and there is none")
    cards = [
        {"name": name, "uuid": uuid_of(number), "compute_cap": "9.0", "memory.total": "81920", "driver_version": "580"}
        for number, name in enumerate(names)
    ]
    program = folder / "nvidia-smi"
    program.write_text(SMI.format(python=sys.executable, cards=cards))
    program.chmod(0o755)
    raw = "".join(f"\\{number + 0xA0:o}" + "\\0" * 15 for number in range(len(names)))
    processors = ", ".join("132" if "H" in name else "108" for name in names)
    text = DRIVER.replace("RAW", raw).replace("{PROCESSORS}", f"{{{processors}}}").replace("COUNT", str(len(names)))
    (folder / "driver.c").write_text(text)
    library = folder / "libcuda.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-w", "-o", library, folder / "driver.c"], check=True)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tuple(card["uuid"] for card in cards)
