"""The examples of the README run as they stand."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.M | re.S)


def block(sign):
    (found,) = [text for text in BLOCKS if sign in text]
    return found


def run(*args, cwd):
    done = subprocess.run(
        [sys.executable, *args], cwd=cwd, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("readme")
    (made / "beacon.py").write_text(block("class Beacon"))
    return made


def test_readme_model_has_about_40_lines():
    body = block("class Beacon").partition("class Beacon")[2]
    assert len([line for line in body.splitlines() if line.strip()]) <= 40


def test_readme_first_example_flies_a_swarm(folder):
    (folder / "first.py").write_text(block('seer.make("uav_swarm"'))
    assert re.fullmatch(r"64 drones earned -?\d+\.\d\n", run("first.py", cwd=folder))


def test_readme_model_runs_as_environment_and_as_arrays(folder):
    (folder / "second.py").write_text(block("from beacon import Beacon"))
    assert run("second.py", cwd=folder).startswith("(32, 64, 3) ")


def test_readme_model_is_heard_on_the_command_line(folder):
    out = run("-m", "seer", "run", "beacon:Beacon", "--drones", "200", "--steps", "50", cwd=folder)
    assert re.search(r"size +1 x 200 agents", out)
    assert re.search(r"events +[1-9]", out)


def test_readme_model_gives_the_same_bits_on_every_pool(folder):
    run("-m", "seer", "verify", "beacon:Beacon", "--steps", "5", cwd=folder)


def test_readme_wraps_an_environment(folder):
    pytest.importorskip("mpe2")
    (folder / "wrap.py").write_text(block("simple_spread_v3, num_envs=8)\nobs"))
    assert "8 of simple_spread_v3: 3 agents" in run("wrap.py", cwd=folder)


def test_readme_wraps_a_gymnasium_id(folder):
    (folder / "ids.py").write_text(block("CartPole-v1"))
    assert run("ids.py", cwd=folder).startswith("(16, 4) ")


def test_readme_links_point_to_files_of_the_repository():
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    assert targets
    assert [t for t in targets if not (ROOT / t).exists()] == []


def test_readme_headings_have_the_links_that_name_them():
    headings = {
        re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in README.splitlines()
        if line.startswith("#")
    }
    assert set(re.findall(r"\]\(#([^)]+)\)", README)) <= headings
