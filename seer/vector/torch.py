"""The same vector with CPU tensors in place of arrays.

A tensor shares the memory of the array that the vector gave, so nothing is copied, and it is the
caller's for as long as it is kept. There are no read-only tensors: the read-only arrays of a
vector made with ``copy=False`` are copied.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import ActionError, MissingDependencyError
from ..types import Array

__all__ = ["TorchVectorEnv"]

_MAY_BE_TENSORS = frozenset("?bBhHiIlLqQefdFD")


class TorchVectorEnv:
    """Gives tensors and takes tensors; all else is the vector's.

    Arrays of bools and numbers in observations, rewards, flags and infos become tensors of the
    same shape and dtype; what torch has no dtype for, and lists of objects, stay as they are
    (arrays in them become tensors). `live`, `acted`, `episode_over`, `was_reset`, `turn` and
    `env_ids` are tensors as well.

    Actions are tensors, arrays or whatever the vector takes, in its layout's form.

    Args:
        vec: a vector of any layout, or a wrapper of one.

    Attributes:
        vec: what is shown this way.

    Raises:
        MissingDependencyError: torch is not installed.
    """

    def __init__(self, vec: Any) -> None:
        self.vec = vec
        try:
            self._torch: Any = importlib.import_module("torch")
        except ImportError:
            raise MissingDependencyError(
                'vec.torch() needs torch: pip install "seer-marl[torch]", or use the arrays',
                package="torch", extra="torch",
            ) from None  # fmt: skip
        self._kinds = frozenset(
            dtype for dtype in map(np.dtype, _MAY_BE_TENSORS) if self._knows(dtype)
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "vec":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.vec, name)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, Any]:
        """Begin episodes; see the vector's own."""
        obs, infos = self.vec.reset(seed=seed, options=self._arrays(options))
        return self._tensors(obs), self._tensors(infos)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Step every environment; see the vector's own.

        Raises:
            ActionError: a tensor is not on the CPU, requires gradients, or has a dtype that
                arrays don't have.
        """
        obs, rewards, terms, truncs, infos = self.vec.step(self._arrays(actions))
        tensors = self._tensors
        return tensors(obs), tensors(rewards), tensors(terms), tensors(truncs), tensors(infos)

    def async_reset(self, seed: Any = None, options: Any = None) -> None:
        """Begin episodes, to be received; see the vector's own."""
        self.vec.async_reset(seed, self._arrays(options))

    def send(self, actions: Any, env_ids: Any = None) -> None:
        """Let environments step; see the vector's own."""
        self.vec.send(self._arrays(actions), self._arrays(env_ids))

    def recv(self) -> tuple[Any, Any, Any, Any, Any]:
        """The results of those that are ready; see the vector's own."""
        obs, rewards, terms, truncs, infos = self.vec.recv()
        tensors = self._tensors
        return tensors(obs), tensors(rewards), tensors(terms), tensors(truncs), tensors(infos)

    def load_state_dict(self, state: Any) -> tuple[Any, Any]:
        """Go on where a state was taken; see the vector's own."""
        obs, infos = self.vec.load_state_dict(state)
        return self._tensors(obs), self._tensors(infos)

    def sample_actions(self) -> Any:
        """Random legal actions; see the vector's own."""
        return self._tensors(self.vec.sample_actions())

    def state(self) -> Any:
        """(N, …) the global states; see the vector's own."""
        return self._tensors(self.vec.state())

    @property
    def live(self) -> Any:
        """(N, A) bool, who must be given an action next."""
        return self._tensors(self.vec.live)

    @property
    def acted(self) -> Any:
        """(N, A) bool, who was live before this step: the loss mask."""
        return self._tensors(self.vec.acted)

    @property
    def episode_over(self) -> Any:
        """(N,) bool, the environment ended in this step."""
        return self._tensors(self.vec.episode_over)

    @property
    def was_reset(self) -> Any:
        """(N,) bool, this step was an automatic reset."""
        return self._tensors(self.vec.was_reset)

    @property
    def turn(self) -> Any:
        """(N,) int64, the slot that acts next."""
        return self._tensors(self.vec.turn)

    @property
    def env_ids(self) -> Any:
        """(rows,) int64, the environments of the last results."""
        return self._tensors(self.vec.env_ids.copy())

    def torch(self) -> TorchVectorEnv:
        """It is already."""
        return self

    def close(self, timeout: float | None = None) -> None:
        """Close every environment; see the vector's own."""
        self.vec.close(timeout)

    def __enter__(self) -> TorchVectorEnv:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<tensors of {self.vec!r}>"

    def _knows(self, dtype: np.dtype[Any]) -> bool:
        try:
            self._torch.from_numpy(np.zeros(1, dtype))
        except TypeError:
            return False
        return True

    def _tensors(self, value: Any) -> Any:
        """Every array in it as a tensor of the same memory."""
        kind = type(value)
        if kind is np.ndarray:
            if value.dtype in self._kinds:
                return self._torch.from_numpy(value if value.flags.writeable else value.copy())
            return self._objects(value) if value.dtype.hasobject else value
        if kind is dict:
            return {key: self._tensors(item) for key, item in value.items()}
        if kind is tuple:
            return tuple([self._tensors(item) for item in value])
        if kind is list:
            return [self._tensors(item) for item in value]
        return value

    def _objects(self, value: Array) -> Array:
        out: Array = np.empty(value.shape, object)
        flat = out.reshape(-1)
        for k, item in enumerate(value.reshape(-1)):
            flat[k] = self._tensors(item)
        return out

    def _arrays(self, value: Any, where: tuple[Any, ...] = ()) -> Any:
        """Every tensor in it as an array of the same memory."""
        if isinstance(value, self._torch.Tensor):
            return self._array(value, where)
        if isinstance(value, Mapping):
            return {key: self._arrays(item, (*where, key)) for key, item in value.items()}
        if type(value) in (list, tuple):
            return type(value)([self._arrays(x, (*where, k)) for k, x in enumerate(value)])
        return value

    def _array(self, tensor: Any, where: tuple[Any, ...]) -> Any:
        path = "".join(f"[{key!r}]" for key in where)
        agent = next((key for key in where if isinstance(key, str)), None)
        if tensor.device.type != "cpu":
            raise ActionError(
                f"actions{path}: expected a tensor on the CPU, got one on {tensor.device}; give "
                "tensor.cpu()", agent=agent,
            )  # fmt: skip
        if tensor.requires_grad:
            raise ActionError(
                f"actions{path}: expected a tensor without gradients, got one that requires them; "
                "no gradient flows through an environment: give tensor.detach()", agent=agent,
            )  # fmt: skip
        try:
            return tensor.resolve_conj().resolve_neg().numpy()
        except (RuntimeError, TypeError) as error:
            raise ActionError(
                f"actions{path}: expected a dense tensor of a dtype that arrays have, got "
                f"{tensor.dtype}, {tensor.layout} ({error})", agent=agent,
            ) from None  # fmt: skip
