"""The protocol of claims, mail and sleeping: models under spin, the real headers under relacy.

Each rule of the protocol has a variant that breaks it, which the checker has to refute.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT / "native" / "models"
SOURCES = ROOT / "native" / "src"
RELACY = Path("/usr/include/relacy/relacy.hpp")


def needs(what, there, package):
    """Skip without a checker; fail where the checkers are said to be installed."""
    if there:
        return
    message = f"{what} is not installed (Debian: apt-get install {package})"
    if os.environ.get("SEER_REQUIRE_MODELS"):
        pytest.fail(message)
    pytest.skip(message)


def run(*command, cwd, timeout=250):
    return subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        timeout=timeout,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


# ---- spin ---------------------------------------------------------------------


def spin(folder, model, *defines):
    """Check a Promela model: (errors found, states seen, what pan wrote)."""
    needs("spin", shutil.which("spin") and shutil.which("gcc"), "spin gcc")
    flags = [f"-D{define}" for define in defines]
    made = run("spin", "-a", *flags, MODELS / model, cwd=folder)
    assert made.returncode == 0, made.stdout
    options = ["-O2", "-w", "-DSAFETY", "-DCOLLAPSE", "-DVECTORSZ=2048", "-DMEMLIM=4000"]
    made = run("gcc", *options, "-o", "pan", "pan.c", cwd=folder)
    assert made.returncode == 0, made.stdout
    text = run("./pan", "-m100000", cwd=folder).stdout
    found = re.search(r"errors: (\d+)", text)
    assert found, text
    assert "max search depth too small" not in text
    states = re.search(r"(\d+) states, stored", text)
    assert states, text
    return int(found[1]), int(states[1]), text


@pytest.mark.parametrize(
    ("model", "defines", "least"),
    [
        ("claim_mail.pml", (), 300_000),
        ("claim_mail.pml", ("TIMES=4",), 1_000_000),
        ("sleep.pml", (), 10_000),
        ("sleep.pml", ("WAITERS=3",), 400_000),
        ("gather.pml", (), 100_000),
        ("gather.pml", ("COUNT=1",), 100_000),
        ("gather.pml", ("WORKERS=3", "ROUNDS=2"), 1_000_000),
    ],
)
def test_spin_model_in_every_interleaving_keeps_its_promises(tmp_path, model, defines, least):
    errors, states, text = spin(tmp_path, model, *defines)
    assert errors == 0, text
    assert "Search not completed" not in text
    assert states > least


@pytest.mark.soak
@pytest.mark.parametrize("defines", [("WORKERS=3",), ("SHARDS=3",)])
def test_spin_model_with_three_of_each_keeps_its_promises(tmp_path, defines):
    errors, states, text = spin(tmp_path, "claim_mail.pml", *defines)
    assert errors == 0, text
    assert "Search not completed" not in text
    assert states > 10_000_000


@pytest.mark.parametrize(
    ("model", "defines", "symptom"),
    [
        ("claim_mail.pml", ("BUG_CLAIM",), "assertion violated"),
        ("claim_mail.pml", ("BUG_FLUSH",), "assertion violated"),
        ("claim_mail.pml", ("BUG_BID",), "assertion violated"),
        ("claim_mail.pml", ("BUG_PUSH", "SHARDS=3"), "assertion violated"),
        ("claim_mail.pml", ("BUG_PARITY",), "assertion violated"),
        ("claim_mail.pml", ("BUG_EARLY", "SHARDS=3"), "assertion violated"),
        ("sleep.pml", ("BUG_LOOK",), "invalid end state"),
        ("sleep.pml", ("BUG_ANNOUNCE",), "invalid end state"),
        ("sleep.pml", ("BUG_OPEN",), "invalid end state"),
        ("sleep.pml", ("BUG_WAKE",), "invalid end state"),
        ("gather.pml", ("BUG_ORDER",), "invalid end state"),
        ("gather.pml", ("BUG_TARGET",), "invalid end state"),
        ("gather.pml", ("BUG_LOOK",), "invalid end state"),
        ("gather.pml", ("BUG_SLEEPERS",), "invalid end state"),
    ],
)
def test_spin_model_with_a_rule_broken_is_refuted(tmp_path, model, defines, symptom):
    errors, _, text = spin(tmp_path, model, *defines)
    assert errors == 1, text
    assert symptom in text


@pytest.mark.parametrize("name", ["phase", "hazard"])
def test_relacy_models_document_each_broken_variant_that_is_tested(name):
    text = (MODELS / "relacy" / f"{name}.cpp").read_text()
    named = set(re.findall(r"^ \*   (BUG_\w+)", text, re.M))
    used = set(re.findall(r"#ifn?def (BUG_\w+)", text))
    tested = set(re.findall(rf'\("{name}", "(BUG_\w+)"', Path(__file__).read_text()))
    assert named == used == tested


def test_spin_models_document_each_broken_variant_that_is_tested():
    for model in ("claim_mail.pml", "sleep.pml", "gather.pml"):
        text = (MODELS / model).read_text()
        named = set(re.findall(r"^ \*   (BUG_\w+)", text, re.M))
        used = set(re.findall(r"(?:ifn?def|defined\()\s*(BUG_\w+)", text))
        assert named == used, model


# ---- relacy -------------------------------------------------------------------


def relacy(folder, name, *flags, change=None, level="-O0"):
    """Build a model against the real headers, one of them changed where `change` says so."""
    needs("relacy", RELACY.exists() and shutil.which("g++"), "relacy-dev g++")
    headers = folder / "src"
    headers.mkdir()
    for header in SOURCES.glob("*.h"):
        shutil.copy(header, headers)
    if change:
        header, before, after = change
        text = (headers / header).read_text()
        assert text.count(before) == 1, f"{header} has no single {before!r}: name the line anew"
        (headers / header).write_text(text.replace(before, after))
    made = run(
        "g++",
        *("-std=c++11", level, "-w", "-I", headers, "-I", MODELS / "relacy"),
        *flags,
        MODELS / "relacy" / f"{name}.cpp",
        *("-o", folder / name),
        cwd=folder,
    )
    assert made.returncode == 0, made.stdout
    return folder / name


def check(program, *how):
    done = run(program, *how, cwd=program.parent)
    assert done.returncode in (0, 1), done.stdout
    return done.returncode == 0, done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("name", "bound"), [("mail", 3), ("range", 2), ("sleep", 2), ("hazard", 2), ("phase", 1)]
)
def test_relacy_model_of_the_real_headers_keeps_its_promises(tmp_path, name, bound):
    program = relacy(tmp_path, name, level="-O1")
    fine, told = check(program)
    assert fine, told
    assert int(re.search(r"after (\d+) executions", told)[1]) >= 20_000
    fine, told = check(program, "full", bound)
    assert fine, told


@pytest.mark.parametrize(
    ("name", "change", "symptom"),
    [
        ("mail", ("mailbox.h", "batch, release, relaxed", "batch, relaxed, relaxed"), "DATA RACE"),
        (
            "mail",
            ("mailbox.h", "(seer_batch *)0, acquire", "(seer_batch *)0, relaxed"),
            "DATA RACE",
        ),
        ("range", ("claim.h", "<< 32 | low, release", "<< 32 | low, relaxed"), "DATA RACE"),
        ("range", ("claim.h", "rest, acquire, relaxed", "rest, relaxed, relaxed"), "DATA RACE"),
        ("sleep", ("waiter.h", "sleepers, 1u, seq_cst", "sleepers, 1u, acq_rel"), "DEADLOCK"),
        ("sleep", ("waiter.h", "value, seq_cst)) == seen", "value, acquire)) == seen"), "DEADLOCK"),
        ("sleep", ("waiter.h", "sleepers, seq_cst) == 0", "sleepers, acquire) == 0"), "DEADLOCK"),
        ("sleep", ("waiter.h", "value, value, seq_cst", "value, value, release"), "DEADLOCK"),
        (
            "sleep",
            ("waiter.h", "seer_load(&word->value, acquire)", "seer_load(&word->value, relaxed)"),
            "DATA RACE",
        ),
        (
            "phase",
            ("claim.h", "expected = phase - 1;", "expected = seer_load(&claim->phase, relaxed);"),
            "",
        ),
    ],
)
def test_relacy_model_with_a_header_weakened_is_refuted(tmp_path, name, change, symptom):
    fine, told = check(relacy(tmp_path, name, change=change))
    assert not fine, told
    assert symptom in told


@pytest.mark.parametrize(
    ("name", "define", "how"),
    [
        ("phase", "BUG_DONE", ()),
        ("phase", "BUG_FLUSH", ()),
        ("phase", "BUG_EARLY", ()),
        ("phase", "BUG_BULLETIN", ()),
        ("phase", "BUG_BULLETIN", ("full", 2)),
        ("phase", "BUG_WORD", ()),
        ("phase", "BUG_ZERO", ()),
        ("phase", "BUG_ZERO", ("full", 2)),
        ("phase", "BUG_FILE", ()),
        ("hazard", "BUG_ANNOUNCE", ()),
        ("hazard", "BUG_LOOK", ()),
        ("hazard", "BUG_FORGET", ()),
        ("hazard", "BUG_SAME", ()),
    ],
)
def test_relacy_model_with_a_rule_broken_is_refuted(tmp_path, name, define, how):
    fine, told = check(relacy(tmp_path, name, f"-D{define}"), *how)
    assert not fine, told
