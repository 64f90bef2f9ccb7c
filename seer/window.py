"""A window that shows frames without waiting for anybody."""

from __future__ import annotations

import warnings
from typing import Any

from .errors import MissingDependencyError
from .types import Array

__all__ = ["Window"]


class Window:
    """Shows pictures by matplotlib.

    Args:
        title: of the window.

    Raises:
        MissingDependencyError: matplotlib is not installed.
    """

    def __init__(self, title: str) -> None:
        try:
            import matplotlib
            import matplotlib.pyplot as plt
        except ImportError:
            raise MissingDependencyError(
                'render_mode="human" needs matplotlib: pip install "seer-marl[render]", or use '
                'render_mode="rgb_array"',
                package="matplotlib", extra="render",
            ) from None  # fmt: skip
        self._plt, self._title = plt, title
        self._figure: Any = None
        self._image: Any = None
        backend = matplotlib.get_backend().lower()
        interactive = {b.lower() for b in matplotlib.backends.backend_registry.list_builtin(
            matplotlib.backends.BackendFilter.INTERACTIVE)}  # fmt: skip
        self._can_show = backend in interactive or backend.startswith("module://")
        if not self._can_show:
            warnings.warn(
                f"no window can be opened here (matplotlib backend {backend!r}); frames are "
                'drawn and not shown. render_mode="rgb_array" gives them as arrays',
                stacklevel=4,
            )

    def show(self, frame: Array) -> None:
        """Put a frame, uint8 (height, width, 3), into the window."""
        if not self._can_show:
            return
        if self._figure is None:
            height, width = frame.shape[:2]
            self._figure = self._plt.figure(self._title, figsize=(width / 100, height / 100))
            axes = self._figure.add_axes((0, 0, 1, 1))
            axes.set_axis_off()
            self._image = axes.imshow(frame)
            self._plt.show(block=False)
        self._image.set_data(frame)
        self._figure.canvas.draw_idle()
        self._figure.canvas.flush_events()

    def close(self) -> None:
        """Close the window."""
        if self._figure is not None:
            self._plt.close(self._figure)
            self._figure = None
