"""The global random generators, which an environment has to leave alone."""

from __future__ import annotations

import logging
import random
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

__all__ = ["disturb", "generators", "quiet"]


def generators() -> dict[str, Any]:
    """The states of the global random generators, by name."""
    numpys: Any = np.random.get_state()  # noqa: NPY002 - the global one is meant
    out: dict[str, Any] = {
        "random": random.getstate(),
        "numpy.random": (numpys[0], numpys[1].tobytes(), *numpys[2:]),
    }
    torch = sys.modules.get("torch")
    if torch is not None:
        out["torch"] = torch.get_rng_state().numpy().tobytes()
    return out


def disturb(seed: int) -> None:
    """Set the global random generators to something."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.random.default_generator.manual_seed(seed)


@contextmanager
def quiet() -> Iterator[None]:
    """Warn and log nothing; leave the global generators as they were."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # of a forbidden action that is tried on purpose
    ours, numpys = random.getstate(), np.random.get_state()  # noqa: NPY002
    torch = sys.modules.get("torch")
    torchs = torch.get_rng_state() if torch is not None else None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        random.setstate(ours)
        np.random.set_state(numpys)  # noqa: NPY002
        if torchs is not None and torch is not None:
            torch.set_rng_state(torchs)
