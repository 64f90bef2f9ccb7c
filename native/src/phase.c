#include "phase.h"

#include "pool.h"

#include <string.h>

/* A hand-over and the way back cost about this; what is shorter is not shared. */
#define SHARE_NS 3000.0
#define WAKE_NS 30000.0 /* the same when the helpers have to be woken */
#define LOOK_NS 1000000 /* how often the clock is looked at */
#define HEAVY_NS 500.0 /* an event this long makes even small windows worth sharing */
#define SEGMENT 48 /* windows measured at a time */
#define WARMING 16 /* windows before that, not measured */
#define WAITING 16 /* times as many for a helper to wake up */
#define SHARE_BYTES (256u << 10) /* a copy of this size is worth sharing */

void seer_begin_world(seer_worker *w, seer_world *v)
{
    seer_engine *e = w->engine;
    const seer_model *m = &e->model;
    uint32_t index = seer_world_index(e, v);
    if (e->run == SEER_RUN_STEP)
        memcpy(e->acted + (size_t)index * m->entities, e->alive + (size_t)index * m->entities,
               m->entities);
    v->stop = v->tag = 0;
    v->swept = 1; /* every run begins by publishing: what follows depends on nothing but the state */
    v->handled = 0;
    v->finished = v->tick;
    v->begun = 1;
    /* what the caller has written since the last step; after a reset, everything */
    v->dirty = e->run == SEER_RUN_STEP && !v->restored ? seer_unlike_published(e, v) : UINT64_MAX;
    v->restored = 0;
    w->bid = UINT64_MAX;
    w->bid_round = 0;
    for (uint32_t k = 0; k < e->shards; k++) seer_bid(w, &v->shards[k]);
    v->bid = w->bid;
    v->bid_round = w->bid_round;
}

/* The bounds of section "Bounded": tested when a window is at rest. */
static int over_capacity(seer_worker *w, seer_world *v)
{
    const seer_model *m = &w->engine->model;
    int code = v->pending > m->world_capacity ? SEER_EWORLD
             : v->handled > m->step_capacity  ? SEER_ESTEP : 0;
    if (!code) return 0;
    seer_report(w, &(seer_fault){.code = code, .world = seer_world_index(w->engine, v),
                                 .entity = SEER_NONE, .source = SEER_NONE, .target = SEER_NONE,
                                 .kind = SEER_NONE, .sweep = SEER_NONE, .time = v->finished,
                                 .limit = (int64_t)(code == SEER_EWORLD ? m->world_capacity
                                                                        : m->step_capacity)});
    return 1;
}

static int time_to_pause(seer_worker *w)
{
    seer_engine *e = w->engine;
    /* relaxed: a request that carries nothing */
    if (e->pool.axis == SEER_AXIS_WORLDS && seer_load(&e->pause_wanted, relaxed)) return 1;
    if (w->until_look > 0 && --w->until_look > 0) return 0;
    /* about every millisecond, so that a look costs nothing where phases are short */
    int64_t now = seer_clock(), since = now - w->looked;
    if (since > LOOK_NS) w->look_every = (uint32_t)(w->look_every * (int64_t)LOOK_NS / since);
    else if (w->look_every < 64) w->look_every = 2 * w->look_every + 1;
    w->until_look = w->look_every;
    w->looked = now;
    if (!e->deadline) e->deadline = now + SEER_CALL_NS;
    return now >= e->deadline;
}

static size_t rows_bytes(const seer_engine *e, uint64_t mask)
{
    size_t bytes = 0;
    for (uint32_t c = 0; c < e->model.columns; c++)
        if (mask >> c & 1 && e->model.column[c].seen)
            bytes += (size_t)e->model.group[e->model.column[c].group].count * e->model.column[c].row_bytes;
    return bytes;
}

/* 1 when what is dirty still has to be copied by a phase of its own. */
static int publish(seer_worker *w, seer_world *v, seer_phase *phase)
{
    seer_engine *e = w->engine;
    if (v->dirty >> SEER_COL_ALIVE & 1 && !v->copied && seer_all_as_alive(e, v))
        v->dirty &= ~(UINT64_C(1) << SEER_COL_ALIVE); /* nobody died: the grids are as they were */
    if (e->sharing && v->dirty && !v->copied && rows_bytes(e, v->dirty) > SHARE_BYTES) {
        v->copied = 1;
        phase->kind = SEER_PHASE_PUBLISH;
        phase->mask = v->dirty;
        return 1;
    }
    if (v->dirty) {
        if (!v->copied) seer_publish_rows(e, v, v->dirty, 0, e->model.entities);
        seer_publish_derived(e, v, v->dirty);
    }
    v->dirty = 0;
    v->copied = v->swept = 0;
    return 0;
}

seer_phase seer_next_phase(seer_worker *w, seer_world *v)
{
    seer_engine *e = w->engine;
    const seer_model *m = &e->model;
    seer_phase phase = {.kind = SEER_PHASE_END, .world = seer_world_index(e, v)};

    if (v->failed || seer_unlikely(over_capacity(w, v))) return phase;
    if (v->swept && publish(w, v, &phase)) return phase;
    if (seer_unlikely(time_to_pause(w))) {
        phase.kind = SEER_PHASE_PAUSE;
        return phase;
    }
    int stepping = e->run == SEER_RUN_STEP;
    int last = v->stop == e->stop_count[e->run];
    const seer_stop *stop = &e->stops[e->run][v->stop];
    int64_t until = v->tick + (!stepping ? 0 : last ? m->step : stop->offset);

    if (v->bid != UINT64_MAX && stepping) {
        int64_t limit = m->lookahead ? seer_bucket_end(e->buckets, v->bid) : (int64_t)v->bid;
        uint64_t bucket = m->lookahead ? v->bid : seer_bucket(e->buckets, limit);
        int due = m->lookahead ? v->finished < until && bucket <= seer_bucket(e->buckets, until - 1)
                               : limit < until;
        if (due) {
            phase.kind = SEER_PHASE_WINDOW;
            phase.bucket = bucket;
            phase.round = v->bid_round;
            phase.limit = limit < until ? limit : until;
            v->tag++;
            v->finished = m->lookahead ? phase.limit : limit;
            v->dirty |= m->handler_writes;
            return phase;
        }
    }
    if (last) return phase;
    if (publish(w, v, &phase)) return phase;
    v->finished = until;
    v->swept = 1;
    v->dirty |= m->sweep[stop->sweep].writes;
    v->stop++;
    phase.kind = SEER_PHASE_SWEEP;
    phase.sweep = stop->sweep;
    phase.limit = until;
    v->tag++;
    return phase;
}

/* ---- alone or shared ------------------------------------------------------- */

/* A running mean that one interruption by the operating system does not spoil. */
static void learn(double *mean, double ns)
{
    if (*mean == 0) *mean = ns;
    if (ns > *mean * 1.25) ns = *mean * 1.25;
    *mean += (ns - *mean) * (ns < *mean ? 0.5 : 0.25);
}

/* After how many rounds to try the worse way again, so that the tries cost two per cent. */
static uint32_t rounds_to_probe(double ratio)
{
    double rounds = 32 + 50 * (ratio - 1);
    return rounds < 1024 ? (uint32_t)rounds : 1024;
}

void seer_learn_sweep(seer_engine *e, const seer_phase *phase, int shared, int64_t ns)
{
    learn(&e->sweeps[phase->sweep].ns[shared], (double)ns);
}

/* The better way, and now and then the other one: what is true may change. */
static int sweep_shared(seer_engine *e, const seer_phase *phase)
{
    seer_sweep_tuner *t = &e->sweeps[phase->sweep];
    if (e->shards == 1) return 0;
    if (t->ns[0] < (seer_pool_asleep() ? WAKE_NS : SHARE_NS)) return 0; /* or not yet known */
    int shared = t->ns[1] < t->ns[0] * 0.95; /* or not yet known */
    if (t->until_probe-- > 0) return shared;
    t->until_probe = t->ns[1] > 0 ? rounds_to_probe(t->ns[!shared] / t->ns[shared]) : 0;
    return t->ns[1] > 0 ? !shared : shared;
}

void seer_meter(seer_engine *e, const seer_world *v, uint32_t on)
{
    seer_tuner *t = &e->windows;
    if (!e->sharing || t->on == on) return;
    int64_t now = seer_clock();
    uint64_t handled = e->handled_before + v->handled;
    if (on) {
        t->since = now;
        t->from = handled;
    } else {
        t->spent += now - t->since;
        t->events += handled - t->from;
    }
    t->on = on;
}

/* warming: not measured, for caches and helpers are not ready yet. */
static void begin_segment(seer_tuner *t, uint32_t shared, uint32_t warming)
{
    t->shared = shared;
    t->warming = warming;
    t->left = warming ? WARMING : SEGMENT;
    t->waited = 0;
    t->spent = 0;
    t->events = 0;
}

/* Windows: both ways are measured in segments of some windows each; the better one goes on, the
 * other is tried again now and then, the less often the worse it was. */
static int windows_shared(seer_engine *e, const seer_world *v)
{
    seer_tuner *t = &e->windows;
    if (t->left > 0) {
        t->left--;
        return (int)t->shared;
    }
    seer_meter(e, v, 0);
    /* relaxed: a hint */
    if (t->warming && t->shared && !(seer_load(&e->present, relaxed) & ~UINT64_C(1)) &&
        t->waited++ < WAITING) {
        t->left = WARMING; /* no helper has turned up: to wake one takes long, and only once */
    } else if (t->warming || t->events == 0) {
        begin_segment(t, t->shared, !t->warming);
    } else {
        learn(&t->ns[t->shared], (double)t->spent / (double)t->events);
        uint32_t better = t->ns[1] > 0 && t->ns[1] < t->ns[0] * 0.98, next = better;
        if (t->ns[1] == 0) {
            next = 1;
        } else if (t->shared != better) { /* a probe has ended, or the other way has become better */
            t->until_probe = rounds_to_probe(t->ns[!better] / t->ns[better]);
        } else if (t->until_probe > 0) {
            t->until_probe--;
        } else {
            next = !better;
        }
        if (e->shards == 1) next = 0; /* nothing to share, but perhaps to refine */
        begin_segment(t, next, next != t->shared);
    }
    seer_meter(e, v, 1);
    return (int)t->shared;
}

int seer_worth_refining(const seer_engine *e)
{
    if (e->threads == 1 || e->shards > 1 || e->pool.axis != SEER_AXIS_LANES || e->pool.grain ||
        e->model.entities < 2)
        return 0;
    int heavy = e->windows.ns[0] > HEAVY_NS;
    for (uint32_t k = 0; k < e->model.sweeps; k++) heavy |= e->sweeps[k].ns[0] > WAKE_NS;
    return heavy;
}

int seer_worth_sharing(seer_engine *e, const seer_world *v, const seer_phase *phase)
{
    if (e->pool.share) return e->shards > 1; /* the pool is not held for a single shard */
    switch (phase->kind) {
    case SEER_PHASE_WINDOW: return windows_shared(e, v);
    case SEER_PHASE_SWEEP: return sweep_shared(e, phase);
    case SEER_PHASE_PUBLISH: return e->shards > 1;
    default: return 0;
    }
}
