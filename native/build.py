"""Describe the compiled core to cffi; setup.py reads `ffi` from here."""

from pathlib import Path

from cffi import FFI

ROOT = Path(__file__).resolve().parent.parent


def _files(pattern: str) -> list[str]:
    """Files that match, relative to the repository, in a fixed order."""
    return sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob(pattern))


ffi = FFI()
ffi.cdef((ROOT / "native" / "seer.cdef").read_text())
ffi.set_source(
    "seer._native._core",
    '#include "seer.h"',
    sources=_files("native/src/*.c"),
    depends=[*_files("native/include/*.h"), *_files("native/src/*.h"), "native/seer.cdef"],
    include_dirs=["native/include", "native/src"],
    # No fused multiply-add and no fast math: results may not depend on the compiler's
    # taste. No -march: a wheel runs on every machine of its platform.
    extra_compile_args=[
        "-std=c11",
        "-O3",
        "-ffp-contract=off",
        "-fvisibility=hidden",
        "-Wall",
        "-Wextra",
    ],
    define_macros=[("_GNU_SOURCE", "1")],
    libraries=["pthread", "m"],
)
