"""PHOLD as a model: event by event the same as benchmarks/native/phold.c.

The generator stands in a private column, not in the engine, so that the heap in C can draw the
same numbers. 25 % of the events go to a random entity.
"""

import math

import numpy as np

import seer

UNIT = 1_000_000  # ticks in a unit of time
# Quantiles of the exponential distribution with a mean of one unit, in ticks.
DELAYS = np.array([int(-math.log((k + 0.5) / 4096) * UNIT) for k in range(4096)], np.int64)

RNG, SUM, COUNT = 0, 1, 2
SEED = np.uint64(0x9E3779B97F4A7C15)
FACTOR = np.uint64(6364136223846793005)
REMOTE = np.uint64(1 << 22)  # of 2^24
LOW = np.uint64(0xFFFFFFFF)
S7, S13, S17, S52 = np.uint64(7), np.uint64(13), np.uint64(17), np.uint64(52)
S32, S40 = np.uint64(32), np.uint64(40)


def advance(x):
    """One step of xorshift64 (Marsaglia 2003)."""
    x ^= x << S13
    x ^= x >> S7
    x ^= x << S17
    return x


class Phold(seer.EventModel):
    """Every entity has events under way; handling one sends the next."""

    entities = seer.param(1024, low=1, high=2**31, doc="how many entities")
    each = seer.param(1, low=1, high=2**20, doc="events under way for each")
    lookahead_ticks = seer.param(UNIT // 10, low=0, doc="least delay")
    step_ticks = seer.param(100 * UNIT, low=1, doc="length of a step")

    groups = {"entity": "entities"}
    lookahead = staticmethod(lambda p: p.lookahead_ticks * 1e-9)
    step = staticmethod(lambda p: p.step_ticks * 1e-9)
    lane_capacity = 2**20

    row = seer.column("u8", 8)  # generator, checksum, count; the rest fills a cache line
    hop = seer.event()

    @seer.reset
    def place(ctx, s, i):
        x = SEED * np.uint64(i + 1)
        for _ in range(5):
            x = advance(x)
        for _ in range(s.p.each):
            x = advance(x)
            ctx.send_ticks("hop", i, s.p.lookahead_ticks + 1 + DELAYS[x >> S52])
        s.row[i, RNG] = x

    @seer.on("hop")
    def handle(ctx, s, i, e):
        x = s.row[i, RNG]
        mark = np.uint64(e.time) ^ (np.uint64(e.source) << S40) ^ np.uint64(e.sequence)
        s.row[i, SUM] = s.row[i, SUM] * FACTOR + mark
        s.row[i, COUNT] += np.uint64(1)
        x = advance(x)
        to = np.int64(i)
        if x >> S40 < REMOTE:
            to = np.int64(((x & LOW) * np.uint64(s.p.entities)) >> S32)
        x = advance(x)
        s.row[i, RNG] = x
        ctx.send_ticks("hop", to, s.p.lookahead_ticks + 1 + DELAYS[x >> S52])


def checksum(engine):
    """(events handled, checksum over all entities) of the engine's first world."""
    rows = engine.columns["row"][0]
    total = 0
    for value in rows[:, SUM].tolist():
        total = (total * 31 + value) & 0xFFFFFFFFFFFFFFFF
    return int(rows[:, COUNT].sum()), total
