"""A model whose behaviour is all in its parameters, so that random models compile only once.

Every entity keeps a digest of the events that it handled, in their order: two runs with equal
digests handled the same events in the same order. Delays are multiples of a quantum, so that many
events fall on one instant and ties have to be broken.
"""

from __future__ import annotations

from hypothesis import strategies as st

import seer

_FACTOR = 6364136223846793005


def stir(digest, value):
    """A new digest; 64-bit integers wrap in numba and in numpy."""
    return digest * _FACTOR + value


class Traffic(seer.EventModel):
    """Random senders: events to others, to oneself, now and later; deaths, revivals, crowds."""

    nodes = seer.param(8, low=1, doc="entities that send")
    sinks = seer.param(2, low=0, doc="entities that only receive")
    ahead = seer.param(1000, low=0, doc="lookahead, ticks")
    length = seer.param(10_000, low=1, doc="step, ticks")
    middle = seer.param(0.5, low=0.0, high=1.0, doc="where in the step the second sweep is")
    quantum = seer.param(100, low=1, doc="delays are multiples of it, ticks")
    spread = seer.param(20, low=1, doc="delays are up to so many quanta")
    fan = seer.param(2, low=0, doc="most events that an event causes")
    life = seer.param(3, low=0, doc="length of a chain of events")
    here = seer.param(0.3, doc="share of events sent to oneself")
    now = seer.param(0.3, doc="share of those sent for the present instant where that is allowed")
    far = seer.param(0.05, doc="share sent far into the future")
    wide = seer.param(0.2, doc="share with a large payload")
    death = seer.param(0.0, doc="chance that an event kills")
    radius = seer.param(30.0, low=0.0)

    groups = {"node": "nodes", "sink": "sinks"}
    agents = "node"
    step = staticmethod(lambda p: p.length * 1e-9)
    lookahead = staticmethod(lambda p: p.ahead * 1e-9)
    lane_capacity = 100_000

    digest = seer.column("i8", published=True)
    pos = seer.column("f8", 2, published=True)
    place = seer.column("f8", 3, published=True, of="node")
    crowd = seer.column("i4", of="node")
    warmth = seer.column("f8")
    push = seer.action("f4", 2)
    sight = seer.observation("f4", 3)
    gain = seer.reward()
    hit = seer.event({"life": "i4", "weight": "f4"})
    load = seer.event({"life": "i4", "a": "f8", "b": "i8", "c": "f8"})
    knock = seer.event({"life": "i2"}, even_if_dead=True)
    pulse = seer.event()
    flat = seer.grid("pos", cell=lambda p: max(p.radius, 1.0), low=0.0, high=100.0)
    solid = seer.grid("place", cell=7.0, low=(10.0, 20.0), high=(60.0, 70.0))
    heat = seer.total("sum", "warmth")
    mean = seer.total("mean", "pos", 1, alive_only=True)
    coldest = seer.total("argmin", "warmth", alive_only=True)
    highest = seer.total("max", "digest")

    @seer.reset
    def scatter(ctx, s, i):
        s.pos[i, 0] = 100.0 * ctx.uniform()
        s.pos[i, 1] = 100.0 * ctx.uniform()
        s.warmth[i] = ctx.normal()
        ctx.send_ticks("pulse", i, ctx.integers(s.p.length))

    @seer.sweep(at=0.0, over="node", on_reset=True)
    def wander(ctx, s, i):
        s.pos[i, 0] += s.push[i, 0] + 0.1 * ctx.normal()
        s.pos[i, 1] += s.push[i, 1] + 0.1 * ctx.normal()
        for k in range(2):
            s.place[i, k] = s.pos[i, k]
        s.place[i, 2] = 10.0 * ctx.uniform()
        if s.total.coldest == i:
            s.warmth[i] += 1.0

    @seer.sweep(at=lambda p: int(p.middle * p.length) * 1e-9, include="acted")
    def meet(ctx, s, i):
        found = ctx.near("flat", s.pos[i, 0], s.pos[i, 1], s.p.radius)
        for k in range(found):
            j = ctx.found(k)
            s.digest[i] = stir(s.digest[i], j)
            s.warmth[i] += 0.01 * s.seen.pos[j, 0]
        if found > 1:
            j = ctx.found(ctx.integers(found))
            if j != i:
                ctx.send_ticks("hit", j, s.p.ahead, s.p.life, 0.5)
            else:
                ctx.send_ticks("hit", i, 0, 0, 0.25)

    @seer.sweep(at="end", over="node", include="all")
    def look(ctx, s, i):
        s.crowd[i] = ctx.near("solid", s.pos[i, 0], s.pos[i, 1], 5.0, 0.5 * s.p.radius)
        for k in range(s.crowd[i]):
            s.digest[i] = stir(s.digest[i], ctx.found(k))
        s.sight[i, 0] = s.warmth[i]
        s.sight[i, 1] = s.total.heat
        s.sight[i, 2] = s.total.mean
        s.gain[i] = s.total.highest * 1e-18 + s.alive[i]

    @seer.on("pulse")
    def beat(ctx, s, i, e):
        s.digest[i] = stir(stir(s.digest[i], e.time), e.sequence)
        ctx.send_ticks("pulse", i, s.p.length)
        spawn(ctx, s, i, s.p.life)

    @seer.on("hit")
    def struck(ctx, s, i, e):
        s.digest[i] = stir(stir(stir(stir(s.digest[i], e.time), e.source), e.sequence), e.round)
        s.warmth[i] += e.weight
        if ctx.uniform() < s.p.death:
            s.alive[i] = 0
        spawn(ctx, s, i, e.life)

    @seer.on("load")
    def loaded(ctx, s, i, e):
        s.digest[i] = stir(stir(stir(stir(s.digest[i], e.time), e.source), e.round), e.b)
        s.warmth[i] = 0.5 * s.warmth[i] + 0.25 * e.a - e.c
        spawn(ctx, s, i, e.life)

    @seer.on("knock")
    def revived(ctx, s, i, e):
        s.digest[i] = stir(stir(s.digest[i], e.time), e.source)
        s.alive[i] = 1


def spawn(ctx, s, i, life):
    """The events that an event causes."""
    if life <= 0:
        return
    entities = s.p.nodes + s.p.sinks
    for _ in range(ctx.integers(s.p.fan + 1)):
        j = i
        if ctx.uniform() >= s.p.here:
            j = ctx.integers(entities)
        wait = s.p.quantum * ctx.integers(s.p.spread)
        if ctx.uniform() < s.p.now:
            wait = 0
        if ctx.uniform() < s.p.far:
            wait = s.p.length * (1 + ctx.integers(100))
        if j != i:
            wait += s.p.ahead
        if ctx.uniform() < s.p.wide:
            ctx.send_ticks("load", j, wait, life - 1, s.warmth[i], s.digest[i], 0.5)
        elif s.p.death > 0.0 and ctx.uniform() < 0.2:
            ctx.send_ticks("knock", j, wait, life - 1)
        else:
            ctx.send_ticks("hit", j, wait, life - 1, ctx.uniform())


def traffic_parameters() -> st.SearchStrategy[dict]:
    """Parameters of random models; small enough that chains of events do not explode."""
    return st.fixed_dictionaries(
        {
            "nodes": st.one_of(st.integers(1, 12), st.integers(13, 80)),
            "sinks": st.integers(0, 5),
            "ahead": st.sampled_from([0, 0, 1, 7, 100, 1000, 10_000, 25_000]),
            "length": st.sampled_from([1, 50, 1000, 10_000]),
            "middle": st.sampled_from([0.0, 0.25, 0.5, 1.0]),
            "quantum": st.sampled_from([1, 10, 100, 1000]),
            "spread": st.sampled_from([1, 3, 20]),
            "fan": st.integers(0, 3),
            "life": st.integers(0, 3),
            "here": st.sampled_from([0.0, 0.3, 1.0]),
            "now": st.sampled_from([0.0, 0.5, 1.0]),
            "far": st.sampled_from([0.0, 0.1, 0.5]),
            "wide": st.sampled_from([0.0, 0.3, 1.0]),
            "death": st.sampled_from([0.0, 0.05, 0.3]),
            "radius": st.sampled_from([0.0, 5.0, 40.0, 500.0]),
        }
    )
