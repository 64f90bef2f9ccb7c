/* engine.c - one step: sweeps and windows, alone or together.
 *
 * A step of a world is a chain of phases (phase.c). Between two of them there is one closer: the
 * worker that finished the last shard, or the caller at the start. It decides the next phase, does
 * what is small by itself, and opens what is worth sharing (lanes.c). */
#include "engine.h"

#include <string.h>

#include "environment.h"
#include "phase.h"
#include "pool.h"
#include "together.h"

/* ---- alone ---------------------------------------------------------------- */

void seer_clear_tally(seer_worker *w)
{
    w->bid = UINT64_MAX;
    w->bid_round = w->left = 0;
    w->handled = w->sent = 0;
}

void seer_tally(seer_worker *w, seer_world *v, uint64_t bid, uint32_t round, uint64_t handled,
                uint64_t sent)
{
    v->bid = bid;
    v->bid_round = round;
    v->handled += handled;
    v->pending += sent - handled;
    w->counters.sent += sent;
}

/* rest: whether a phase has been decided meanwhile that what is found now came before. */
static void run_alone(seer_worker *w, seer_world *v, const seer_phase *phase, uint32_t rest)
{
    seer_engine *e = w->engine;
    uint32_t crowded = 0;
    int timed = phase->kind == SEER_PHASE_SWEEP && e->sharing;
    int64_t start = timed ? seer_clock() : 0;
    seer_clear_tally(w);
    w->alone = 1;
    for (uint32_t k = 0; k < e->shards; k++) seer_run_shard(w, &v->shards[k], phase);
    for (uint32_t k = 0; k < e->shards; k++) {
        crowded |= v->shards[k].crowded;
        seer_bid(w, &v->shards[k]); /* not before: a shard may have sent to an earlier one */
    }
    if (seer_unlikely(crowded))
        for (uint32_t k = 0; k < e->shards; k++)
            if (v->shards[k].crowded) seer_find_crowded(w, &v->shards[k], rest);
    w->alone = 0;
    seer_tally(w, v, w->bid, w->bid_round, w->handled, w->sent);
    if (timed) seer_learn_sweep(e, phase, 0, seer_clock() - start);
}

static void count_phase(seer_worker *w, const seer_phase *phase)
{
    w->counters.windows += phase->kind == SEER_PHASE_WINDOW;
    w->counters.rounds += phase->kind == SEER_PHASE_WINDOW && phase->round > 0;
    w->counters.sweeps += phase->kind == SEER_PHASE_SWEEP;
}

/* The closer's loop. */
seer_phase seer_proceed(seer_worker *w, seer_world *v)
{
    seer_engine *e = w->engine;
    if (w->world != v || w->call != e->call) seer_enter_world(w, v);
    for (;;) {
        if (seer_unlikely(w->reported)) v->failed = 1;
        w->reported = 0;
        seer_phase phase = seer_next_phase(w, v);
        count_phase(w, &phase);
        seer_meter(e, v, phase.kind == SEER_PHASE_WINDOW);
        int ends = phase.kind <= SEER_PHASE_PAUSE;
        if (!ends && e->sharing && seer_worth_sharing(e, v, &phase)) return phase;
        if (seer_unlikely(v->mailed)) {
            /* at rest: what is still in the mail is filed, lanes are found too full, and no batch
             * stays linked that the next shared phase may fill */
            seer_phase file = {.kind = SEER_PHASE_FILE, .world = phase.world};
            run_alone(w, v, &file, seer_moves(&phase));
            v->mailed = 0;
        }
        if (ends) {
            v->failed |= w->reported != 0;
            w->reported = 0;
            if (v->failed) phase.kind = SEER_PHASE_END;
            return phase;
        }
        if (seer_likely(!w->reported)) run_alone(w, v, &phase, 0);
    }
}

static void copy_rows(const seer_engine *e, uint32_t world)
{
    const seer_column *c = &e->model.column[e->mirror.column];
    size_t count = e->model.group[c->group].count, size = c->row_bytes;
    char *to = (char *)e->mirror.copy + world * count * size;
    const char *from = (const char *)c->latest + world * count * size;
    if (!e->mirror.present) {
        memcpy(to, from, count * size);
        return;
    }
    const uint8_t *present = e->mirror.present + world * count;
    for (size_t k = 0; k < count; k++, to += size, from += size)
        memcpy(to, present[k] ? from : e->mirror.filler, size);
}

static void end_world(seer_engine *e, seer_world *v)
{
    v->busy = v->begun = 0;
    if (v->failed) return;
    if (e->run == SEER_RUN_STEP) {
        v->tick += e->model.step;
        v->steps++;
    }
    if (e->mirror.copy) copy_rows(e, seer_world_index(e, v));
}

void seer_run_world(seer_worker *w, seer_world *v)
{
    if (!v->busy) return;
    if (!v->begun) seer_begin_world(w, v);
    if (seer_proceed(w, v).kind == SEER_PHASE_END) end_world(w->engine, v);
}

/* ---- the call ------------------------------------------------------------------ */

void seer_engine_help(seer_engine *e, uint32_t index)
{
    seer_worker *w = &e->worker[index];
    seer_environment outer = seer_environment_enter();
    if (e->pool.axis == SEER_AXIS_LANES) seer_help_world(w);
    else seer_help_worlds(w);
    seer_environment_leave(outer);
}

/* Of one world's faults, found by several workers, those of the earliest phase count. */
static int collect_faults(seer_engine *e, int of_one_world)
{
    uint32_t first = UINT32_MAX;
    if (!seer_load(&e->fault_seen, relaxed)) return e->fault.code; /* relaxed: nobody is at work */
    for (uint32_t k = 0; of_one_world && k < e->threads; k++)
        if (e->worker[k].fault.code && e->worker[k].fault_tag < first) first = e->worker[k].fault_tag;
    for (uint32_t k = 0; k < e->threads; k++) {
        seer_worker *w = &e->worker[k];
        if (!of_one_world || w->fault_tag == first) seer_merge_fault(&e->fault, &w->fault);
        w->fault.code = 0;
        w->reported = 0;
    }
    seer_store(&e->fault_seen, 0u, relaxed); /* relaxed, as above */
    return e->fault.code;
}

/* Goes on with all busy worlds. */
static int run(seer_engine *e)
{
    seer_worker *w = &e->worker[0];
    int lanes = e->pool.axis == SEER_AXIS_LANES;
    e->deadline = lanes ? 0 : seer_clock() + SEER_CALL_NS; /* 0: at the first look at the clock */
    int together = e->threads > 1 && (lanes ? e->shards : e->model.worlds) > 1 && seer_pool_take(e);
    /* phases of a world; with a single shard they are only measured */
    e->sharing = lanes && e->threads > 1 && (together || e->shards == 1);
    if (together && !lanes) {
        seer_share_worlds(w);
        seer_pool_give();
    } else {
        for (uint32_t k = 0; k < e->model.worlds; k++) {
            seer_world *v = &e->world[k];
            if (!v->busy) continue;
            if (!v->begun) seer_begin_world(w, v);
            seer_phase phase = seer_proceed(w, v);
            if (phase.kind > SEER_PHASE_PAUSE) phase = seer_share_world(w, v, phase);
            if (phase.kind == SEER_PHASE_PAUSE) break;
            end_world(e, v);
            e->handled_before += v->handled;
            collect_faults(e, 1);
        }
        if (together) seer_pool_give();
    }
    for (uint32_t k = 0; k < e->model.worlds; k++)
        if (e->world[k].busy) return SEER_AGAIN;
    if (!collect_faults(e, 0)) return 0;
    e->failed = 1;
    return -e->fault.code;
}

int seer_engine_enter(seer_engine *e)
{
    uint32_t found = 0, mine = seer_pool_forks() + 1;
    /* [E2] acquire: pairs with [E1]; the engine is as its last call left it. */
    if (seer_cas(&e->stepping, &found, mine, acquire, relaxed)) return 0;
    return found == mine ? -SEER_EBUSY : -SEER_EFORKED;
}

int seer_engine_leave(seer_engine *e, int code)
{
    seer_store(&e->stepping, 0u, release); /* [E1] release: pairs with [E2] */
    return code;
}

static int run_and_leave(seer_engine *e)
{
    seer_environment outer = seer_environment_enter();
    int code = run(e);
    seer_environment_leave(outer);
    e->paused = code == SEER_AGAIN;
    return seer_engine_leave(e, code);
}

static int start(seer_engine *e, uint32_t kind)
{
    e->run = kind;
    e->call++;
    e->fault = (seer_fault){0};
    seer_store(&e->fault_seen, 0u, relaxed); /* relaxed: no helper has a claim yet */
    return run_and_leave(e);
}

int seer_engine_step(seer_engine *e, const uint8_t *mask)
{
    int code = seer_engine_enter(e);
    if (code) return code;
    if (e->failed || e->paused) return seer_engine_leave(e, -SEER_ESTATE);
    for (uint32_t k = 0; k < e->model.worlds; k++)
        if ((!mask || mask[k]) && e->world[k].steps < 0) return seer_engine_leave(e, -SEER_ESTATE);
    if (seer_worth_refining(e)) {
        code = seer_refine(e);
        if (e->failed) return seer_engine_leave(e, code); /* else, short of memory, it goes on as it is */
    }
    for (uint32_t k = 0; k < e->model.worlds; k++) e->world[k].busy = !mask || mask[k];
    return start(e, SEER_RUN_STEP);
}

int seer_engine_reset(seer_engine *e, const uint8_t *mask, const uint64_t *seeds,
                      const uint64_t *episodes)
{
    int code = seer_engine_enter(e);
    if (code) return code;
    for (uint32_t k = 0; k < e->model.worlds; k++)
        if (e->world[k].failed && mask && !mask[k]) return seer_engine_leave(e, -SEER_ESTATE);
    for (uint32_t k = 0; k < e->model.worlds; k++) {
        seer_world *v = &e->world[k];
        v->busy = !mask || mask[k];
        v->begun = 0;
        if (v->busy) seer_clear_world(e, v, seeds[k], episodes[k]);
    }
    e->failed = e->paused = 0;
    return start(e, SEER_RUN_RESET);
}

int seer_engine_continue(seer_engine *e)
{
    int code = seer_engine_enter(e);
    if (code) return code;
    if (!e->paused) return seer_engine_leave(e, -SEER_ESTATE);
    return run_and_leave(e);
}

int seer_engine_mirror(seer_engine *e, uint32_t column, void *copy, const uint8_t *present,
                       const void *filler)
{
    if (column >= e->model.columns || (present && !filler)) return -SEER_EINVAL;
    int code = seer_engine_enter(e);
    if (code) return code;
    if (e->paused) return seer_engine_leave(e, -SEER_ESTATE);
    e->mirror.copy = copy;
    e->mirror.present = present;
    e->mirror.filler = filler;
    e->mirror.column = column;
    return seer_engine_leave(e, 0);
}

void seer_engine_abandon(seer_engine *e)
{
    for (uint32_t k = 0; k < e->model.worlds; k++) {
        if (e->world[k].busy) e->world[k].failed = 1;
        e->world[k].busy = 0;
    }
    e->failed = 1;
    e->paused = 0;
}
