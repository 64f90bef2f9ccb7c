"""What this machine has, and how much of it this process may use.

Counting CPUs is not enough: a process may be bound to some of them (affinity) or given
only a share of their time (a quota of its control group or of any group above it).
Source: cgroups(7), Linux Documentation/admin-guide/cgroup-v2.rst, proc_pid_mountinfo(5).
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .errors import ConfigError

__all__ = ["Cache", "Hardware", "available_memory", "cpu_quota", "hardware", "usable_cpus"]

ENV_MAX_THREADS = "SEER_MAX_THREADS"


@dataclass(frozen=True)
class Cache:
    """One level of the first CPU's caches."""

    level: int
    kind: str
    """``"data"``, ``"instruction"`` or ``"unified"``."""
    size: int
    """Bytes."""
    shared_by: int
    """How many logical CPUs share it."""


@dataclass(frozen=True)
class Hardware:
    """The machine as far as it matters for choosing a pool."""

    cpu: str
    architecture: str
    system: str
    logical_cpus: int
    affinity: int
    """CPUs that this process may run on."""
    quota: float | None
    """CPUs' worth of time that its control groups allow; None: no limit."""
    usable: int
    """What `usable_cpus` says."""
    threads_per_core: int
    numa_nodes: int
    memory: int
    """Bytes of physical memory, 0 if unknown."""
    caches: tuple[Cache, ...] = field(default=())


def usable_cpus(
    *,
    root: str | Path = "/",
    affinity: int | None = None,
    environ: Mapping[str, str] | None = None,
) -> int:
    """How many threads can run at once in this process.

    The least of the CPUs in its affinity mask, the CPU quota of its control group and of all
    groups above it (versions 1 and 2; a fraction is rounded down, but to no less than 1),
    and ``SEER_MAX_THREADS`` from the environment.

    Args:
        root: where ``/proc`` and ``/sys`` hang; for tests.
        affinity: how many CPUs the mask holds; asked from the system when None.
        environ: the environment; `os.environ` when None.

    Returns:
        At least 1.

    Raises:
        ConfigError: ``SEER_MAX_THREADS`` is not a whole number above 0.
    """
    count = _affinity() if affinity is None else affinity
    quota = cpu_quota(root)
    if quota is not None:
        count = min(count, int(quota))
    text = (os.environ if environ is None else environ).get(ENV_MAX_THREADS, "").strip()
    if text:
        if not text.isdecimal() or int(text) < 1:
            raise ConfigError(
                f"{ENV_MAX_THREADS}={text!r}: expected a whole number of threads, at least 1"
            )
        count = min(count, int(text))
    return max(count, 1)


def cpu_quota(root: str | Path = "/") -> float | None:
    """CPUs' worth of time that the control groups of this process allow, None for no limit."""
    base = Path(root)
    quotas = [q for group in _groups(base) if (q := _group_quota(group)) is not None]
    return min(quotas, default=None)


def available_memory(root: str | Path = "/") -> int | None:
    """Bytes that this process could get now without being killed for it; None if unknown.

    What the system says is available, swap included, but no more than the limits of the
    process's control groups.
    """
    base = Path(root)
    words = dict(line.split()[:2] for line in _read(base / "proc/meminfo").splitlines())
    if "MemAvailable:" not in words:
        return None
    free = 1024 * (int(words["MemAvailable:"]) + int(words.get("SwapFree:", 0)))
    for group in _groups(base, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = _read(group / name).strip()
            if limit.isdecimal():
                free = min(free, int(limit))
    return free


def hardware(root: str | Path = "/") -> Hardware:
    """Look at the machine. Reads a few dozen small files; costs about a millisecond."""
    base = Path(root)
    cpus = base / "sys/devices/system/cpu"
    nodes = base / "sys/devices/system/node"
    return Hardware(
        cpu=_cpu_name(base),
        architecture=platform.machine(),
        system=f"{platform.system()} {platform.release()}",
        logical_cpus=os.cpu_count() or 1,
        affinity=_affinity(),
        quota=cpu_quota(base),
        usable=usable_cpus(root=base),
        threads_per_core=_count(_read(cpus / "cpu0/topology/thread_siblings_list")) or 1,
        numa_nodes=_listed(nodes, "node") or 1,
        memory=_memory(base),
        caches=tuple(_caches(cpus / "cpu0/cache")),
    )


# ---- control groups ----------------------------------------------------------


def _groups(base: Path, controller: str = "cpu") -> Iterator[Path]:
    """The folders of this process's groups that can hold such limits, own group first."""
    mounts = list(_mounts(base))
    for line in _read(base / "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        wanted = controllers.split(",") if controllers else []
        if wanted and controller not in wanted:
            continue
        for kind, options, mounted, point in mounts:
            fits = (kind == "cgroup" and controller in options) if wanted else kind == "cgroup2"
            if fits:
                yield from _up(base / point.lstrip("/"), mounted, path)


def _mounts(base: Path) -> Iterator[tuple[str, list[str], str, str]]:
    """(filesystem type, super options, mounted folder, mount point) of each mount."""
    for line in _read(base / "proc/self/mountinfo").splitlines():
        left, dash, right = line.partition(" - ")
        head, tail = left.split(), right.split()
        if dash and len(head) >= 5 and len(tail) >= 3 and tail[0] in ("cgroup", "cgroup2"):
            yield tail[0], tail[2].split(","), _unescape(head[3]), _unescape(head[4])


def _up(point: Path, mounted: str, path: str) -> Iterator[Path]:
    """From the process's own group up to the top one that can be seen."""
    # In a container the mount often shows a group of the host as its root, and a group
    # namespace may call groups outside it "/..": both leave the mount point itself.
    inside = path[len(mounted.rstrip("/")) :] if path.startswith(mounted.rstrip("/")) else ""
    parts = [part for part in inside.split("/") if part]
    if ".." in parts:
        parts = []
    for depth in range(len(parts), -1, -1):
        yield point.joinpath(*parts[:depth])


def _group_quota(group: Path) -> float | None:
    words = _read(group / "cpu.max").split()
    if len(words) == 2:
        return _ratio(words[0], words[1])
    return _ratio(_read(group / "cpu.cfs_quota_us"), _read(group / "cpu.cfs_period_us"))


def _ratio(quota: str, period: str) -> float | None:
    try:
        amount, per = int(quota), int(period)
    except ValueError:  # "max", or no such file
        return None
    return amount / per if amount > 0 and per > 0 else None


def _unescape(text: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, char)
    return text


# ---- the rest ------------------------------------------------------------------


def _affinity() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # not on every system
        return os.cpu_count() or 1


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _cpu_name(base: Path) -> str:
    for line in _read(base / "proc/cpuinfo").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()


def _memory(base: Path) -> int:
    for line in _read(base / "proc/meminfo").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return 0


def _listed(folder: Path, prefix: str) -> int:
    try:
        names = [entry.name for entry in folder.iterdir()]
    except OSError:
        return 0
    return sum(name.startswith(prefix) and name[len(prefix) :].isdecimal() for name in names)


def _count(text: str) -> int:
    """How many numbers a list such as ``0-3,8`` names."""
    total = 0
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()):
            return 0
        total += int(last or first) - int(first) + 1
    return total


def _caches(folder: Path) -> Iterator[Cache]:
    for index in range(8):
        entry = folder / f"index{index}"
        level, size = _read(entry / "level"), _read(entry / "size")
        digits = size.rstrip("KMG")
        if not level.isdecimal() or not digits.isdecimal():
            continue
        scale = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[size[len(digits) :][:1]]
        yield Cache(
            level=int(level),
            kind=_read(entry / "type").lower() or "unified",
            size=int(digits) * scale,
            shared_by=_count(_read(entry / "shared_cpu_list")) or 1,
        )
