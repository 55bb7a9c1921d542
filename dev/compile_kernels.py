#!/usr/bin/env python3
"""Compiles every CUDA kernel for every architecture and prints what each costs. No GPU is needed.

    python3 dev/compile_kernels.py [--arch sm_90a]... [--only policy_loss] [--nvrtc libnvrtc.so.13]

Columns: registers of a thread, bytes of static shared memory, bytes of the stack frame, bytes spilled (stores + loads).
Fails on an error, a warning, or a spill. NVRTC comes from `pip install nvidia-cuda-nvrtc` or a CUDA toolkit. Standard
library only.
"""

import argparse
import ctypes
import glob
import re
import sys
import sysconfig
from pathlib import Path

KERNELS = Path(__file__).resolve().parent.parent / "kernels"
ARCHITECTURES = ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"]
# What the backend compiles with: src/backend/cuda/nvrtc.rs.
OPTIONS = ["--std=c++17", "--fmad=false", "--extra-device-vectorization", "-default-device"]


def library(given):
    folders = [Path(sysconfig.get_paths()["purelib"]), *map(Path, sys.path)]
    found = [given] if given else []
    for folder in folders:
        found += sorted(glob.glob(str(folder / "nvidia/cu*/lib/libnvrtc.so.*")), reverse=True)
        found += sorted(glob.glob(str(folder / "nvidia/cuda_nvrtc/lib/libnvrtc.so.*")), reverse=True)
    for name in [*found, "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    sys.exit("NVRTC is not there: pip install nvidia-cuda-nvrtc")


def compile_kernel(nvrtc, source, name, arch):
    """The log of the compiler, and whether it went well."""
    program = ctypes.c_void_p()
    paths = sorted(KERNELS.glob("*.cuh"))
    headers = (ctypes.c_char_p * len(paths))(*(path.read_bytes() for path in paths))
    names = (ctypes.c_char_p * len(paths))(*(path.name.encode() for path in paths))
    created = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, name.encode(), len(paths), headers, names)
    if created:
        sys.exit(f"nvrtcCreateProgram: {created}")
    options = [*OPTIONS, f"--gpu-architecture={arch}", "--ptxas-options=-v"]
    given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    status = nvrtc.nvrtcCompileProgram(program, len(options), given)
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size))
    n_bytes = size.value
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return log.value.decode(), status == 0 and n_bytes > 0


def costs(log):
    """For each kernel: registers, shared memory, stack, spills."""
    pattern = (
        r"Function properties for (\w+)\s+(?:ptxas\s+\.\s+)?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
        r".*?Used (\d+) registers([^\n]*)"
    )
    for match in re.finditer(pattern, log, re.S):
        name, stack, stores, loads, registers, rest = match.groups()
        shared = re.search(r"(\d+) bytes smem", rest)
        yield name, int(registers), int(shared.group(1)) if shared else 0, int(stack), int(stores) + int(loads)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--arch", action="append", help=f"instead of {', '.join(ARCHITECTURES)}")
    parser.add_argument("--only", default="", help="files whose name holds this text")
    parser.add_argument("--nvrtc", help="the library")
    options = parser.parse_args()
    nvrtc = library(options.nvrtc)
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    print(f"NVRTC {major.value}.{minor.value}")
    print(f"{'kernel':36}{'arch':>9}{'registers':>11}{'shared':>8}{'stack':>7}{'spills':>8}")
    n_wrong = n_kernels = 0
    for path in sorted(KERNELS.glob("*.cu")):
        if options.only not in path.name:
            continue
        for arch in options.arch or ARCHITECTURES:
            log, is_compiled = compile_kernel(nvrtc, path.read_bytes(), path.name, arch)
            found = list(costs(log))
            n_kernels += len(found)
            for name, registers, shared, stack, spills in found:
                print(f"{name:36}{arch:>9}{registers:>11}{shared:>8}{stack:>7}{spills:>8}")
                n_wrong += spills > 0
            if not is_compiled or not found or "warning" in log:
                n_wrong += 1
                print(f"{path.name} for {arch}:\n{log}")
    print(f"{n_kernels} compiled, {n_wrong} wrong")
    return 1 if n_wrong or not n_kernels else 0


if __name__ == "__main__":
    sys.exit(main())
