"""The tasks of the swarm: where it should be, what a drone knows of that, and what it earns."""

from __future__ import annotations

import math

import seer
from seer.envs.uav_swarm.swarm import (
    BOUND,
    EACH,
    HEARD,
    OWN,
    Swarm,
    bounded,
    own_floats,
    side,
)

GOALS = 3  # points of interest that a drone tells apart
GOAL_FLOATS = 4 * GOALS + 2
POINT_SCALE = 8.0  # points in view that count as 1


def _space(floats):
    from gymnasium import spaces

    return spaces.Box(-BOUND, BOUND, (floats,), "f4")


class Coverage(Swarm):
    """Points on the ground are to be watched: a point is covered while a drone is close to it."""

    points_per_drone = seer.param(1.0, low=0.01, high=100.0, doc="points of interest per drone")
    sensing = seer.param(20.0, low=0.1, high=300.0, doc="range in which a point is covered, m")

    state_columns = ("alive", "pos", "vel", "charge", "spot", "covered")
    groups = {
        "drone": "drones",
        "point": lambda p: max(1, round(p.drones * p.points_per_drone)),
    }

    spot = seer.column("f8", 2, published=True, of="point")  # m
    owner = seer.column("i4", published=True, of="point", initial=-1)  # the closest drone in range
    covered = seer.column("f8", published=True, of="point")  # 0 or 1
    obs = seer.observation("f4", lambda p: own_floats(p) + GOAL_FLOATS)
    points_near = seer.grid("spot", cell="sight", high=side)
    coverage = seer.total("mean", "covered")

    @staticmethod
    def observation_space(p):
        """Box of the floats listed in PROTOCOL.md."""
        return _space(own_floats(p) + GOAL_FLOATS)

    @seer.reset(over="point")
    def scatter(ctx, s, i):
        """Points anywhere in the world, uniformly."""
        world = 100.0 * math.sqrt(s.p.drones / s.p.density)
        s.spot[i, 0] = world * ctx.uniform()
        s.spot[i, 1] = world * ctx.uniform()

    @seer.sweep(at="end", over="point", include="all", on_reset=True)
    def watch(ctx, s, i):
        """Which drone watches this point: the closest in range, by id where two are equal."""
        x = s.spot[i, 0]
        y = s.spot[i, 1]
        best = s.p.sensing * s.p.sensing * 4.0
        owner = -1
        found = ctx.near("drones_near", x, y, 0.0, s.p.sensing)
        for n in range(found):
            j = ctx.found(n)
            dx = s.seen.pos[j, 0] - x
            dy = s.seen.pos[j, 1] - y
            dz = s.seen.pos[j, 2]
            d2 = dx * dx + dy * dy + dz * dz
            if d2 < best or (d2 == best and j < owner):
                best = d2
                owner = j
        s.owner[i] = owner
        s.covered[i] = 1.0 if owner >= 0 else 0.0

    @seer.sweep(at="end", over="drone", include="all", on_reset=True)
    def judge(ctx, s, i):
        """The reward, and the nearest points that nobody else watches."""
        if s.alive[i] == 0 and s.acted[i] == 0:  # dead before this step: once, nothing is left
            if s.terminated[i] != 0:
                s.terminated[i] = 0
                s.reward[i] = 0.0
                for o in range(OWN + EACH * s.p.neighbours + HEARD + GOAL_FLOATS):
                    s.obs[i, o] = 0.0
            return
        x = s.pos[i, 0]
        y = s.pos[i, 1]
        per_sight = 1.0 / s.p.sight
        free = 0
        taken = 0
        mine = 0
        # The three nearest in order, in registers: d0 <= d1 <= d2, -1 for none.
        far = 4.0 * s.p.sight * s.p.sight + 4.0 * s.p.sensing * s.p.sensing
        d0 = far
        d1 = far
        d2 = far
        j0 = -1
        j1 = -1
        j2 = -1
        found = ctx.near("points_near", x, y, max(s.p.sight, s.p.sensing))
        for n in range(found):
            j = ctx.found(n)
            owner = s.seen.owner[j]
            if owner >= 0 and owner != i:
                taken += 1
            else:
                if owner == i:
                    mine += 1
                else:
                    free += 1
                dx = s.seen.spot[j, 0] - x
                dy = s.seen.spot[j, 1] - y
                d = dx * dx + dy * dy
                if d < d2:
                    if d < d1:
                        d2 = d1
                        j2 = j1
                        if d < d0:
                            d1 = d0
                            j1 = j0
                            d0 = d
                            j0 = j
                        else:
                            d1 = d
                            j1 = j
                    else:
                        d2 = d
                        j2 = j
        o = OWN + EACH * s.p.neighbours + HEARD
        for m in range(GOALS):
            j = j0 if m == 0 else (j1 if m == 1 else j2)
            if j >= 0:
                s.obs[i, o] = 1.0
                s.obs[i, o + 1] = bounded((s.seen.spot[j, 0] - x) * per_sight)
                s.obs[i, o + 2] = bounded((s.seen.spot[j, 1] - y) * per_sight)
                s.obs[i, o + 3] = 1.0 if s.seen.owner[j] == i else 0.0
            else:
                s.obs[i, o] = 0.0
                s.obs[i, o + 1] = 0.0
                s.obs[i, o + 2] = 0.0
                s.obs[i, o + 3] = 0.0
            o += 4
        o = OWN + EACH * s.p.neighbours + HEARD + 4 * GOALS
        s.obs[i, o] = min(free / POINT_SCALE, 4.0)
        s.obs[i, o + 1] = min(taken / POINT_SCALE, 4.0)

        reward = s.total.coverage
        if not s.p.shared:
            reward = mine / s.p.points_per_drone
        if s.terminated[i] != 0:
            reward -= s.p.death_cost
        s.reward[i] = reward


class Rendezvous(Swarm):
    """Each team is to come together, anywhere, knowing only what its members see and hear."""

    team_size = seer.param(16, low=1, doc="drones in a team")
    meeting = seer.param(10.0, low=0.1, doc="distance from the team's centre that earns half, m")

    state_columns = ("alive", "pos", "vel", "charge", "centre", "closeness")
    groups = {"drone": "drones", "team": lambda p: -(-p.drones // p.team_size)}

    centre = seer.column("f8", 3, published=True, of="team")  # m
    closeness = seer.column("f8", published=True, of="team")  # in [0, 1]
    obs = seer.observation("f4", lambda p: own_floats(p))
    together = seer.total("mean", "closeness")

    @staticmethod
    def observation_space(p):
        """Box of the floats listed in PROTOCOL.md."""
        return _space(own_floats(p))

    @seer.sweep(at="end", over="team", include="all", on_reset=True)
    def gather(ctx, s, i):
        """The team's centre, and how close its members are to it; the dead count as far away."""
        first = (i - s.p.drones) * s.p.team_size
        after = min(first + s.p.team_size, s.p.drones)
        x = 0.0
        y = 0.0
        z = 0.0
        count = 0
        for j in range(first, after):
            if s.seen.alive[j] != 0:
                x += s.seen.pos[j, 0]
                y += s.seen.pos[j, 1]
                z += s.seen.pos[j, 2]
                count += 1
        close = 0.0
        if count > 0:
            x /= count
            y /= count
            z /= count
            for j in range(first, after):
                if s.seen.alive[j] != 0:
                    dx = s.seen.pos[j, 0] - x
                    dy = s.seen.pos[j, 1] - y
                    dz = s.seen.pos[j, 2] - z
                    d = math.sqrt(dx * dx + dy * dy + dz * dz)
                    close += 1.0 / (1.0 + d / s.p.meeting)
        s.centre[i, 0] = x
        s.centre[i, 1] = y
        s.centre[i, 2] = z
        s.closeness[i] = close / (after - first)

    @seer.sweep(at="end", over="drone", include="all", on_reset=True)
    def judge(ctx, s, i):
        """The reward."""
        if s.alive[i] == 0 and s.acted[i] == 0:  # dead before this step: once, nothing is left
            if s.terminated[i] != 0:
                s.terminated[i] = 0
                s.reward[i] = 0.0
                for o in range(OWN + EACH * s.p.neighbours + HEARD):
                    s.obs[i, o] = 0.0
            return
        team = s.p.drones + i // s.p.team_size
        reward = s.seen.closeness[team]
        if not s.p.shared:
            dx = s.seen.centre[team, 0] - s.pos[i, 0]
            dy = s.seen.centre[team, 1] - s.pos[i, 1]
            dz = s.seen.centre[team, 2] - s.pos[i, 2]
            d = math.sqrt(dx * dx + dy * dy + dz * dz)
            reward = 1.0 / (1.0 + d / s.p.meeting) if s.alive[i] != 0 else 0.0
        if s.terminated[i] != 0:
            reward -= s.p.death_cost
        s.reward[i] = reward
