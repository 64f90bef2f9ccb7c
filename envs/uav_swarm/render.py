"""Pictures of a swarm, drawn with Pillow: drones, headings, trails, radio links, points.

Everything is drawn at twice its size and scaled down, which smooths the edges.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from seer.envs.uav_swarm.model import Coverage
from seer.envs.uav_swarm.swarm import COLLIDED, side

SIZE = 640  # pixels of the map's side
BAR = 44  # pixels of the line of text above it
SCALE = 2
TRAIL = 30  # positions kept
MOST_LINKS = 1500  # beyond it, only drones are drawn
FLASH = 0.25  # s for which a packet that was heard is shown

INK = (236, 241, 248)
GROUND = (15, 21, 33)
FIELD = (21, 29, 45)
LINES = (32, 43, 64)
LINK = (64, 96, 142)
PACKET = (150, 220, 255)
DIM = (122, 138, 163)
DRONES = ((96, 214, 255), (255, 201, 107), (196, 160, 255), (140, 230, 160), (255, 150, 170))
COVERED = (94, 222, 146)
OPEN = (255, 122, 92)
DEAD = (120, 88, 96)


class SwarmRenderer:
    """Draws the first world of an environment's engine; keeps trails between frames."""

    def __init__(self) -> None:
        self._past: deque[Any] = deque(maxlen=TRAIL)
        self._step = -1

    def reset(self) -> None:
        """Forget the trails."""
        self._past.clear()
        self._step = -1

    def frame(self, env: Any) -> Any:
        """The picture: uint8 (height, width, 3).

        Args:
            env: the environment; its ``engine`` and ``model`` are read.
        """
        engine, model = env.engine, env.model
        position = engine.columns["pos"][0].copy()
        alive = engine.alive[0] != 0
        step = engine.steps(0)
        if step < self._step:  # an episode began without a word
            self._past.clear()
        if step != self._step:
            self._past.append(position)
            self._step = step
        sheet = _Sheet(side(model.p), position.shape[0])
        sheet.scene(engine, model, position, alive, list(self._past))
        sheet.heading(*_caption(engine, model, alive))
        return sheet.pixels()


def coverage_map(engine: Any, model: Any, visits: Any) -> Any:
    """How long each part of the world was watched: uint8 (height, width, 3).

    Args:
        engine: with the world's present state.
        model: a `Coverage`.
        visits: (row, column) float, seconds watched, row 0 at y = 0.
    """
    sheet = _Sheet(side(model.p), model.p.drones)
    peak = max(float(np.max(visits)), 1e-9)
    level = np.sqrt(np.asarray(visits, np.float64) / peak)[::-1]
    stops = np.array([FIELD, (28, 66, 104), (30, 134, 140), (126, 200, 120), (253, 231, 110)])
    place = level * (len(stops) - 1)
    low = np.minimum(place.astype(int), len(stops) - 2)
    colour = stops[low] + (stops[low + 1] - stops[low]) * (place - low)[..., None]
    heat = Image.fromarray(colour.astype(np.uint8))
    sheet.paste(heat.resize((SIZE * SCALE - 2 * sheet.margin,) * 2, Image.Resampling.BICUBIC))
    position, alive = engine.columns["pos"][0], engine.alive[0] != 0
    sheet.scene(engine, model, position, alive, [], links=False)
    covered = 100 * engine.totals["coverage"][0]
    sheet.heading(
        "watched, brighter: longer", f"{covered:.0f} % of {engine.columns['spot'].shape[1]} points"
    )
    return sheet.pixels()


def _caption(engine: Any, model: Any, alive: Any) -> tuple[str, str]:
    if isinstance(model, Coverage):
        what = f"covered {100 * engine.totals['coverage'][0]:.0f} %"
    else:
        what = f"together {100 * engine.totals['together'][0]:.0f} %"
    left = f"{int(alive.sum())} of {alive.size} drones   {what}"
    return left, f"t = {engine.time(0):.1f} s"


class _Sheet:
    """A picture under way, in world coordinates: x to the right, y up, m."""

    def __init__(self, world: float, drones: int) -> None:
        self.world = world
        self.margin = 10 * SCALE
        self.per_metre = (SIZE * SCALE - 2 * self.margin) / world
        self.image = Image.new("RGB", (SIZE * SCALE, (SIZE + BAR) * SCALE), GROUND)
        self.draw = ImageDraw.Draw(self.image)
        # Large enough to see, small enough not to cover the neighbours.
        self.body = float(np.clip(70.0 / math.sqrt(drones), 3.0, 9.0)) * SCALE
        a, b = self.margin, SIZE * SCALE - self.margin
        top = BAR * SCALE
        self.draw.rounded_rectangle((a, a + top, b, b + top), 6 * SCALE, FIELD)
        every = 10.0 ** math.floor(math.log10(world / 2.0))
        for k in range(1, math.ceil(world / every)):
            at = a + k * every * self.per_metre
            self.draw.line((at, a + top, at, b + top), LINES, SCALE)
            self.draw.line((a, b + top - at + a, b, b + top - at + a), LINES, SCALE)

    def to_pixels(self, xy: Any) -> Any:
        """World (..., 2) to picture (..., 2)."""
        xy = np.asarray(xy, np.float64) * self.per_metre
        x = self.margin + xy[..., 0]
        y = (BAR + SIZE) * SCALE - self.margin - xy[..., 1]
        return np.stack([x, y], -1)

    def paste(self, picture: Any) -> None:
        self.image.paste(picture, (self.margin, self.margin + BAR * SCALE))

    def disc(self, at: Any, radius: float, fill: Any = None, outline: Any = None) -> None:
        box = (at[0] - radius, at[1] - radius, at[0] + radius, at[1] + radius)
        self.draw.ellipse(box, fill, outline, max(1, SCALE))

    def scene(
        self, engine: Any, model: Any, position: Any, alive: Any, past: list[Any],
        links: bool = True,
    ) -> None:  # fmt: skip
        place = self.to_pixels(position[:, :2])
        small = position.shape[0] <= 300
        if isinstance(model, Coverage):
            self.points(engine)
        else:
            centres = self.to_pixels(engine.columns["centre"][0][:, :2])
            for at in centres:
                self.disc(at, model.p.meeting * self.per_metre, outline=LINK)
        if links and small:
            self.links(position, alive, place, model.p.radio_range)
        if links and small:
            self.packets(engine, alive, place)
        if small:
            self.trails(past, alive, model)
        if isinstance(model, Coverage) and small and links:
            self.claims(engine, place)
        self.drones(engine, model, position, alive, place)

    def points(self, engine: Any) -> None:
        spots = self.to_pixels(engine.columns["spot"][0])
        covered = engine.columns["covered"][0] > 0.5
        radius = max(self.body * 0.5, 1.2 * SCALE)
        for at, seen in zip(spots, covered, strict=True):
            if seen:
                self.disc(at, 2.0 * radius, _mix(FIELD, COVERED, 0.22))
            self.disc(at, radius, COVERED if seen else FIELD, COVERED if seen else OPEN)

    def claims(self, engine: Any, place: Any) -> None:
        """A line from each watched point to the drone that watches it."""
        spots = self.to_pixels(engine.columns["spot"][0])
        for at, owner in zip(spots, engine.columns["owner"][0], strict=True):
            if owner >= 0:
                self.draw.line((*at, *place[owner]), (58, 132, 96), SCALE)

    def links(self, position: Any, alive: Any, place: Any, reach: float) -> None:
        ids = np.flatnonzero(alive)
        gap = np.linalg.norm(position[ids, None] - position[None, ids], axis=-1)
        pairs = np.argwhere(np.triu(gap <= reach, 1))
        if len(pairs) > MOST_LINKS:
            return
        for a, b in pairs:
            near = 1.0 - gap[a, b] / reach
            shade = _mix(FIELD, LINK, 0.25 + 0.6 * near)
            self.draw.line((*place[ids[a]], *place[ids[b]]), shade, SCALE)

    def packets(self, engine: Any, alive: Any, place: Any) -> None:
        """A flash from where a sender was to who has just heard it."""
        age = engine.time(0) - engine.columns["ears"][0, :, 7]
        source = self.to_pixels(engine.columns["ears"][0, :, 4:6])
        for i in np.flatnonzero(alive & (age < FLASH)):
            shade = _mix(LINK, PACKET, 1.0 - age[i] / FLASH)
            self.draw.line((*source[i], *place[i]), shade, SCALE)

    def trails(self, past: list[Any], alive: Any, model: Any) -> None:
        if len(past) < 2:
            return
        tracks = self.to_pixels(np.stack(past)[..., :2])
        for k in range(len(past) - 1):
            fade = 0.6 * (k + 1) / len(past)
            for i in np.flatnonzero(alive).tolist():
                shade = _mix(FIELD, _colour(i, model), fade)
                self.draw.line((*tracks[k, i], *tracks[k + 1, i]), shade, SCALE)

    def drones(self, engine: Any, model: Any, position: Any, alive: Any, place: Any) -> None:
        velocity = engine.columns["vel"][0]
        pace = np.linalg.norm(velocity[:, :2], axis=1)
        angle = np.where(pace > 0.3, np.arctan2(velocity[:, 1], velocity[:, 0]), math.pi / 2)
        cause = engine.columns["cause"][0]
        for i in np.argsort(position[:, 2], kind="stable").tolist():
            at = place[i]
            if not alive[i]:
                self.wreck(at, DEAD if cause[i] == COLLIDED else DIM)
                continue
            # Higher drones are nearer to the eye.
            size = self.body * (0.75 + 0.5 * position[i, 2] / model.p.height)
            turn = angle[i] + np.array([0.0, 2.5, math.pi, -2.5])
            length = size * np.array([1.25, 1.0, 0.4, 1.0])
            corners = [
                (at[0] + r * math.cos(t), at[1] - r * math.sin(t))
                for t, r in zip(turn, length, strict=True)
            ]
            self.draw.polygon(corners, _colour(i, model), GROUND)

    def wreck(self, at: Any, colour: Any) -> None:
        r = self.body * 0.5
        self.draw.line((at[0] - r, at[1] - r, at[0] + r, at[1] + r), colour, SCALE)
        self.draw.line((at[0] - r, at[1] + r, at[0] + r, at[1] - r), colour, SCALE)

    def heading(self, left: str, right: str) -> None:
        font = ImageFont.load_default(15 * SCALE)
        y = 14 * SCALE
        self.draw.text((self.margin + 4 * SCALE, y), left, INK, font)
        width = self.draw.textlength(right, font)
        self.draw.text((SIZE * SCALE - self.margin - 4 * SCALE - width, y), right, DIM, font)

    def pixels(self) -> Any:
        return np.asarray(self.image.resize((SIZE, SIZE + BAR), Image.Resampling.BOX))


def _colour(i: int, model: Any) -> tuple[int, int, int]:
    team = int(i) // model.p.team_size if model.p.team_size else 0
    return DRONES[team % len(DRONES)]


def _mix(a: Any, b: Any, share: float) -> tuple[int, ...]:
    """Between two colours: a at 0, b at 1."""
    return tuple(round(x + (y - x) * share) for x, y in zip(a, b, strict=True))
