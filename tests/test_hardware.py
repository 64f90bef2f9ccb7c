import os

import pytest

from seer import hardware
from seer.errors import ConfigError
from seer.hardware import available_memory, cpu_quota, usable_cpus

V2_MOUNT = "30 23 0:26 {root} {point} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNT = "31 23 0:27 {root} {point} rw,nosuid - cgroup cgroup rw,cpu,cpuacct\n"
OTHER = "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"


class Tree:
    """A made-up /proc and /sys."""

    def __init__(self, folder):
        self.folder = folder
        self.write("proc/self/mountinfo", OTHER)
        self.write("proc/self/cgroup", "")

    def write(self, path, text):
        file = self.folder / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def v2(self, group, root="/", point="/sys/fs/cgroup"):
        self.write("proc/self/cgroup", f"0::{group}\n")
        self.write("proc/self/mountinfo", OTHER + V2_MOUNT.format(root=root, point=point))

    def v1(self, group, root="/", point="/sys/fs/cgroup/cpu,cpuacct"):
        self.write(
            "proc/self/cgroup", f"5:memory:/elsewhere\n4:cpu,cpuacct:{group}\n1:name=systemd:/x\n"
        )
        self.write("proc/self/mountinfo", OTHER + V1_MOUNT.format(root=root, point=point))

    def v1_quota(self, group, quota, period):
        at = f"sys/fs/cgroup/cpu,cpuacct{group}"
        self.write(f"{at}/cpu.cfs_quota_us", f"{quota}\n")
        self.write(f"{at}/cpu.cfs_period_us", f"{period}\n")

    def cpus(self, affinity=64, **environ):
        return usable_cpus(root=self.folder, affinity=affinity, environ=environ)


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def test_usable_cpus_without_control_groups_is_the_affinity(tree):
    assert tree.cpus(affinity=6) == 6
    assert cpu_quota(tree.folder) is None


def test_usable_cpus_on_this_machine_is_within_its_mask():
    assert 1 <= usable_cpus() <= len(os.sched_getaffinity(0))


def test_usable_cpus_v2_own_quota(tree):
    tree.v2("/user/job")
    tree.write("sys/fs/cgroup/user/job/cpu.max", "300000 100000\n")
    assert tree.cpus() == 3
    assert cpu_quota(tree.folder) == 3.0


def test_usable_cpus_v2_parent_quota_binds_when_own_is_max(tree):
    tree.v2("/user/job/step")
    tree.write("sys/fs/cgroup/user/job/step/cpu.max", "max 100000\n")
    tree.write("sys/fs/cgroup/user/job/cpu.max", "800000 100000\n")
    tree.write("sys/fs/cgroup/user/cpu.max", "200000 100000\n")
    assert tree.cpus() == 2


def test_usable_cpus_v2_quota_at_the_root_of_a_container(tree):
    tree.v2("/")
    tree.write("sys/fs/cgroup/cpu.max", "400000 100000\n")
    assert tree.cpus() == 4


def test_usable_cpus_v2_group_outside_the_namespace_reads_the_mount_point(tree):
    tree.v2("/../../other/job")
    tree.write("sys/fs/cgroup/cpu.max", "500000 100000\n")
    assert tree.cpus() == 5


def test_usable_cpus_v2_mount_of_a_subtree(tree):
    tree.v2("/docker/abc/inner", root="/docker/abc")
    tree.write("sys/fs/cgroup/cpu.max", "700000 100000\n")
    tree.write("sys/fs/cgroup/inner/cpu.max", "600000 100000\n")
    assert tree.cpus() == 6


def test_usable_cpus_v1_own_quota(tree):
    tree.v1("/batch/job")
    tree.v1_quota("/batch/job", 250000, 50000)
    assert tree.cpus() == 5


def test_usable_cpus_v1_parent_quota_binds_when_own_is_unlimited(tree):
    tree.v1("/batch/job")
    tree.v1_quota("/batch/job", -1, 100000)
    tree.v1_quota("/batch", 200000, 100000)
    tree.v1_quota("", -1, 100000)
    assert tree.cpus() == 2


def test_usable_cpus_v1_ignores_groups_of_other_controllers(tree):
    tree.v1("/job")
    tree.write("sys/fs/cgroup/cpu,cpuacct/elsewhere/cpu.cfs_quota_us", "100000")
    tree.write("sys/fs/cgroup/cpu,cpuacct/elsewhere/cpu.cfs_period_us", "100000")
    assert tree.cpus() == 64


def test_usable_cpus_fraction_is_rounded_down_to_no_less_than_one(tree):
    tree.v2("/job")
    tree.write("sys/fs/cgroup/job/cpu.max", "250000 100000\n")
    assert tree.cpus() == 2
    tree.write("sys/fs/cgroup/job/cpu.max", "50000 100000\n")
    assert tree.cpus() == 1


def test_usable_cpus_quota_above_the_affinity_does_not_add_cpus(tree):
    tree.v2("/job")
    tree.write("sys/fs/cgroup/job/cpu.max", "800000 100000\n")
    assert tree.cpus(affinity=2) == 2


def test_usable_cpus_mount_point_with_a_space(tree):
    tree.v2("/job", point=r"/sys/control\040groups")
    tree.write("sys/control groups/job/cpu.max", "300000 100000\n")
    assert tree.cpus() == 3


@pytest.mark.parametrize("text", ["", "max\n", "garbage here\n", "100000\n", "0 100000\n", "5 0\n"])
def test_usable_cpus_unreadable_quota_is_no_quota(tree, text):
    tree.v2("/job")
    tree.write("sys/fs/cgroup/job/cpu.max", text)
    assert tree.cpus() == 64


def test_usable_cpus_environment_lowers_and_never_raises(tree):
    assert tree.cpus(affinity=8, SEER_MAX_THREADS="3") == 3
    assert tree.cpus(affinity=8, SEER_MAX_THREADS="99") == 8
    assert tree.cpus(affinity=8, SEER_MAX_THREADS="") == 8


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "nan"])
def test_usable_cpus_bad_environment_is_an_error(tree, text):
    with pytest.raises(ConfigError, match=r"SEER_MAX_THREADS=.*whole number"):
        tree.cpus(SEER_MAX_THREADS=text)


def test_hardware_of_a_made_up_machine(tree):
    tree.write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Fast One\n")
    tree.write("proc/meminfo", "MemTotal:       1024 kB\n")
    cpu = "sys/devices/system/cpu/cpu0"
    tree.write(f"{cpu}/topology/thread_siblings_list", "0,8\n")
    for index, (level, kind, size, shared) in enumerate(
        [("1", "Data", "32K", "0,8"), ("2", "Unified", "1M", "0,8"), ("3", "Unified", "x", "0-15")]
    ):
        at = f"{cpu}/cache/index{index}"
        tree.write(f"{at}/level", level)
        tree.write(f"{at}/type", kind)
        tree.write(f"{at}/size", size)
        tree.write(f"{at}/shared_cpu_list", shared)
    (tree.folder / "sys/devices/system/node/node0").mkdir(parents=True)
    (tree.folder / "sys/devices/system/node/node1").mkdir()
    found = hardware.hardware(tree.folder)
    assert (found.cpu, found.memory, found.threads_per_core, found.numa_nodes) == (
        "Fast One", 1024 * 1024, 2, 2,
    )  # fmt: skip
    assert found.caches == (
        hardware.Cache(1, "data", 32 * 1024, 2),
        hardware.Cache(2, "unified", 1024 * 1024, 2),
    )


def test_hardware_of_this_machine_is_plausible():
    found = hardware.hardware()
    assert found.usable <= found.affinity <= found.logical_cpus
    assert found.memory > 0
    assert found.cpu


def test_available_memory_is_what_is_free_within_the_groups_limit(tree):
    assert available_memory(tree.folder) is None
    tree.write("proc/meminfo", "MemTotal: 900 kB\nMemAvailable: 500 kB\nSwapFree: 100 kB\n")
    assert available_memory(tree.folder) == 600 * 1024
    tree.v2("/a/b")
    tree.write("sys/fs/cgroup/a/b/memory.max", "max\n")
    assert available_memory(tree.folder) == 600 * 1024
    tree.write("sys/fs/cgroup/a/memory.max", "1000\n")
    assert available_memory(tree.folder) == 1000
    tree.write("proc/self/cgroup", "4:memory:/c\n")
    mount = "31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    tree.write("proc/self/mountinfo", mount)
    tree.write("sys/fs/cgroup/memory/c/memory.limit_in_bytes", "2000\n")
    assert available_memory(tree.folder) == 2000


def test_available_memory_of_this_machine():
    assert available_memory() > 2**20
