"""Models whose agents die early, are born dead, and are watched after their death."""

import numpy as np

import seer


class Crowd(seer.EventModel):
    """Everybody dies at some time; what the dead did last still weighs on the living."""

    count = seer.param(6, low=1)
    hazard = seer.param(0.1, low=0.0, high=1.0)
    unborn = seer.param(0.0, low=0.0, high=1.0)
    choices = seer.param(0, low=0)
    teams_of = seer.param(0, low=0)

    groups = {"agent": "count", "stone": 3}
    agents = "agent"
    step = 0.1
    lookahead = 0.05

    held = seer.column("f8", of="agent")
    age = seer.column("i4", of="agent")
    why = seer.column("u1", of="agent")
    action = seer.action("f4", lambda p: 1 if p.choices else 2)
    obs = seer.observation("f4", 4)
    reward = seer.reward()
    terminated = seer.terminated()
    weight = seer.total("sum", "held")

    @staticmethod
    def action_space(p):
        from gymnasium import spaces

        if p.choices:
            return spaces.Discrete(p.choices, start=3)
        return spaces.Box(np.array([-1, -2], "f4"), np.array([1, 2], "f4"))

    @staticmethod
    def observation_space(p):
        from gymnasium import spaces

        return spaces.Box(1.0, 9.0, (4,), np.float32)

    @staticmethod
    def teams(p):
        return None if p.teams_of == 0 else np.arange(p.count) % p.teams_of

    @seer.reset(over="agent")
    def begin(ctx, s, i):
        s.obs[i, 0] = 1.0 + ctx.uniform()
        if ctx.uniform() < s.p.unborn:
            s.alive[i] = 0

    @seer.sweep(over="agent", include="all")
    def hold(ctx, s, i):
        s.held[i] = s.action[i, 0]

    @seer.sweep(at="end", over="agent", include="all")
    def live(ctx, s, i):
        s.age[i] = s.age[i] + 1
        draw = ctx.uniform()
        s.obs[i, 0] = 1.0 + draw
        s.obs[i, 1] = min(max(s.total.weight, 1.0), 9.0)
        s.obs[i, 2] = 1.0 + min(s.age[i], 8)
        s.obs[i, 3] = 1.0
        s.reward[i] = draw + s.total.weight
        if draw < s.p.hazard:
            if draw < 0.5 * s.p.hazard:
                s.alive[i] = 0
            s.terminated[i] = 1
            s.why[i] = 1 + int(4.0 * draw / s.p.hazard)


class Fragile(seer.EventModel):
    """Fails where an action says so."""

    groups = {"agent": 2}
    agents = "agent"
    step = 0.1
    lookahead = 0.05

    action = seer.action("f4", 1)
    obs = seer.observation("f4", 1)

    @seer.sweep(over="agent")
    def act(ctx, s, i):
        s.obs[i, 0] = s.obs[i, 0] + 1.0
        if s.action[i, 0] > 0.5:
            ctx.fail(7)
