"""Loading object code into this process, without numba.

One LLVM engine per process holds all compiled methods; they stay loaded until it ends. The core's
functions are made known by name, so object code from the disk finds them wherever they are now.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

import llvmlite.binding as llvm

from .cache import Compiled

#: What methods call in the native core.
CORE = (
    "seer_send", "seer_send_seconds", "seer_send_wide", "seer_send_wide_seconds", "seer_bits",
    "seer_uniform", "seer_normal", "seer_near", "seer_fail", "seer_exp", "seer_log", "seer_log10",
    "seer_pow", "seer_sin", "seer_cos", "seer_atan2", "seer_hypot",
)  # fmt: skip

_lock = threading.RLock()
_engine: Any = None


@functools.cache
def target_machine() -> Any:
    """Code for this CPU; one for the process."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    reloc = "static" if target.name.startswith("x86") else "default"
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=cpu_features(), opt=3, reloc=reloc,
        codemodel="jitdefault", jit=True,
    )  # fmt: skip


@functools.cache
def cpu_features() -> str:
    """The features of this CPU, as LLVM spells them."""
    return str(llvm.get_host_cpu_features().flatten())


def core_addresses() -> dict[str, int]:
    """Name -> address of the core's functions for methods."""
    from ._native import ffi, lib

    return {name: int(ffi.cast("uintptr_t", ffi.addressof(lib, name))) for name in CORE}


def start() -> Any:
    """The engine; the core's functions are known to LLVM from here on."""
    global _engine
    if _engine is None:
        for name, address in core_addresses().items():
            llvm.add_symbol(name, address)
        # The engine owns the machine it is given, so it gets one of its own.
        target_machine.cache_clear()
        _engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine())
        target_machine.cache_clear()
    return _engine


def _missing(entry: Compiled) -> list[str]:
    return [name for name in entry.needs if llvm.address_of_symbol(name) is None]


def load(entry: Compiled) -> int:
    """Put object code in memory; the address of its entry.

    Raises:
        ImportError: it needs something that this process has not.
    """
    with _lock:
        engine = start()
        if _missing(entry):
            # A few methods need numba's run-time functions, such as for raising.
            from numba.core.registry import cpu_target

            cpu_target.target_context.refresh()
            if missing := _missing(entry):  # LLVM would end the process
                raise ImportError(f"compiled code needs {', '.join(missing)}, which is not here")
        engine.add_object_file(llvm.ObjectFileRef.from_data(entry.code))
        engine.finalize_object()
        address = int(engine.get_function_address(entry.symbol))
    if address == 0:
        raise ImportError(f"object code without its entry {entry.symbol}")
    return address
