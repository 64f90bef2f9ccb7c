"""Build the compiled core; everything else stands in pyproject.toml."""

import sysconfig

from setuptools import setup

# One wheel serves all later CPythons, but a free-threaded build has no limited API.
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))

setup(
    cffi_modules=["native/build.py:ffi"],
    options={} if FREE_THREADED else {"bdist_wheel": {"py_limited_api": "cp310"}},
)
