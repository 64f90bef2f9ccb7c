"""The C tests of the core, built and run by native/tests/run.sh.

Plain ones in short form with everything else; under the sanitizers by `make sanitize`.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent / "native" / "tests"


def run(build, *arguments, timeout, **environment):
    """Run run.sh: what it wrote, after checking that each test said `ok`."""
    if not shutil.which(os.environ.get("CC", "cc")):
        pytest.skip("no C compiler was found to build the C tests")
    done = subprocess.run(
        [str(TESTS / "run.sh"), *arguments],
        env={**os.environ, "BUILD": str(build), **environment},
        timeout=timeout,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:]
    assert "FAILED" not in done.stdout
    return done.stdout


def names_in(text):
    """Names of the C tests that a source file runs, or that an output reports as passed."""
    return set(re.findall(r"^    TEST\((\w+)\);", text, re.M)) or set(
        re.findall(r"^(\w+) +ok$", text, re.M)
    )


def written():
    return set().union(*(names_in(path.read_text()) for path in TESTS.glob("test_*.c")))


def supports(flag, tmp_path):
    """Whether the compiler can build and run a program with a sanitizer."""
    source = tmp_path / "probe.c"
    source.write_text("int main(void) { return 0; }\n")
    made = [os.environ.get("CC", "cc"), flag, str(source), "-o", str(tmp_path / "probe")]
    return (
        subprocess.run(made, capture_output=True, check=False).returncode == 0
        and subprocess.run([tmp_path / "probe"], capture_output=True, check=False).returncode == 0
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_native_tests_run_plain_all_pass(tmp_path):
    output = run(tmp_path, "plain", timeout=550)
    assert names_in(output) == written()
    assert "events add up" in output
    assert re.search(r"history: 20000 histories .* 0 not linearizable", output)


@pytest.mark.sanitize
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("mode", "flag"), [("asan", "-fsanitize=address,undefined"), ("tsan", "-fsanitize=thread")]
)
def test_native_tests_run_under_sanitizers_all_pass(tmp_path, mode, flag):
    if not supports(flag, tmp_path):
        pytest.skip(f"the C compiler has no {flag}")
    output = run(tmp_path, mode, "long", timeout=3500)
    assert names_in(output) == written()
    assert "Sanitizer" not in output


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_native_soak_of_a_billion_events_adds_up(tmp_path):
    output = run(tmp_path, "soak", timeout=None)
    handled = re.search(r"soak: (\d+) events add up,", output)
    assert handled
    assert int(handled[1]) >= 1_000_000_000
