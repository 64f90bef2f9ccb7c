"""What `import seer` costs and drags in, looked at from a fresh process."""

import subprocess
import sys

import pytest

import seer

HEAVY = ("numba", "llvmlite", "pettingzoo", "sklearn", "gymnasium", "matplotlib", "PIL", "typer")


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


def test_import_loads_nothing_heavy():
    loaded = run(f"import seer, sys; print(*[m for m in {HEAVY!r} if m in sys.modules])")
    assert loaded == ""


def test_import_listing_environments_loads_no_environment():
    code = (
        "import seer, sys; seer.list();"
        f"print(*[m for m in {HEAVY!r} if m in sys.modules],"
        "*[m for m in sys.modules if m.startswith('seer.envs')])"
    )
    assert run(code) == ""


def test_import_takes_less_than_300_ms():
    code = "import time; t = time.perf_counter(); import seer; print(time.perf_counter() - t)"
    assert min(float(run(code)) for _ in range(3)) < 0.3


def test_import_declaring_a_model_needs_no_compiler():
    code = (
        "import seer, sys; seer.EventModel, seer.column, seer.PoolConfig;"
        "print('numba' in sys.modules)"
    )
    assert run(code) == "False"


@pytest.mark.parametrize("name", seer.__all__)
def test_import_public_name_is_there(name):
    assert getattr(seer, name) is not None
    assert name in dir(seer)


@pytest.mark.parametrize("name", ["verify", "evaluate"])
def test_import_module_of_the_same_name_does_not_hide_the_function(name):
    code = (
        f"import importlib, seer; module = importlib.import_module('seer.{name}');"
        f"print(seer.{name} is module.{name}, callable(seer.{name}))"
    )
    assert run(code) == "True True"


def test_import_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = seer.nothing


def test_import_version_is_the_distributions():
    assert seer.__version__[0].isdigit()
