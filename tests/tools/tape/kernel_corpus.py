"""Captures the kernels of candidate files, in a separate process: `python kernel_corpus.py OUT FILE...`.

Writes a JSON object by file: `kernels` (a kernel set), `names` by identity, and `refused` with reasons.
"""

import importlib.util
import json
import sys
from pathlib import Path

from triton.runtime.jit import ConstexprFunction, JITFunction

from triton_agent.tools.kernels.capture import Capture
from triton_agent.tools.kernels.kernel import NotKernelLanguage


def kernels_of(namespace: dict[str, object]) -> dict[str, JITFunction]:
    found = {}
    for name, value in namespace.items():
        while not isinstance(value, (JITFunction, ConstexprFunction)) and "fn" in getattr(value, "__dict__", {}):
            value = value.fn
        if isinstance(value, JITFunction) and not value.module.startswith("triton."):
            found[name] = value
    return found


def main(out: str, *paths: str) -> None:
    results = {}
    for path in paths:
        specification = importlib.util.spec_from_file_location(f"candidate_{len(results)}", path)
        module = importlib.util.module_from_spec(specification)
        sys.modules[specification.name] = module
        try:
            specification.loader.exec_module(module)
        except Exception as error:
            results[path] = {"import": repr(error)}
            continue
        capture, names, refused = Capture(), {}, {}
        for name, kernel in kernels_of(vars(module)).items():
            try:
                names[capture.capture(kernel)] = name
            except NotKernelLanguage as error:
                refused[name] = str(error)
        results[path] = {"kernels": capture.kernels().to_json(), "names": names, "refused": refused}
    Path(out).write_text(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
