"""Frames collected into one picture: an animated GIF, or a PNG of the last frame."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .errors import ConfigError
from .types import Array

__all__ = ["Album"]

_KINDS = (".gif", ".png")


class Album:
    """Frames, and the file that they go to.

    Args:
        path: ends in ``.gif`` or ``.png``; its folder must exist.
        fps: frames a second of the GIF.

    Raises:
        ConfigError: another ending, or no such folder. Told before anything is drawn.
    """

    def __init__(self, path: str | Path, fps: float = 20.0) -> None:
        self.path, self.fps = Path(path), fps
        if self.path.suffix.lower() not in _KINDS:
            raise ConfigError(f"{self.path}: expected a file that ends in {' or '.join(_KINDS)}")
        if not self.path.parent.is_dir():
            raise ConfigError(f"{self.path}: there is no folder {str(self.path.parent)!r}")
        self._frames: list[Array] = []

    def add(self, frame: Array) -> None:
        """Append a frame, (height, width, 3) uint8; the array is copied."""
        if self.path.suffix.lower() == ".png":
            self._frames.clear()
        self._frames.append(frame.copy())

    def save(self) -> Path:
        """Write the file and say where it is.

        Raises:
            ConfigError: no frame was added, or the file can't be written.
        """
        from PIL import Image

        if not self._frames:
            raise ConfigError(f"{self.path}: there is no frame to write")
        images = [Image.fromarray(frame) for frame in self._frames]
        try:
            if len(images) == 1:
                images[0].save(self.path)
            else:
                # One palette for all frames, so that colours don't flicker. It is taken from
                # several of them, and by coverage, so that rare colours keep their place.
                some = [self._frames[k * (len(images) - 1) // 3] for k in range(4)]
                strip = Image.fromarray(np.concatenate(some))
                palette = strip.quantize(32, Image.Quantize.MAXCOVERAGE)
                flat = [
                    image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images
                ]
                flat[0].save(
                    self.path, save_all=True, append_images=flat[1:], loop=0, optimize=True,
                    duration=max(20, round(1000 / self.fps)),
                )  # fmt: skip
        except OSError as error:
            raise ConfigError(
                f"{self.path}: can't be written: {error.strerror or error}"
            ) from error
        return self.path
