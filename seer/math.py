"""Functions of one or two real numbers that give equal bits in compiled and plain methods.

Both forms call the native core, which calls the C library: what numpy, Python or a vectorizing
compiler would put in their place may differ in the last bit. All take and return float64; where
there is no real result they return NaN or an infinity, and never raise.
"""

from __future__ import annotations

import math as _math

import numpy as np

__all__ = ["atan2", "cos", "e", "exp", "hypot", "log", "log10", "pi", "pow", "sin", "sqrt", "tau"]

pi, e, tau = _math.pi, _math.e, _math.tau

#: Name -> number of arguments, of those that the core computes.
CORE = {
    "exp": 1, "log": 1, "log10": 1, "sin": 1, "cos": 1, "pow": 2, "atan2": 2, "hypot": 2,
}  # fmt: skip


def _core(name: str, *args: float) -> np.float64:
    from ._native import lib

    return np.float64(getattr(lib, f"seer_{name}")(*args))


def exp(x: float) -> np.float64:
    """E to the power of x."""
    return _core("exp", float(x))


def log(x: float) -> np.float64:
    """Natural logarithm; -inf at 0, NaN below."""
    return _core("log", float(x))


def log10(x: float) -> np.float64:
    """Decimal logarithm; -inf at 0, NaN below."""
    return _core("log10", float(x))


def pow(x: float, y: float) -> np.float64:
    """X to the power of y, as C99 defines it."""
    return _core("pow", float(x), float(y))


def sin(x: float) -> np.float64:
    """Sine of x in radians."""
    return _core("sin", float(x))


def cos(x: float) -> np.float64:
    """Cosine of x in radians."""
    return _core("cos", float(x))


def atan2(y: float, x: float) -> np.float64:
    """Angle of the point (x, y), in (-pi, pi], radians."""
    return _core("atan2", float(y), float(x))


def hypot(x: float, y: float) -> np.float64:
    """Length of the vector (x, y), without overflow on the way."""
    return _core("hypot", float(x), float(y))


def sqrt(x: float) -> np.float64:
    """Square root, correctly rounded (IEEE 754); NaN below 0."""
    return np.float64(_math.sqrt(x) if x >= 0 else _math.nan)
