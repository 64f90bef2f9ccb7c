"""Our side of the protocol: a simulator in an interpreter of its own, which steps when asked.

The interpreters are named by environment variables, so that no peer has to be installed beside
this package. Without them a row takes the published figure of another machine, and says so.
"""

import json
import os
import statistics
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent

GRADYSIM = ("gradysim_swarm.py", "SEER_PEER_PYTHON")
VMAS = ("vmas_flocking.py", "SEER_VMAS_PYTHON")


class Peer:
    """A running peer; a context manager.

    Args:
        which: (script, environment variable with the interpreter).
        arguments: for the script, as strings.
    """

    def __init__(self, which, *arguments):
        script, variable = which
        self.process = subprocess.Popen(
            [os.environ[variable], str(HERE / script), *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self.info = self._read()

    @staticmethod
    def available(which):
        return bool(os.environ.get(which[1]))

    def _read(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the peer ended with {self.process.wait()}")
        return json.loads(line)

    def step_ms(self, count):
        """Let it do `count` steps.

        Returns:
            The median, ms.
        """
        print(count, file=self.process.stdin, flush=True)
        return statistics.median(self._read()) * 1e3

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
