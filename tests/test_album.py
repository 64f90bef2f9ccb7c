import numpy as np
import pytest
from PIL import Image

from seer.album import Album
from seer.errors import ConfigError


def frame(red):
    made = np.zeros((20, 30, 3), np.uint8)
    made[5:10, red % 25 : red % 25 + 5, 0] = 200
    return made


def test_album_gif_has_every_frame(tmp_path):
    album = Album(tmp_path / "x.gif", fps=20)
    for n in range(7):
        album.add(frame(n))
    with Image.open(album.save()) as image:
        assert image.size == (30, 20)
        assert image.n_frames == 7
        assert image.info["duration"] == 50


def test_album_png_is_the_last_frame(tmp_path):
    album = Album(tmp_path / "x.png")
    for n in (1, 2):
        album.add(frame(n))
    with Image.open(album.save()) as image:
        assert np.array_equal(np.asarray(image), frame(2))


def test_album_keeps_a_copy_of_what_it_was_given(tmp_path):
    album = Album(tmp_path / "x.png")
    pixels = frame(3)
    album.add(pixels)
    pixels[:] = 255
    with Image.open(album.save()) as image:
        assert np.array_equal(np.asarray(image), frame(3))


@pytest.mark.parametrize(
    ("name", "text"),
    [("x.mp4", "expected a file that ends in .gif or .png"), ("no/x.gif", "there is no folder")],
)
def test_album_bad_path_is_told_at_once(tmp_path, name, text):
    with pytest.raises(ConfigError, match=text):
        Album(tmp_path / name)


def test_album_without_frames_writes_nothing(tmp_path):
    with pytest.raises(ConfigError, match="there is no frame to write"):
        Album(tmp_path / "x.gif").save()
    assert list(tmp_path.iterdir()) == []
