"""Build the compiled core, and the loop over Python environments; all else is in pyproject.toml."""

import sysconfig

from setuptools import Extension, setup

# One wheel serves all later CPythons, but a free-threaded build has no limited API.
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))

setup(
    cffi_modules=["native/build.py:ffi"],
    ext_modules=[
        Extension(
            "seer.vector._quick",
            ["native/python/quick.c"],
            extra_compile_args=["-std=c11", "-O3", "-Wall", "-Wextra"],
            py_limited_api=not FREE_THREADED,
        )
    ],
    options={} if FREE_THREADED else {"bdist_wheel": {"py_limited_api": "cp310"}},
)
