"""Fixtures that several files use."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def readme_blocks():
    """The Python examples of the README."""
    return re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)


@pytest.fixture(scope="session")
def readme_model(readme_blocks, tmp_path_factory):
    """A folder with the README's model as `beacon_example.py`."""
    folder = tmp_path_factory.mktemp("example")
    (text,) = [block for block in readme_blocks if "class Beacon" in block]
    (folder / "beacon_example.py").write_text(text)
    return folder


@pytest.fixture
def beacon(readme_model, monkeypatch):
    """The name of the module with the README's model, ready to be imported."""
    monkeypatch.syspath_prepend(readme_model)
    importlib.invalidate_caches()
    return "beacon_example"
