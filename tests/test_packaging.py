"""The package map, the cffi declarations and the built archives."""

import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from seer._native import ffi, lib

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).resolve().parent.parent
HEADER = (ROOT / "native/include/seer.h").read_text()
CDEF = (ROOT / "native/seer.cdef").read_text()


def settings():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def packages_of(folder, name):
    """Packages under a folder, as import names; links are left to their targets."""
    found = {name}
    for init in folder.rglob("__init__.py"):
        inside = init.parent.relative_to(folder).parts
        linked = any(
            folder.joinpath(*inside[: n + 1]).is_symlink() or inside[n] in ("envs", "stpa")
            for n in range(len(inside))
        )
        if name != "seer" or not linked:
            found.add(".".join([name, *inside]))
    return found


# ---- the package map --------------------------------------------------------


def test_packaging_list_of_packages_equals_the_folders():
    folders = (
        packages_of(ROOT / "seer", "seer")
        | packages_of(ROOT / "envs", "seer.envs")
        | packages_of(ROOT / "stpa", "seer.stpa")
    )
    assert set(settings()["tool"]["setuptools"]["packages"]) == folders


@pytest.mark.parametrize("name", ["envs", "stpa"])
def test_packaging_link_for_type_checkers_points_to_the_folder(name):
    link = ROOT / "seer" / name
    if not link.is_symlink():
        pytest.skip("a checkout without links")
    assert link.resolve() == ROOT / name


def test_packaging_registered_environments_are_in_the_package_list():
    from seer import registry

    packages = settings()["tool"]["setuptools"]["packages"]
    for name in registry.list():
        module = registry.find(name).env.partition(":")[0]
        assert module in packages or module.rpartition(".")[0] in packages


def test_packaging_every_ignored_rule_has_a_reason():
    text = (ROOT / "pyproject.toml").read_text()
    block = re.search(r"^ignore = \[\n(.*?)^\]", text, re.M | re.S)[1]
    lines = block.strip().splitlines()
    assert lines
    assert [line for line in lines if not re.search(r"# \S+ \S+", line)] == []


# ---- what cffi may call -----------------------------------------------------


def plain(text):
    """C text without comments, directives and needless blanks."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"^#.*$", "", text, flags=re.M)
    return re.sub(r"\s+", " ", text)


def tidy(text):
    return re.sub(r"\s*([(),*;{}])\s*", r"\1", text.strip())


def prototypes(text):
    pattern = r"([\w ]+[ *]+)(seer_\w+)\(([^()]*)\);"
    return {m[2]: (tidy(m[1]), tidy(m[3])) for m in re.finditer(pattern, plain(text))}


def structs(text):
    return {m[2]: tidy(m[1]) for m in re.finditer(r"struct \w+ \{([^}]*)\} (\w+);", plain(text))}


def constants(text):
    bodies = re.findall(r"enum(?: \w+)? \{([^}]*)\}", plain(text))
    return {name for body in bodies for name in re.findall(r"\b(SEER_\w+)", body)}


def defines(text):
    return set(re.findall(r"^#define (SEER_\w+) ", text, re.M)) | set(
        re.findall(r"static const \w+ (SEER_\w+);", text)
    )


def test_packaging_cdef_has_every_prototype_of_the_header_and_no_other():
    assert len(prototypes(HEADER)) > 30
    assert prototypes(CDEF) == prototypes(HEADER)


def test_packaging_cdef_has_the_structs_of_the_header():
    assert len(structs(HEADER)) > 10
    assert structs(CDEF) == structs(HEADER)


def test_packaging_cdef_has_the_constants_of_the_header():
    assert constants(CDEF) == constants(HEADER)
    assert defines(CDEF) == defines(HEADER) - {"SEER_H"}


def test_packaging_lib_has_every_function_and_its_address():
    for name in prototypes(CDEF):
        assert hasattr(lib, name)
        assert int(ffi.cast("intptr_t", ffi.addressof(lib, name))) != 0


def test_packaging_lib_has_every_constant():
    for name in constants(CDEF) | defines(CDEF):
        assert isinstance(getattr(lib, name), int)


def test_packaging_event_is_32_bytes():
    assert ffi.sizeof("seer_event") == 32


def test_packaging_check_maps_every_code_to_a_class():
    from seer._native import check, error_class
    from seer.errors import NativeError, SeerError

    assert check(0) == 0
    assert check(lib.SEER_AGAIN) == lib.SEER_AGAIN
    for code in range(1, lib.SEER_ECOUNT):
        assert error_class(code) is not NativeError
        with pytest.raises(SeerError) as caught:
            check(-code, world=4)
        assert type(caught.value) is error_class(code)
        assert (caught.value.code, caught.value.world) == (code, 4)
        assert str(caught.value)


# ---- the archives -----------------------------------------------------------


def tool(*args, cwd):
    done = subprocess.run(
        [sys.executable, "-m", *args], cwd=cwd, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """(sdist, wheel made from it), built without the network."""
    out = tmp_path_factory.mktemp("dist")
    source = tmp_path_factory.mktemp("source")
    # From the files that git knows, so that leftovers of a build can't help.
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    if listed.returncode != 0:
        pytest.skip("needs a git checkout")
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_symlink():
                (source / name).symlink_to((ROOT / name).readlink())
            else:
                (source / name).write_bytes((ROOT / name).read_bytes())
    tool("build", "--no-isolation", "--sdist", "--outdir", str(out), ".", cwd=source)
    (sdist,) = out.glob("*.tar.gz")
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
    tool("pip", "wheel", *options, "--wheel-dir", str(out), str(sdist), cwd=out)
    (wheel,) = out.glob("*.whl")
    return sdist, wheel


@pytest.mark.slow
def test_packaging_sdist_has_what_a_build_needs(archives):
    with tarfile.open(archives[0]) as tar:
        names = {member.name.partition("/")[2] for member in tar.getmembers()}
        links = [member.name for member in tar.getmembers() if member.issym()]
    assert links == []
    for needed in (
        "setup.py", "pyproject.toml", "LICENSE", "README.md", "CHANGELOG.md", "Makefile",
        "native/build.py", "native/seer.cdef", "native/include/seer.h", "envs/__init__.py",
        "stpa/__init__.py", "tests/test_packaging.py",
    ):  # fmt: skip
        assert needed in names
    sources = {p.relative_to(ROOT).as_posix() for p in (ROOT / "native/src").glob("*.[ch]")}
    assert sources <= names
    assert not any(name.endswith(".so") for name in names)


@pytest.mark.slow
def test_packaging_wheel_has_the_packages_and_nothing_at_top_level(archives):
    wheel = archives[1]
    with zipfile.ZipFile(wheel) as zipped:
        names = zipped.namelist()
    top = {name.partition("/")[0] for name in names}
    assert {t for t in top if not t.endswith(".dist-info")} == {"seer"}
    for package in settings()["tool"]["setuptools"]["packages"]:
        assert f"{package.replace('.', '/')}/__init__.py" in names
    assert "seer/py.typed" in names
    assert "seer/_native/_core.pyi" in names
    assert "seer/envs/PROTOCOL.md" in names
    assert any(re.fullmatch(r"seer/_native/_core\..*so", name) for name in names)
    assert not any(name.endswith((".c", ".h")) for name in names)


@pytest.mark.slow
def test_packaging_wheel_is_for_all_later_pythons(archives):
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        pytest.skip("free-threaded Python has no limited API")
    assert "-cp310-abi3-" in archives[1].name


@pytest.mark.slow
def test_packaging_wheel_runs_outside_the_checkout(archives, tmp_path):
    with zipfile.ZipFile(archives[1]) as zipped:
        zipped.extractall(tmp_path / "site")
    code = (
        "import importlib.util as u, seer, seer._native as n, seer.envs, seer.stpa;"
        "print(seer.__file__, n.lib.SEER_LAYOUT, seer.envs.__file__, u.find_spec('envs'))"
    )
    done = subprocess.run(
        [sys.executable, "-P" if sys.version_info >= (3, 11) else "-s", "-c", code],
        cwd=tmp_path, env={"PYTHONPATH": str(tmp_path / "site"), "PATH": ""},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    where, layout, envs, stray = done.stdout.split()
    assert Path(where) == tmp_path / "site/seer/__init__.py"
    assert Path(envs) == tmp_path / "site/seer/envs/__init__.py"
    assert (layout, stray) == ("1", "None")
