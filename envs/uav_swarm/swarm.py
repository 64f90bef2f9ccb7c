"""What every task of the swarm shares: flight, battery, wind, radio and the senses.

A drone is a point mass whose attitude loop follows a commanded acceleration. Once a second it
broadcasts its position to whoever is in range; what it hears, and whom it sees nearby, is all
that it knows. The formulas and their sources are in this folder's README.
"""

from __future__ import annotations

import math
from typing import Any

import seer

GRAVITY = 9.80665  # m/s^2, standard
LIGHT = 299_792_458.0  # m/s
COLLIDED, FLAT = 1, 2  # values of the column `cause`

OWN = 9  # floats about oneself
EACH = 7  # floats about each neighbour in view
HEARD = 8  # floats about what was heard
BOUND = 8.0  # of every float of an observation
NUMBER_SCALE = 16.0  # packets heard within `memory` that count as 1


def side(p: Any) -> float:
    """Side of the square world, m: the density does not depend on the number of drones."""
    return 100.0 * math.sqrt(p.drones / p.density)


def airtime(p: Any) -> float:
    """Seconds that a beacon is on the air; nobody can hear it sooner, so it is the lookahead."""
    return 8.0 * p.packet_bytes / p.bitrate


def own_floats(p: Any) -> int:
    """How many floats of an observation do not depend on the task."""
    return OWN + EACH * int(p.neighbours) + HEARD


def unit(a):
    """A command within [-1, 1]; what is no number becomes -1, so that it cannot spread."""
    if not a >= -1.0:
        return -1.0
    if a > 1.0:
        return 1.0
    return a


def bounded(a):
    """What was heard long ago may be far away by now."""
    return min(max(a, -BOUND), BOUND)


def centimetres(x):
    """A coordinate as a signed 16-bit number of centimetres, modulo 655.36 m."""
    return ((int(x * 100.0) + 32768) & 65535) - 32768


def offset(theirs, x):
    """Metres from `x` to a coordinate sent as `centimetres`, for less than 327 m."""
    return 0.01 * (((theirs - centimetres(x) + 32768) & 65535) - 32768)


class Swarm(seer.EventModel, abstract=True):
    """Drones with dynamics, radio and senses, without a task."""

    drones = seer.param(16, low=1, high=1_000_000, doc="how many drones")
    density = seer.param(10.0, low=0.001, high=1000.0, doc="drones per hectare (100 x 100 m)")
    height = seer.param(50.0, low=1.0, high=300.0, doc="ceiling, m")
    dt = seer.param(0.1, low=0.001, high=1.0, doc="length of a step, s")
    discrete = seer.param(False, doc="seven actions instead of a 3-d command")
    shared = seer.param(True, doc="one reward for all instead of each one's own")
    team_size = seer.param(0, low=0, doc="drones in a team; 0: all are one team")

    acceleration = seer.param(5.0, low=0.1, high=50.0, doc="acceleration at command 1, m/s^2")
    thrust = seer.param(16.0, low=10.0, high=100.0, doc="largest thrust per mass, m/s^2")
    speed = seer.param(12.0, low=0.1, high=100.0, doc="largest speed, m/s")
    linear_drag = seer.param(0.1, low=0.0, high=5.0, doc="linear drag, 1/s")
    quadratic_drag = seer.param(0.02, low=0.0, high=1.0, doc="quadratic drag, 1/m")
    wind = seer.param(2.0, low=0.0, high=30.0, doc="mean wind, towards +x, m/s")
    gust = seer.param(1.0, low=0.0, high=20.0, doc="standard deviation of the gusts, m/s")
    gust_time = seer.param(3.0, low=1.0, high=1000.0, doc="correlation time of the gusts, s")

    battery = seer.param(180e3, low=1.0, doc="energy of a full battery, J")
    hover_power = seer.param(150.0, low=0.0, doc="power of the rotors in a hover, W")
    avionics_power = seer.param(8.0, low=0.0, doc="power of everything else, W")
    collision = seer.param(1.0, low=0.0, high=50.0, doc="closer than this is a collision, m")
    death_cost = seer.param(10.0, low=0.0, doc="taken from the reward at a death")

    radio_range = seer.param(60.0, low=1.0, high=300.0, doc="range of the radio, m")
    beacon_period = seer.param(1.0, low=0.01, doc="time between a drone's beacons, s")
    packet_bytes = seer.param(100, low=1, high=2047, doc="length of a beacon on the air, bytes")
    bitrate = seer.param(250e3, low=1e3, high=1e9, doc="bit rate of the radio, 1/s")
    loss = seer.param(0.05, low=0.0, high=1.0, doc="probability that a packet is lost anywhere")
    fading = seer.param(0.0, low=0.0, high=20.0, doc="-ln of the reception left at full range")

    sight = seer.param(30.0, low=1.0, high=300.0, doc="how far a drone sees, m")
    neighbours = seer.param(4, low=1, high=16, doc="how many drones it tells apart")
    memory = seer.param(2.0, low=0.1, doc="time in which what was heard fades, s")

    state_columns: tuple[str, ...] = ("alive", "pos", "vel", "charge")
    groups = {"drone": "drones"}
    agents = "drone"
    step = "dt"
    lookahead = airtime

    pos = seer.column("f8", 3, published=True, of="drone")  # m
    vel = seer.column("f8", 3, published=True, of="drone")  # m/s
    gusts = seer.column("f4", 3, of="drone")  # m/s
    charge = seer.column("f8", of="drone", initial=1.0)  # of a full battery
    cause = seer.column("u1", of="drone")  # of death
    near_id = seer.column("i4", lambda p: int(p.neighbours), of="drone")
    near_d2 = seer.column("f8", lambda p: int(p.neighbours), of="drone")  # m^2
    # What was heard, in one cache line: sum of teammates' positions (0-2, m) and their number
    # (3), fading with `memory`; where the last sender was (4-6, m) and when (7, s).
    ears = seer.column("f8", 8, of="drone", initial=[0, 0, 0, 0, 0, 0, 0, -1e9])

    action = seer.action("f4", lambda p: 1 if p.discrete else 3)
    reward = seer.reward()
    terminated = seer.terminated()

    beacon = seer.event()  # to oneself: time to broadcast
    packet = seer.event({"x": "i2", "y": "i2", "z": "i2", "team": "i2"})
    drones_near = seer.grid("pos", cell="sight", high=side)

    @staticmethod
    def action_space(p):
        """Acceleration in [-1, 1] per axis, or Discrete(7): none, +x, -x, +y, -y, +z, -z."""
        from gymnasium import spaces

        return spaces.Discrete(7) if p.discrete else spaces.Box(-1.0, 1.0, (3,), "f4")

    @staticmethod
    def teams(p):
        """Number of each drone's team; None where all are one team."""
        return [i // p.team_size for i in range(p.drones)] if p.team_size else None

    @seer.reset(over="drone")
    def place(ctx, s, i):
        """Evenly spread with random offsets; teams side by side, ids row by row."""
        world = 100.0 * math.sqrt(s.p.drones / s.p.density)
        size = s.p.team_size if s.p.team_size > 0 else s.p.drones
        tiles = math.ceil(math.sqrt(math.ceil(s.p.drones / size)))
        places = math.ceil(math.sqrt(min(size, s.p.drones)))
        tile = world / tiles
        cell = tile / places
        team = i // size
        member = i - team * size
        room = max(cell - s.p.collision, 0.0)
        x = tile * (team % tiles) + cell * (member % places) + 0.5 * (cell - room)
        y = tile * (team // tiles) + cell * (member // places) + 0.5 * (cell - room)
        s.pos[i, 0] = x + room * ctx.uniform()
        s.pos[i, 1] = y + room * ctx.uniform()
        s.pos[i, 2] = s.p.height * (0.2 + 0.6 * ctx.uniform())
        ctx.send("beacon", i, s.p.beacon_period * ctx.uniform())

    @seer.sweep(at="end", over="drone")
    def move(ctx, s, i):
        """Flies one step under the command held through it."""
        a0 = 0.0
        a1 = 0.0
        a2 = 0.0
        if s.p.discrete:
            command = int(s.action[i, 0])
            if command == 1:
                a0 = 1.0
            elif command == 2:
                a0 = -1.0
            elif command == 3:
                a1 = 1.0
            elif command == 4:
                a1 = -1.0
            elif command == 5:
                a2 = 1.0
            elif command == 6:
                a2 = -1.0
        else:
            a0 = unit(s.action[i, 0])
            a1 = unit(s.action[i, 1])
            a2 = unit(s.action[i, 2])

        if s.p.gust > 0.0:  # uniform steps of unit variance: a fifth of a normal's cost
            keep = 1.0 - s.p.dt / s.p.gust_time
            kick = 3.4641016151377544 * s.p.gust * math.sqrt(1.0 - keep * keep)
            s.gusts[i, 0] = keep * s.gusts[i, 0] + kick * (ctx.uniform() - 0.5)
            s.gusts[i, 1] = keep * s.gusts[i, 1] + kick * (ctx.uniform() - 0.5)
            s.gusts[i, 2] = keep * s.gusts[i, 2] + kick * (ctx.uniform() - 0.5)

        f0 = s.p.acceleration * a0
        f1 = s.p.acceleration * a1
        f2 = s.p.acceleration * a2 + GRAVITY
        thrust = math.sqrt(f0 * f0 + f1 * f1 + f2 * f2)
        if thrust > s.p.thrust:
            f0 *= s.p.thrust / thrust
            f1 *= s.p.thrust / thrust
            f2 *= s.p.thrust / thrust
            thrust = s.p.thrust
        u0 = s.vel[i, 0]
        u1 = s.vel[i, 1]
        u2 = s.vel[i, 2]
        w0 = u0 - s.p.wind - s.gusts[i, 0]
        w1 = u1 - s.gusts[i, 1]
        w2 = u2 - s.gusts[i, 2]
        drag = s.p.linear_drag + s.p.quadratic_drag * math.sqrt(w0 * w0 + w1 * w1 + w2 * w2)
        v0 = u0 + s.p.dt * (f0 - drag * w0)
        v1 = u1 + s.p.dt * (f1 - drag * w1)
        v2 = u2 + s.p.dt * (f2 - GRAVITY - drag * w2)
        v = math.sqrt(v0 * v0 + v1 * v1 + v2 * v2)
        if v > s.p.speed:
            v0 *= s.p.speed / v
            v1 *= s.p.speed / v
            v2 *= s.p.speed / v

        world = 100.0 * math.sqrt(s.p.drones / s.p.density)
        x = s.pos[i, 0] + 0.5 * s.p.dt * (u0 + v0)
        y = s.pos[i, 1] + 0.5 * s.p.dt * (u1 + v1)
        z = s.pos[i, 2] + 0.5 * s.p.dt * (u2 + v2)
        if x < 0.0 or x > world:  # the geofence: it stops whoever flies into it
            x = min(max(x, 0.0), world)
            v0 = 0.0
        if y < 0.0 or y > world:
            y = min(max(y, 0.0), world)
            v1 = 0.0
        if z < 0.0 or z > s.p.height:
            z = min(max(z, 0.0), s.p.height)
            v2 = 0.0
        s.pos[i, 0] = x
        s.pos[i, 1] = y
        s.pos[i, 2] = z
        s.vel[i, 0] = v0
        s.vel[i, 1] = v1
        s.vel[i, 2] = v2

        load = thrust / GRAVITY
        power = s.p.avionics_power + s.p.hover_power * load * math.sqrt(load)
        s.charge[i] = s.charge[i] - power * s.p.dt / s.p.battery
        if s.charge[i] <= 0.0:
            s.charge[i] = 0.0
            s.alive[i] = 0
            s.terminated[i] = 1
            s.cause[i] = FLAT

    @seer.sweep(at="end", over="drone", include="all", on_reset=True)
    def sense(ctx, s, i):
        """Collisions, and the part of the observation that every task has."""
        k = s.p.neighbours
        if s.alive[i] == 0 and s.acted[i] == 0:
            return  # dead before this step
        x = s.pos[i, 0]
        y = s.pos[i, 1]
        z = s.pos[i, 2]
        world = 100.0 * math.sqrt(s.p.drones / s.p.density)
        per_sight = 1.0 / s.p.sight
        per_speed = 1.0 / s.p.speed

        count = 0
        closest = s.p.sight * s.p.sight * 4.0
        found = ctx.near("drones_near", x, y, z, s.p.sight)
        for n in range(found):
            j = ctx.found(n)
            if j != i:
                dx = s.seen.pos[j, 0] - x
                dy = s.seen.pos[j, 1] - y
                dz = s.seen.pos[j, 2] - z
                d2 = dx * dx + dy * dy + dz * dz
                if d2 < closest:
                    closest = d2
                if count < k or d2 < s.near_d2[i, k - 1]:
                    m = count if count < k else k - 1
                    while m > 0 and s.near_d2[i, m - 1] > d2:
                        s.near_d2[i, m] = s.near_d2[i, m - 1]
                        s.near_id[i, m] = s.near_id[i, m - 1]
                        m -= 1
                    s.near_d2[i, m] = d2
                    s.near_id[i, m] = j
                    if count < k:
                        count += 1
        if closest < s.p.collision * s.p.collision and s.alive[i] == 1:
            s.alive[i] = 0
            s.terminated[i] = 1
            s.cause[i] = COLLIDED

        s.obs[i, 0] = s.vel[i, 0] * per_speed
        s.obs[i, 1] = s.vel[i, 1] * per_speed
        s.obs[i, 2] = s.vel[i, 2] * per_speed
        s.obs[i, 3] = z / s.p.height
        s.obs[i, 4] = s.charge[i]
        s.obs[i, 5] = min(x * per_sight, 1.0)
        s.obs[i, 6] = min((world - x) * per_sight, 1.0)
        s.obs[i, 7] = min(y * per_sight, 1.0)
        s.obs[i, 8] = min((world - y) * per_sight, 1.0)
        o = OWN
        for m in range(count):
            j = s.near_id[i, m]
            s.obs[i, o] = 1.0
            s.obs[i, o + 1] = (s.seen.pos[j, 0] - x) * per_sight
            s.obs[i, o + 2] = (s.seen.pos[j, 1] - y) * per_sight
            s.obs[i, o + 3] = (s.seen.pos[j, 2] - z) * per_sight
            s.obs[i, o + 4] = (s.seen.vel[j, 0] - s.vel[i, 0]) * per_speed
            s.obs[i, o + 5] = (s.seen.vel[j, 1] - s.vel[i, 1]) * per_speed
            s.obs[i, o + 6] = (s.seen.vel[j, 2] - s.vel[i, 2]) * per_speed
            o += EACH
        for m in range(EACH * (k - count)):
            s.obs[i, o + m] = 0.0
        o = OWN + EACH * k

        per_range = 1.0 / s.p.radio_range
        number = s.ears[i, 3]
        s.obs[i, o] = min(number / NUMBER_SCALE, 4.0)
        s.obs[i, o + 1] = 0.0
        s.obs[i, o + 2] = 0.0
        s.obs[i, o + 3] = 0.0
        if number > 0.01:
            s.obs[i, o + 1] = bounded((s.ears[i, 0] / number - x) * per_range)
            s.obs[i, o + 2] = bounded((s.ears[i, 1] / number - y) * per_range)
            s.obs[i, o + 3] = bounded((s.ears[i, 2] / number - z) * per_range)
        fade = s.p.memory / (s.p.memory + s.p.dt)
        s.ears[i, 0] *= fade
        s.ears[i, 1] *= fade
        s.ears[i, 2] *= fade
        s.ears[i, 3] *= fade
        age = (ctx.time - s.ears[i, 7]) / (4.0 * s.p.beacon_period)
        s.obs[i, o + 4] = 0.0
        s.obs[i, o + 5] = 0.0
        s.obs[i, o + 6] = 0.0
        s.obs[i, o + 7] = 1.0
        if age < 1.0:
            s.obs[i, o + 4] = bounded((s.ears[i, 4] - x) * per_range)
            s.obs[i, o + 5] = bounded((s.ears[i, 5] - y) * per_range)
            s.obs[i, o + 6] = bounded((s.ears[i, 6] - z) * per_range)
            s.obs[i, o + 7] = age

    @seer.on("beacon")
    def broadcast(ctx, s, i, e):
        """One beacon to everybody in range: each copy has its own delay and its own luck."""
        x = s.pos[i, 0]
        y = s.pos[i, 1]
        z = s.pos[i, 2]
        team = 0
        if s.p.team_size > 0:
            team = (i // s.p.team_size) & 32767
        on_air = 8.0 * s.p.packet_bytes / s.p.bitrate
        reach = 1.0 / (s.p.radio_range * s.p.radio_range)
        found = ctx.near("drones_near", x, y, z, s.p.radio_range)
        for n in range(found):
            j = ctx.found(n)
            if j != i:
                dx = s.seen.pos[j, 0] - x
                dy = s.seen.pos[j, 1] - y
                dz = s.seen.pos[j, 2] - z
                d2 = dx * dx + dy * dy + dz * dz
                arrives = True
                if s.p.loss > 0.0 or s.p.fading > 0.0:
                    odds = 1.0 - s.p.loss
                    if s.p.fading > 0.0:
                        odds *= seer.math.exp(-s.p.fading * d2 * reach)
                    arrives = ctx.uniform() < odds
                if arrives:
                    ctx.send(
                        "packet", j, on_air + math.sqrt(d2) / LIGHT,
                        centimetres(x), centimetres(y), centimetres(z), team,
                    )  # fmt: skip
        ctx.send("beacon", i, s.p.beacon_period)

    @seer.on("packet")
    def hear(ctx, s, i, e):
        """Remembers where the sender was, and adds it to the mean of its team."""
        x = s.pos[i, 0] + offset(e.x, s.pos[i, 0])
        y = s.pos[i, 1] + offset(e.y, s.pos[i, 1])
        z = s.pos[i, 2] + offset(e.z, s.pos[i, 2])
        s.ears[i, 4] = x
        s.ears[i, 5] = y
        s.ears[i, 6] = z
        s.ears[i, 7] = ctx.time
        team = 0
        if s.p.team_size > 0:
            team = (i // s.p.team_size) & 32767
        if e.team == team:
            s.ears[i, 0] += x
            s.ears[i, 1] += y
            s.ears[i, 2] += z
            s.ears[i, 3] += 1.0
