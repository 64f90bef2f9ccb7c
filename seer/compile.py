"""A model's methods as C functions: from memory, from the disk, or compiled now."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from . import cache
from .errors import CompileError
from .layout import Layout, layout_of
from .source import fingerprint
from .spec import Kind, Sweep

#: Of the native core's structs; the core refuses another.
STRUCTS = 1
_SLOW_SECONDS = 2.0


@dataclass(frozen=True)
class CompiledModel:
    """Addresses of a model's methods, in the order of its spec; 0 for a kind without one.

    ``compiled`` of the methods were compiled now, which took ``seconds`` in all.
    """

    sweeps: list[int]
    handlers: list[int]
    compiled: int
    seconds: float
    keepalive: Any = field(repr=False, default=None)


_addresses: dict[str, int] = {}
_lock = threading.RLock()


def compile_model(model: Any, debug: bool = False) -> CompiledModel:
    """Get the machine code of every method of a model.

    Args:
        model: an instance, or a class to be built with its defaults.
        debug: check indices, and that entities touch only their own latest values.

    Raises:
        CompileError: a method can't be compiled; names the line.
    """
    from .machine import load, start

    started = time.perf_counter()
    spec = (model() if isinstance(model, type) else model).spec
    layout = layout_of(spec, debug)
    owners: list[Sweep | Kind] = [*spec.sweeps, *spec.kinds]
    with _lock:
        keys = [method_key(o, layout) if o.method is not None else "" for o in owners]
        missing: dict[str, Sweep | Kind] = {}
        for key, owner in zip(keys, owners, strict=True):
            if not key or key in _addresses:
                continue
            entry = cache.load(key)
            try:
                if entry is not None:
                    _addresses[key] = load(entry)
                    continue
            except (ImportError, RuntimeError):
                pass  # damaged in a way that its digest does not show
            missing[key] = owner
        if missing:
            start()  # numba loads what it makes, and finds the core by name
            from .codegen import compile_method

            with _progress(spec.name, len(missing)) as tell:
                for key, owner in missing.items():
                    tell(owner.name)
                    entry = compile_method(owner, layout, f"seer_{key}")
                    try:
                        _addresses[key] = load(entry)
                    except ImportError as e:
                        raise _unloadable(owner, e) from e
                    cache.store(key, entry)
        found = [_addresses.get(key, 0) for key in keys]
    n = len(spec.sweeps)
    return CompiledModel(found[:n], found[n:], len(missing), time.perf_counter() - started)


def _unloadable(owner: Sweep | Kind, e: Exception) -> CompileError:
    m = owner.method
    assert m is not None
    return CompileError(
        f"{m.name} ({m.file}:{m.line}): {e}", method=m.name, file=m.file, line=m.line
    )


def method_key(owner: Sweep | Kind, layout: Layout) -> str:
    """Digest of all that decides the machine code of a method.

    Its byte code and that of all it calls, constants captured on the way, the model's layout, how
    it is looped, the versions of what compiles it, and the CPU.
    """
    assert owner.method is not None
    if isinstance(owner, Sweep):
        role: tuple[str, ...] = ("sweep", owner.include, owner.group.name)
    else:
        role = ("handler", owner.name)
    parts = (_environment(), layout.digest, role, fingerprint(owner.method.fn))
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:40]


_environment_text = ""


def _environment() -> str:
    global _environment_text
    if not _environment_text:
        import llvmlite.binding as llvm

        from .machine import cpu_features

        _environment_text = repr(
            (
                cache.FORMAT, STRUCTS, _own_sources(), version("numba"), version("llvmlite"),
                sys.version_info[:3], sys.platform, llvm.get_host_cpu_name(), cpu_features(),
                sorted((k, v) for k, v in os.environ.items() if k.startswith("NUMBA_OPT")),
            )
        )  # fmt: skip
    return _environment_text


_COMPILER = (
    "codegen.py", "lowering.py", "lowering_ctx.py", "lowering_rows.py", "layout.py", "math.py",
)  # fmt: skip


def _own_sources() -> str:
    """Digest of the compiler's own files: a change here is a change of its output."""
    here = os.path.dirname(__file__)
    digest = hashlib.sha256()
    for name in _COMPILER:
        with open(os.path.join(here, name), "rb") as f:
            digest.update(f.read())
    return digest.hexdigest()


@contextmanager
def _progress(model: str, count: int) -> Iterator[Any]:
    """Show that methods are being compiled: a bar on a terminal, else a line when it is slow."""
    if sys.stderr is not None and sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        with Progress(
            TextColumn("compiling {task.fields[model]}"), BarColumn(), MofNCompleteColumn(),
            TextColumn("{task.description}"), console=Console(stderr=True), transient=True,
        ) as bar:  # fmt: skip
            task = bar.add_task("", total=count, completed=-1, model=model)
            yield lambda name: bar.update(task, advance=1, description=name)
        return
    started = time.perf_counter()
    done = [0, False]

    def tell(name: str) -> None:
        slow = time.perf_counter() - started > _SLOW_SECONDS
        if slow and not done[1] and sys.stderr is not None:
            done[1] = True
            print(f"seer: compiling {model}, {done[0]} of {count} methods so far", file=sys.stderr)
        done[0] += 1

    yield tell
