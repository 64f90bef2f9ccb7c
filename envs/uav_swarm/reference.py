"""Writes the reference results: ``python -m seer.envs.uav_swarm.reference [--check]``.

Every scenario is flown by the random policy and by the heuristic, by the protocol. The numbers
go to ``results.json`` beside this file and, as a table, into ``PROTOCOL.md``. ``--check`` writes
nothing and says whether the results are the same.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from seer.envs.uav_swarm import SCENARIOS, parallel_env
from seer.evaluate import FIRST_SEED, evaluate
from seer.hardware import hardware

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.json"
PROTOCOL = HERE.parent / "PROTOCOL.md"
BEGIN, END = "<!-- results: begin -->\n", "<!-- results: end -->\n"


def measure(scenario: str, episodes: int = 100) -> dict[str, Any]:
    """Both policies on one scenario: name -> mean, iqm, interval, length, survival, seconds."""
    env = parallel_env(scenario=scenario)
    found: dict[str, Any] = {}
    for policy in ("random", "heuristic"):
        start = time.perf_counter()
        result = evaluate(env, policy, episodes, baselines=(0.0, 1.0))
        found[policy] = {
            "mean_return": round(result.mean_return, 3),
            "iqm_return": round(result.iqm_return, 3),
            "interval_95": [round(x, 3) for x in result.return_interval],
            "mean_length": round(result.mean_length, 1),
            "survival": round(result.survival, 4),
            "seconds": round(time.perf_counter() - start, 2),
        }
    env.close()
    return found


def table(results: dict[str, Any]) -> str:
    """The results as a table for PROTOCOL.md."""
    lines = [
        "| scenario | random | heuristic | survival, random and heuristic |",
        "|---|---|---|---|",
    ]
    for name, by in results["scenarios"].items():
        r, h = by["random"], by["heuristic"]
        lines.append(
            f"| {name} | {r['mean_return']:.1f} | {h['mean_return']:.1f} "
            f"| {r['survival']:.2f}, {h['survival']:.2f} |"
        )
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Measure everything, then write it or compare it. Returns the exit status."""
    machine = hardware()
    results: dict[str, Any] = {
        "env": "uav_swarm_v0",
        "episodes": 100,
        "first_seed": FIRST_SEED,
        "machine": f"{machine.usable} CPUs, {machine.architecture}, {machine.system.split()[0]}",
        "command": "python -m seer.envs.uav_swarm.reference",
        "scenarios": {name: measure(name) for name in SCENARIOS},
    }
    print(table(results), end="")
    if "--check" in arguments:
        old = json.loads(RESULTS.read_text())["scenarios"]
        pairs = [(old[s][p], new[p]) for s, new in results["scenarios"].items() for p in new]
        same = all(a["mean_return"] == b["mean_return"] for a, b in pairs)
        print("as before" if same else "not as before")
        return 0 if same else 1
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    text = PROTOCOL.read_text()
    before, rest = text.split(BEGIN)
    PROTOCOL.write_text(before + BEGIN + table(results) + END + rest.split(END)[1])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
