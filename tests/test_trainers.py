"""What holds of trainers without any of them installed."""

import subprocess
import sys

import pytest

import seer
from seer.trainers.rows import check


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


def test_without_the_package_the_extra_is_named():
    result = run(
        "import sys; sys.modules['stable_baselines3'] = None\n"
        "import seer\n"
        "try:\n"
        "    import seer.trainers.sb3\n"
        "except ImportError as error:\n"
        "    assert isinstance(error, seer.errors.MissingDependencyError), error\n"
        "    print(error, error.package, error.extra)\n"
    )
    assert 'pip install "seer-marl[sb3]"' in result.stdout, result.stderr
    assert result.stdout.split()[-2:] == ["stable_baselines3", "sb3"]


def test_nothing_heavy_comes_with_the_folder():
    result = run(
        "import sys, seer.trainers\n"
        "print([m for m in ('torch', 'stable_baselines3', 'gymnasium') if m in sys.modules])"
    )
    assert result.stdout.strip() == "[]", result.stdout + result.stderr


def test_a_vector_that_steps_some_at_a_time_is_refused():
    with (
        seer.make_vec("CartPole-v1", 2, autoreset="same_step", batch_size=1) as vec,
        pytest.raises(seer.errors.ConfigError, match="stepped together"),
    ):
        check(vec)
