/* engine.c - one step: sweeps and windows, alone or together.
 *
 * A step of a world is a chain of phases (phase.c). Between two of them there is one closer: the
 * worker that finished the last shard, or the caller at the start. It decides the next phase, does
 * what is small by itself, and opens what is worth sharing by advancing the phase word. */
#include "engine.h"

#include <string.h>

#include "environment.h"
#include "phase.h"
#include "pool.h"

/* A worker takes a shard that is another's home only after waiting this long, less if that other
 * did not turn up for the last phase: moving lanes between cores costs more than a short wait. */
#define STEAL_NS 2500
#define ABSENT_NS 700

/* ---- alone ---------------------------------------------------------------- */

static void clear_tally(seer_worker *w)
{
    w->bid = UINT64_MAX;
    w->bid_round = w->handled = w->sent = 0;
}

static void tally(seer_worker *w, seer_world *v, uint64_t bid, uint32_t round, uint32_t handled,
                  uint64_t sent)
{
    v->bid = bid;
    v->bid_round = round;
    v->handled += handled;
    v->pending += sent - handled;
    w->counters.sent += sent;
}

static void run_alone(seer_worker *w, seer_world *v, const seer_phase *phase)
{
    seer_engine *e = w->engine;
    uint32_t crowded = 0;
    int timed = phase->kind == SEER_PHASE_SWEEP && e->sharing;
    int64_t start = timed ? seer_clock() : 0;
    clear_tally(w);
    w->alone = 1;
    for (uint32_t k = 0; k < e->shards; k++) seer_run_shard(w, &v->shards[k], phase);
    for (uint32_t k = 0; k < e->shards; k++) {
        crowded |= v->shards[k].crowded;
        if (e->shards > 1) seer_bid(w, &v->shards[k]); /* a shard may have sent to an earlier one */
    }
    if (seer_unlikely(crowded))
        for (uint32_t k = 0; k < e->shards; k++)
            if (v->shards[k].crowded) seer_find_crowded(w, &v->shards[k], phase->tag);
    w->alone = 0;
    w->handled_long = w->handled > 1000 || phase->kind == SEER_PHASE_SWEEP;
    tally(w, v, w->bid, w->bid_round, w->handled, w->sent);
    if (timed) seer_learn_sweep(e, phase, seer_clock() - start);
}

static void count_phase(seer_worker *w, const seer_phase *phase)
{
    w->counters.windows += phase->kind == SEER_PHASE_WINDOW;
    w->counters.rounds += phase->kind == SEER_PHASE_WINDOW && phase->round > 0;
    w->counters.sweeps += phase->kind == SEER_PHASE_SWEEP;
}

/* The closer's loop: goes on with a world until a phase is worth sharing, or the world is through. */
static seer_phase proceed(seer_worker *w, seer_world *v)
{
    seer_engine *e = w->engine;
    if (w->world != v || w->ctx.step != v->steps) seer_enter_world(w, v);
    for (;;) {
        if (seer_unlikely(w->reported)) v->failed = 1;
        w->reported = 0;
        seer_phase phase = seer_next_phase(w, v);
        count_phase(w, &phase);
        seer_meter(e, v, phase.kind == SEER_PHASE_WINDOW);
        int ends = phase.kind <= SEER_PHASE_PAUSE;
        if (!ends && e->sharing && seer_worth_sharing(e, v, &phase)) return phase;
        if (seer_unlikely(v->mailed) || ends) {
            /* at rest: what is still in the mail is filed, lanes are found too full, and no batch
             * stays linked that the next shared phase may fill */
            seer_phase file = {.kind = SEER_PHASE_FILE, .world = phase.world,
                               .tag = phase.tag - phase.moves};
            run_alone(w, v, &file);
            v->mailed = 0;
        }
        if (ends) {
            v->failed |= w->reported != 0;
            w->reported = 0;
            if (v->failed) phase.kind = SEER_PHASE_END;
            return phase;
        }
        if (seer_likely(!w->reported)) run_alone(w, v, &phase);
    }
}

/* ---- together: the lanes axis ---------------------------------------------- */

static void open_phase(seer_worker *w, const seer_phase *phase)
{
    seer_engine *e = w->engine;
    uint64_t number = ++e->phase_number;
    seer_bulletin *b = &e->bulletin[number & 1];
    const uint64_t field[8] = {(uint64_t)phase->kind << 32 | phase->world,
                               (uint64_t)phase->sweep << 32 | phase->round, phase->bucket,
                               (uint64_t)phase->limit, phase->mask,
                               (uint64_t)phase->tag << 32 | phase->moves, e->present, number};
    for (int k = 0; k < 8; k++)
        /* [B1] release: who reads a field of this phase also sees that the word has moved past the
         * phase that the bulletin was used for before; pairs with [B2]. */
        seer_store(&b->field[k], field[k], release);
    seer_count(&w->counters.shared, phase->kind > SEER_PHASE_PAUSE);
    if (seer_word_advance(&e->phase, number)) seer_count(&w->counters.wakes, 1);
}

/* The phase that is open, and its number. */
static uint64_t read_phase(seer_engine *e, seer_phase *phase)
{
    for (;;) {
        uint64_t number = seer_word_look(&e->phase), field[8];
        seer_bulletin *b = &e->bulletin[number & 1];
        /* [B2] acquire: pairs with [B1]. */
        for (int k = 0; k < 8; k++) field[k] = seer_load(&b->field[k], acquire);
        if (field[7] != number || seer_word_look(&e->phase) != number) continue;
        *phase = (seer_phase){.kind = (uint32_t)(field[0] >> 32), .world = (uint32_t)field[0],
                              .sweep = (uint32_t)(field[1] >> 32), .round = (uint32_t)field[1],
                              .bucket = field[2], .limit = (int64_t)field[3], .mask = field[4],
                              .tag = (uint32_t)(field[5] >> 32), .moves = (uint32_t)field[5],
                              .present = field[6]};
        return number;
    }
}

static int take_shard(seer_worker *w, uint32_t k, const seer_phase *phase, uint64_t number)
{
    seer_world *v = &w->engine->world[phase->world];
    seer_shard *shard = &v->shards[k];
    if (!seer_claim_free(&shard->claim, number)) return 0;
    if (!seer_claim_take(&shard->claim, number)) {
        seer_count(&w->counters.cas_retries, 1);
        return 0;
    }
    /* not before a claim has shown that the phase is not over */
    if (w->world != v || w->ctx.step != v->steps) seer_enter_world(w, v);
    w->parity = number & 1;
    seer_run_shard(w, shard, phase);
    return 1;
}

/* Claims and runs the shards that begin at this worker's home: all of its own, or one of another's
 * that nobody else holds. The number run. */
static uint32_t run_home(seer_worker *w, const seer_phase *phase, uint64_t number)
{
    seer_engine *e = w->engine;
    uint32_t low = w->index * e->shards / e->threads, high = (w->index + 1) * e->shards / e->threads;
    uint32_t ran = 0;
    if (seer_unlikely(w->shuffle)) { /* tests: every order of claims must do */
        low = 0;
        high = e->shards;
    }
    for (uint32_t k = low; k < high; k++) {
        uint32_t shard = k;
        if (seer_unlikely(w->shuffle)) {
            w->shuffle = w->shuffle * UINT64_C(6364136223846793005) + 1442695040888963407u;
            shard = (uint32_t)((w->shuffle >> 33) % e->shards);
        }
        ran += (uint32_t)take_shard(w, shard, phase, number);
    }
    return ran;
}

/* One shard of another's home that nobody has claimed; `absent` only of those who took no part in
 * the last phase. */
static uint32_t run_stolen(seer_worker *w, const seer_phase *phase, uint64_t number, int absent)
{
    seer_engine *e = w->engine;
    for (uint32_t k = e->shards; k-- > 0;) { /* owners begin at the low end */
        uint32_t shard = (w->index * e->shards / e->threads + k) % e->shards;
        uint32_t owner = (uint32_t)(((uint64_t)(shard + 1) * e->threads - 1) / e->shards);
        if (absent && phase->present >> owner & 1) continue;
        if (take_shard(w, shard, phase, number)) {
            seer_count(&w->counters.steals, 1);
            return 1;
        }
    }
    return 0;
}

/* Tells the closer; 1 if that is this worker now. */
static int count_done(seer_worker *w, uint32_t shards)
{
    seer_engine *e = w->engine;
    seer_gather *g = &e->gather;
    if (!shards) return 0;
    seer_mail_out(w);
    /* relaxed: published by [G1], and overwritten only after the next phase was opened */
    seer_store(&g->slot[w->index].key, w->bid, relaxed);
    seer_store(&g->slot[w->index].handled, w->handled + 1, relaxed);
    seer_store(&g->slot[w->index].sent, w->sent, relaxed);
    if (!e->model.lookahead) seer_store(&g->round[w->index], w->bid_round, relaxed);
    /* [G1] acq_rel: releases shards, mail and bids of this worker and, for the one that completes
     * the count, acquires those of all others. Pairs with itself. */
    return seer_add(&g->done, (uint64_t)shards, acq_rel) + shards == e->shards;
}

static void gather(seer_worker *w, seer_world *v)
{
    seer_engine *e = w->engine;
    seer_gather *g = &e->gather;
    uint64_t bid = UINT64_MAX, present = 0;
    uint32_t round = 0, handled = 0;
    uint64_t sent = 0;
    for (uint32_t k = 0; k < e->threads; k++) {
        /* relaxed: ordered by [G1]; what is reset is published by the phase word */
        uint64_t key = seer_load(&g->slot[k].key, relaxed);
        uint32_t its = e->model.lookahead ? 0 : seer_load(&g->round[k], relaxed);
        if (key < bid || (key == bid && its < round)) {
            bid = key;
            round = its;
        }
        uint32_t told = seer_load(&g->slot[k].handled, relaxed);
        if (told) {
            handled += told - 1;
            present |= UINT64_C(1) << k;
        }
        sent += seer_load(&g->slot[k].sent, relaxed);
        seer_store(&g->slot[k].key, UINT64_MAX, relaxed);
        seer_store(&g->slot[k].handled, 0u, relaxed);
        seer_store(&g->slot[k].sent, 0u, relaxed);
    }
    seer_store(&g->done, UINT64_C(0), relaxed);
    tally(w, v, bid, round, handled, sent);
    e->present = present;
    v->mailed = 1;
    w->handled_long = handled > 1000;
    if (seer_load(&e->fault_seen, relaxed)) v->failed = 1;
}

/* Waits for the next phase; meanwhile helps those who are behind. 1 if it became the closer. */
static int wait_or_help(seer_worker *w, const seer_phase *phase, uint64_t number)
{
    seer_engine *e = w->engine;
    int64_t start = seer_clock(), sleep_at = start + e->pool.spin_ns;
    int all_claimed = 0;
    seer_count(&w->counters.spins, 1);
    for (;;) {
        for (int k = 0; k < 8; k++) {
            if (seer_word_look(&e->phase) != number) return 0;
            seer_pause();
        }
        int64_t now = seer_clock();
        if (!all_claimed && now - start >= ABSENT_NS) {
            int late = now - start >= STEAL_NS;
            while (run_stolen(w, phase, number, !late))
                if (count_done(w, 1)) return 1;
            all_claimed = late;
        }
        if (now >= sleep_at && all_claimed) break;
    }
    seer_count(&w->counters.sleeps, 1);
    seer_word_sleep(&e->phase, number);
    return 0;
}

static void work_together(seer_worker *w)
{
    for (;;) {
        seer_phase phase;
        uint64_t number = read_phase(w->engine, &phase);
        if (phase.kind <= SEER_PHASE_PAUSE) return;
        clear_tally(w);
        int closer = count_done(w, run_home(w, &phase, number));
        if (!closer && !wait_or_help(w, &phase, number)) continue;
        seer_world *v = &w->engine->world[phase.world];
        gather(w, v);
        phase = proceed(w, v);
        open_phase(w, &phase);
    }
}

/* One world on the lanes axis; 1 when it has to pause. */
static int run_world_shared(seer_worker *w, seer_world *v)
{
    seer_engine *e = w->engine;
    seer_phase phase = proceed(w, v);
    if (phase.kind > SEER_PHASE_PAUSE) {
        /* The phases that ended other worlds had no claims. relaxed: published by the phase word; a
         * late CAS still fails, for the words only grow. */
        for (uint32_t k = 0; k < e->shards; k++)
            seer_store(&v->shards[k].claim.phase, e->phase_number, relaxed);
        open_phase(w, &phase);
        seer_count(&w->counters.wakes, seer_pool_call(e));
        work_together(w);
        read_phase(e, &phase); /* how it ended */
    }
    return phase.kind == SEER_PHASE_PAUSE;
}

/* ---- together: the worlds axis ---------------------------------------------- */

static void end_world(seer_engine *e, seer_world *v)
{
    v->busy = v->begun = 0;
    if (e->run == SEER_RUN_STEP && !v->failed) {
        v->tick += e->model.step;
        v->steps++;
    }
}

static void run_world(seer_worker *w, seer_world *v)
{
    if (!v->busy) return;
    if (!v->begun) seer_begin_world(w, v);
    if (proceed(w, v).kind == SEER_PHASE_END) end_world(w->engine, v);
}

static uint32_t blocks_of(const seer_engine *e)
{
    return (e->model.worlds + e->pool.grain - 1) / e->pool.grain;
}

/* Blocks of worlds until none is left to claim. */
static void work_on_worlds(seer_worker *w)
{
    seer_engine *e = w->engine;
    uint32_t victim = w->index, tries = 0;
    uint64_t retries = 0;
    while (tries < e->threads) {
        int64_t block = seer_range_take(&e->home[victim].range, victim != w->index,
                                        &retries);
        if (block < 0) {
            if (victim == w->index && e->threads > 1 && e->pool.share) { /* let the others come */
                int64_t until = seer_clock() + STEAL_NS;
                while (seer_clock() < until && seer_word_look(&e->completed) < blocks_of(e)) seer_pause();
            }
            victim = (victim + 1) % e->threads;
            tries++;
            continue;
        }
        tries = 0;
        seer_count(&w->counters.cas_retries, retries);
        retries = 0;
        seer_count(&w->counters.steals, victim != w->index);
        for (uint32_t k = 0; k < e->pool.grain; k++) {
            uint64_t index = (uint64_t)block * e->pool.grain + k;
            if (index < e->model.worlds) run_world(w, &e->world[index]);
        }
        /* [C1] seq_cst (hence release): the worlds of the block are done; pairs with [C2] and, as in
         * waiter.h, with the announcement of a sleeping caller. */
        seer_add(&e->completed.value, UINT64_C(1), seq_cst);
        if (seer_load(&e->completed.sleepers, seq_cst)) seer_wake(&e->completed);
    }
}

static void run_worlds_shared(seer_worker *w)
{
    seer_engine *e = w->engine;
    uint32_t blocks = blocks_of(e), left = 0;
    seer_store(&e->completed.value, UINT64_C(0), relaxed); /* relaxed: published by [R1] */
    seer_store(&e->pause_wanted, 0u, relaxed);
    for (uint32_t k = 0; k < e->threads; k++)
        seer_range_fill(&e->home[k].range, (uint32_t)((uint64_t)blocks * k / e->threads),
                        (uint32_t)((uint64_t)blocks * (k + 1) / e->threads));
    seer_count(&w->counters.wakes, seer_pool_call(e));
    seer_count(&w->counters.shared, 1);
    work_on_worlds(w);
    for (uint32_t k = 0; k < e->threads; k++) left += seer_range_close(&e->home[k].range);

    int64_t start = seer_clock(), sleep_at = start + e->pool.spin_ns;
    uint64_t done;
    while ((done = seer_word_look(&e->completed)) != blocks - left) { /* [C2] acquire */
        int64_t now = seer_clock();
        if (now >= e->deadline) seer_store(&e->pause_wanted, 1u, relaxed);
        if (now < sleep_at) {
            for (int k = 0; k < 8; k++) seer_pause();
        } else {
            seer_count(&w->counters.sleeps, 1);
            seer_word_sleep(&e->completed, done);
        }
    }
}

/* ---- the call ------------------------------------------------------------------ */

void seer_engine_help(seer_engine *e, uint32_t index)
{
    seer_worker *w = &e->worker[index];
    seer_environment outer = seer_environment_enter();
    if (e->pool.axis == SEER_AXIS_LANES) work_together(w);
    else work_on_worlds(w);
    seer_environment_leave(outer);
}

/* Of one world's faults, found by several workers, those of the earliest phase count. */
static int collect_faults(seer_engine *e, int of_one_world)
{
    uint32_t first = UINT32_MAX;
    for (uint32_t k = 0; of_one_world && k < e->threads; k++)
        if (e->worker[k].fault.code && e->worker[k].fault_tag < first) first = e->worker[k].fault_tag;
    for (uint32_t k = 0; k < e->threads; k++) {
        seer_worker *w = &e->worker[k];
        if (!of_one_world || w->fault_tag == first) seer_merge_fault(&e->fault, &w->fault);
        w->fault.code = 0;
        w->reported = 0;
    }
    return e->fault.code;
}

/* Goes on with all busy worlds. */
static int run(seer_engine *e)
{
    seer_worker *w = &e->worker[0];
    int paused = 0;
    e->deadline = seer_clock() + 20000000; /* ns */
    e->sharing = e->threads > 1 && e->model.entities > 0 && seer_pool_take(e);
    if (e->sharing && e->pool.axis == SEER_AXIS_WORLDS && e->model.worlds > 1) {
        e->sharing = 0; /* within a world */
        run_worlds_shared(w);
        seer_pool_give();
    } else {
        int together = e->sharing;
        e->sharing = together && e->pool.axis == SEER_AXIS_LANES;
        for (uint32_t k = 0; k < e->model.worlds && !paused; k++) {
            seer_world *v = &e->world[k];
            if (!v->busy) continue;
            if (!v->begun) seer_begin_world(w, v);
            paused = run_world_shared(w, v);
            if (paused) break;
            end_world(e, v);
            e->handled_before += v->handled;
            collect_faults(e, 1);
            seer_store(&e->fault_seen, 0u, relaxed); /* relaxed: no helper is in a phase now */
        }
        if (together) seer_pool_give();
    }
    for (uint32_t k = 0; k < e->model.worlds; k++)
        if (e->world[k].busy) return SEER_AGAIN;
    if (!collect_faults(e, 0)) return 0;
    e->failed = 1;
    return -e->fault.code;
}

/* Enters the engine: one call at a time, in the process that made it. */
static int enter(seer_engine *e)
{
    uint32_t idle = 0;
    /* [E2] acquire: pairs with [E1]; the engine is as its last call left it. */
    if (seer_cas(&e->stepping, &idle, 1u, acquire, relaxed)) {
        seer_store(&e->forks, seer_pool_forks(), relaxed); /* relaxed: read after fork, by one thread */
        return 0;
    }
    return seer_load(&e->forks, relaxed) != seer_pool_forks() ? -SEER_EFORKED : -SEER_EBUSY;
}

static int leave(seer_engine *e, int code)
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
    return leave(e, code);
}

static int start(seer_engine *e, uint32_t kind)
{
    e->run = kind;
    e->fault = (seer_fault){0};
    seer_store(&e->fault_seen, 0u, relaxed); /* relaxed: no helper is at work yet */
    return run_and_leave(e);
}

int seer_engine_step(seer_engine *e, const uint8_t *mask)
{
    int code = enter(e);
    if (code) return code;
    if (e->failed || e->paused) return leave(e, -SEER_ESTATE);
    for (uint32_t k = 0; k < e->model.worlds; k++)
        if ((!mask || mask[k]) && e->world[k].steps < 0) return leave(e, -SEER_ESTATE);
    for (uint32_t k = 0; k < e->model.worlds; k++) e->world[k].busy = !mask || mask[k];
    return start(e, SEER_RUN_STEP);
}

int seer_engine_reset(seer_engine *e, const uint8_t *mask, const uint64_t *seeds,
                      const uint64_t *episodes)
{
    int code = enter(e);
    if (code) return code;
    for (uint32_t k = 0; k < e->model.worlds; k++)
        if (e->world[k].failed && mask && !mask[k]) return leave(e, -SEER_ESTATE);
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
    int code = enter(e);
    if (code) return code;
    if (!e->paused) return leave(e, -SEER_ESTATE);
    return run_and_leave(e);
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
