"""Gymnasium's ids for the environments of this package, without importing Gymnasium.

``import seer`` is enough for ``gymnasium.make("seer/UavSwarm-v0")``, whichever of the two is
imported first: what is registered are names of functions, and if Gymnasium is not there yet they
are registered at the moment when its registry is made.
"""

from __future__ import annotations

import sys
import warnings
from types import ModuleType
from typing import Any

__all__ = ["announce", "gymnasium_id", "register"]

_REGISTRY = "gymnasium.envs.registration"


def announce() -> None:
    """Register the ids now, or when Gymnasium is imported."""
    loaded = sys.modules.get(_REGISTRY)
    if loaded is not None and hasattr(loaded, "register"):
        register(loaded)
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def gymnasium_id(name: str) -> str:
    """The Gymnasium id of an environment: ``uav_swarm_v0`` is ``seer/UavSwarm-v0``."""
    stem, _, version = name.rpartition("_v")
    return f"seer/{''.join(word.capitalize() for word in stem.split('_'))}-v{version}"


def register(registration: Any) -> None:
    """Register every environment that has a model.

    Args:
        registration: the module `gymnasium.envs.registration`.
    """
    from . import registry

    for name in registry.list():
        known = gymnasium_id(name)
        if registry.find(name).model and known not in registration.registry:
            registration.register(
                id=known,
                entry_point="seer.central:CentralEnv",
                vector_entry_point="seer.central:flat_vector",
                kwargs={"env_id": name},
            )


class _Finder:
    """Waits for the import of Gymnasium's registry, once."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """The spec that the other finders give, with a loader that registers afterwards."""
        if name != _REGISTRY:
            return None
        import importlib.util

        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            loader: Any = _Loader(spec.loader)
            spec.loader = loader
        return spec


class _Loader:
    """Another loader, and what is done when it has loaded its module."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: Any) -> Any:
        """As the other."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """As the other, then register."""
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader  # it is to look as ever
        self._loader.exec_module(module)
        try:
            register(module)
        except Exception as error:  # another package's import must not fail for this
            warnings.warn(
                f"seer's environments could not be registered with Gymnasium: {error!r}",
                stacklevel=2,
            )
