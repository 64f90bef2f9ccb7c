"""The command line, called as its users call it."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

import seer
from seer import cli
from seer.evaluate import random_policy

# Plain Python: what is tested here is the command, not the compiler.
PLAIN = ("--set", "compiled=False")


@pytest.fixture
def call(capsys):
    """Run `seer ...` in this process: (status, stdout, stderr)."""

    def run(*args):
        with pytest.raises(SystemExit) as caught:
            cli.main([str(arg) for arg in args])
        out, err = capsys.readouterr()
        return caught.value.code or 0, out, err

    return run


# ---- run ------------------------------------------------------------------------


def test_run_tells_size_rates_latency_pool_and_reward(call, beacon):
    status, out, _ = call("run", f"{beacon}:Beacon", "--drones", 9, "--steps", 12, *PLAIN)
    assert status == 0
    assert re.search(r"environment +Beacon", out)
    assert re.search(r"size +1 x 9 agents, seed 0, policy random", out)
    assert re.search(r"pool +\d+ threads? over", out)
    assert re.search(r"steps +12 in .* world steps/s", out)
    assert re.search(r"events +[1-9][\d,]*, .*/s", out)
    assert re.search(r"latency of a step +p50 .*, p90 .*, p99 .*, max ", out)
    assert re.search(r"reward +0\.\d+ per agent and step", out)
    assert re.search(r"alive at the end +9 of 9", out)


def test_run_json_is_one_document_whose_figures_fit(call, beacon):
    status, out, err = call(
        "run", f"{beacon}:Beacon", "--steps", 20, "--worlds", 3, "--seed", 5, "--threads", 1,
        "--set", "horizon=8", "--set", "radius=100", "--json", *PLAIN,
    )  # fmt: skip
    report = json.loads(out)
    assert (status, err) == (0, "")
    assert (report["steps"], report["worlds"], report["agents"], report["seed"]) == (20, 3, 16, 5)
    assert report["params"] == {"drones": 16, "radius": 100.0}
    assert report["pool"].startswith("1 thread over worlds")
    assert report["episodes"] == 6
    assert report["events"] == report["counters"]["handled"] > 0
    assert report["steps_per_second"] == pytest.approx(60 / report["step_seconds"])
    assert report["agent_steps_per_second"] == pytest.approx(16 * report["steps_per_second"])
    latency = report["latency_us"]
    assert 0 < latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["max"]


def test_run_same_seed_gives_the_same_flight_and_another_seed_another(call, beacon):
    def fly(seed):
        out = call("run", f"{beacon}:Beacon", "--steps", 15, "--seed", seed, "--json", *PLAIN)[1]
        report = json.loads(out)
        return report["events"], report["mean_reward"]

    assert fly(3) == fly(3)
    assert fly(3) != fly(4)


def test_run_reward_is_what_a_loop_over_the_environment_earns(call, beacon):
    """The mean reward of the report against one added up by hand."""
    out = call("run", f"{beacon}:Beacon", "--steps", 10, "--seed", 2, "--json", *PLAIN)[1]
    env = seer.make(f"{beacon}:Beacon", compiled=False)
    env.reset(seed=2)
    space = env.action_space("drone_0")
    policy = random_policy(space, (1, 16, 2), np.array([2]))
    total = 0.0
    for _ in range(10):
        actions = dict(zip(env.agents, policy(None)[0], strict=True))
        total += sum(env.step(actions)[1].values())
    env.close()
    assert json.loads(out)["mean_reward"] == pytest.approx(total / 160)


@pytest.mark.parametrize("kind", ["gif", "png"])
def test_run_render_draws_the_swarm(call, tmp_path, kind):
    target = tmp_path / f"swarm.{kind}"
    status, out, err = call(
        "run", "uav_swarm", "--drones", 6, "--steps", 8, "--policy", "heuristic",
        "--render", target, *PLAIN,
    )  # fmt: skip
    assert status == 0, err
    assert re.search(rf"picture +{re.escape(str(target))}", out)
    with Image.open(target) as image:
        assert min(image.size) > 50
        assert getattr(image, "n_frames", 1) == (8 if kind == "gif" else 1)


def test_record_draws_world_zero(call, tmp_path):
    target = tmp_path / "swarm.gif"
    status, _, err = call("record", "uav_swarm", target, "--drones", 4, "--steps", 5, *PLAIN)
    assert status == 0, err
    assert target.stat().st_size > 500


def test_run_render_of_many_worlds_draws_the_first(call, tmp_path):
    common = ("--drones", 4, "--steps", 6, "--seed", 9, "--policy", "heuristic", *PLAIN)
    pictures = []
    for worlds in (1, 3):
        target = tmp_path / f"{worlds}.png"
        assert call("run", "uav_swarm", "--worlds", worlds, "--render", target, *common)[0] == 0
        with Image.open(target) as image:
            pictures.append(image.tobytes())
    assert pictures[0] == pictures[1]


# ---- mistakes -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["run", "uav_swrm"], "did you mean 'uav_swarm'"),
        (["run", "uav_swarm", "--drones", "0"], "drones=0"),
        (["run", "uav_swarm", "--drones", "-3"], "drones=-3"),
        (["run", "uav_swarm", "--set", "wnd=3"], "did you mean 'wind'"),
        (["run", "uav_swarm", "--set", "wind"], "expected NAME=VALUE"),
        (["run", "uav_swarm", "--set", "wind=fast"], "wind='fast'"),
        (["run", "uav_swarm", "--set", "wind=1", "--set", "wind=2"], "set already"),
        (["run", "uav_swarm", "--drones", "3", "--set", "drones=3"], "not both"),
        (["run", "uav_swarm", "--threads", "0"], "threads must be at least 1, got 0"),
        (["run", "uav_swarm", "--threads", "65"], "threads must be at most 64, got 65"),
        (["run", "uav_swarm", "--steps", "0"], "--steps"),
        (["run", "uav_swarm", "--worlds", "0"], "--worlds"),
        (["run", "uav_swarm", "--seed", "-1"], "--seed"),
        (["run", "uav_swarm", "--policy", "genius"], "--policy"),
        (["run", "uav_swarm", "--render", "x.mp4"], "ends in .gif or .png"),
        (["run", "uav_swarm", "--render", "no/such/x.gif"], "there is no folder"),
        (["run", "uav_swarm", "--set", "horizon=0"], "horizon must be a whole number"),
        (["run", "nowhere:Model"], "there is no module 'nowhere'"),
        (["run", "seer.types:PoolConfg"], "did you mean 'PoolConfig'"),
        (["verify", "nowhere:Model"], "there is no module 'nowhere'"),
        (["verify", "uav_swarm", "--set", "wnd=3"], "did you mean 'wind'"),
        (["verify", "seer.types:Axis"], "seer.types:Axis"),
        (["evaluate", "uav_swarm", "genius"], "genius"),
        (["evaluate", "uav_swrm", "random"], "did you mean 'uav_swarm'"),
        (["record", "uav_swarm", "x.txt"], "ends in .gif or .png"),
        (["bench", "everything"], "everything"),
        (["fly"], "fly"),
    ],
)
def test_mistake_is_told_in_a_sentence_with_status_2(call, args, text):
    status, out, err = call(*args)
    assert status == 2
    assert text in err
    assert "Traceback" not in err
    assert out == ""


def test_mistake_in_a_models_declaration_names_the_line(call, tmp_path, monkeypatch):
    (tmp_path / "wrong_model.py").write_text(
        "import seer\n\n\nclass Wrong(seer.EventModel):\n    groups = {'a': 2}\n\n"
        "    @seer.on('ping')\n    def hear(ctx, s, i, e):\n        pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    status, _, err = call("run", "wrong_model:Wrong")
    assert status == 2
    assert re.search(r"wrong_model\.py:\d", err)
    assert "'ping'" in err


def test_fault_of_a_model_is_status_1(call, tmp_path, monkeypatch):
    (tmp_path / "failing_model.py").write_text(
        "import seer\nfrom gymnasium.spaces import Discrete\n\n\nclass Failing(seer.EventModel):\n"
        "    groups = {'a': 2}\n    agents = 'a'\n"
        "    act = seer.action('i8')\n    obs = seer.observation('f4')\n"
        "    action_space = staticmethod(lambda p: Discrete(2))\n\n"
        "    @seer.sweep(at=0.0)\n    def move(ctx, s, i):\n        ctx.fail(7)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    status, _, err = call("run", "failing_model:Failing", *PLAIN)
    assert status == 1
    assert "Traceback" not in err
    assert "move" in err


# ---- the other commands ---------------------------------------------------------


def test_envs_lists_every_id(call):
    status, out, _ = call("envs")
    assert status == 0
    assert [name for name in seer.list() if name not in out] == []
    listed = json.loads(call("envs", "--json")[1])
    assert [entry["id"] for entry in listed] == seer.list()


def test_envs_of_one_tells_its_parameters(call, beacon):
    status, out, _ = call("envs", "uav_swarm")
    assert status == 0
    assert re.search(r"^drones +16 \(1 to 1000000\) +how many drones$", out, re.M)
    listed = json.loads(call("envs", f"{beacon}:Beacon", "--set", "drones=7", "--json")[1])
    drones = next(p for p in listed if p["name"] == "drones")
    assert (drones["value"], drones["default"], drones["low"]) == (7, 16, 1)
    assert call("envs", "uav_swrm")[0] == 2


def test_version(call):
    assert call("--version")[:2] == (0, f"seer {seer.__version__}\n")


def test_info_tells_machine_build_and_versions(call):
    status, out, _ = call("info")
    assert status == 0
    for word in ("usable threads", "struct layout", "numba", "seer"):
        assert word in out
    facts = json.loads(call("info", "--json")[1])
    assert facts["machine"]["usable threads"] == seer.hardware.usable_cpus()
    assert facts["build"]["event"] == "32 bytes"
    assert facts["versions"]["seer"] == seer.__version__


def test_verify_of_a_sound_model_is_status_0(call, beacon):
    status, out, err = call("verify", f"{beacon}:Beacon", "--steps", 3, "--worlds", 2)
    assert status == 0, err
    assert "equal" in out
    found = json.loads(call("verify", f"{beacon}:Beacon", "--steps", 2, "--json")[1])
    assert found["ok"] is True
    assert found["differences"] == []


def test_evaluate_gives_scores(call):
    status, out, err = call(
        "evaluate", "uav_swarm", "random", "--episodes", 2, "--set", "scenario=coverage-16-easy",
        "--json",
    )  # fmt: skip
    assert status == 0, err
    found = json.loads(out)
    assert (found["env"], found["policy"], found["episodes"]) == ("uav_swarm_v0", "random", 2)
    assert found["score"] == pytest.approx(0.0)
    assert len(found["returns"]) == 2


def test_bench_calls_the_suite_and_passes_its_status_on(call, monkeypatch, tmp_path):
    from seer import bench

    calls = []
    monkeypatch.setattr(bench, "main", lambda *a, **k: calls.append((a, k)) or 1)
    assert call("bench", "engine", "--quick", "--json", tmp_path / "x.json")[0] == 1
    assert calls == [(("engine",), {"json_path": tmp_path / "x.json", "quick": True})]


@pytest.mark.parametrize("command", ["run", "envs", "info", "verify", "evaluate", "record"])
def test_help_of_every_command_is_a_sentence(call, command):
    status, out, _ = call(command, "--help")
    assert status == 0
    assert "--json" in out


# ---- as a process ---------------------------------------------------------------


def test_process_module_and_script_are_the_same_command():
    outs = [
        subprocess.run(args, capture_output=True, text=True, timeout=60, check=True).stdout
        for args in (
            [sys.executable, "-m", "seer", "envs"],
            [os.path.join(os.path.dirname(sys.executable), "seer"), "envs"],
        )
    ]
    assert outs[0] == outs[1] != ""


def test_process_script_finds_a_model_in_the_working_directory(readme_model):
    script = os.path.join(os.path.dirname(sys.executable), "seer")
    done = subprocess.run(
        [script, "run", "beacon_example:Beacon", "--steps", "2", *PLAIN],
        cwd=readme_model, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_process_interrupted_ends_with_status_130_and_no_traceback(readme_model):
    process = subprocess.Popen(
        [sys.executable, "-m", "seer", "run", "beacon_example:Beacon", "--steps", "100000000",
         *PLAIN],
        cwd=readme_model, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    time.sleep(2.0)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("args", "status", "text"),
    [
        (("run", "--seed", 2**64, "--steps", 1), 2, "uav_swarm|seed"),
        (("run", "--seed", 10**23, "--steps", 1), 2, "seed"),
        (("evaluate", "uav_swarm", "random", "--seed", 2**64, "--episodes", 1), 2, "seed"),
        (("run", "--set", "pool=1"), 2, "use --threads"),
        (("run", "--set", "render_mode=human"), 2, "use --render"),
        (("run", "--set", "self=1"), 2, "no parameter 'self'"),
        (("run", "os:getcwd"), 2, "no seer.EventModel"),
        (("run", "../x:Y"), 2, "expected 'module:attribute'"),
        (("run", "--worlds", 2**31 - 1, "--steps", 1), 1, "are available"),
        (("bench", "engine", "--json", "/nonexistent/x.json"), 2, "a folder that exists"),
        (("bench", "engine", "--json", "/tmp"), 2, "expected a file"),
    ],
)
def test_a_mistake_is_told_in_one_sentence(call, args, status, text):
    got, out, err = call(*args)
    assert (got, out) == (status, "")
    assert re.search(text, err.splitlines()[-1]) and "Traceback" not in err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_disk_behind_the_output_is_told_in_one_sentence():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "seer", "envs"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 1
    assert done.stderr.startswith("seer: ") and "No space left" in done.stderr
    assert "Traceback" not in done.stderr
