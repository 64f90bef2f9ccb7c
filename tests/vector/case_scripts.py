"""Programs of their own, and who is alive below this one, for the tests of cases."""

import contextlib
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

TESTS = Path(__file__).resolve().parents[1]


def workers_alive():
    """Processes below this one that may run users' code: all but the fork server itself."""
    here = os.getpid()
    alive = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            server = process.ppid() == here and "forkserver" in " ".join(process.cmdline())
            if not server and process.status() != psutil.STATUS_ZOMBIE:
                alive.append(process)
    return alive


def ended(pids, seconds=5.0):
    """Whether none of them is left after a while."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        left = [p for p in pids if psutil.pid_exists(p)
                and psutil.Process(p).status() != psutil.STATUS_ZOMBIE]  # fmt: skip
        if not left:
            return True
        time.sleep(0.02)
    return False


def script(body, *, send=None, main=True, timeout=60, group=False):
    """Run a program; send it a signal once it prints "ready".

    Returns:
        Its exit code, what it printed, and what it complained.
    """
    head = """
        import functools, os, sys, time
        from cases import make_vec
        from vector.case_worlds import *
        from vector.pilot import Pilot, copies
        from vector.worlds import Ledger
    """
    text = textwrap.dedent(head) + (
        f"if __name__ == '__main__':\n{textwrap.indent(textwrap.dedent(body), '    ')}"
        if main else textwrap.dedent(body)
    )  # fmt: skip
    path = Path(os.environ["SEER_CASE_FOLDER"]) / "program.py"
    path.write_text(text)
    process = subprocess.Popen(
        [sys.executable, "-u", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=group, env={**os.environ, "PYTHONPATH": str(TESTS)},
    )  # fmt: skip
    printed = ""
    if send is not None:
        for line in process.stdout:
            printed += line
            if "ready" in line:
                break
        time.sleep(0.3)
        (os.killpg if group else os.kill)(process.pid, send)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        pytest.fail(f"still running after {timeout} s:\n{printed}{out}\n{err}")
    return process.returncode, printed + out, err
