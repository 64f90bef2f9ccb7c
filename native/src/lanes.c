/* lanes.c - several workers on one world: phases, claims of shards, and the agreement between.
 *
 * A phase ends when all shards are done, whoever did them. The worker that completes the count is
 * the closer: it alone decides what comes next, and opens that by advancing the phase word. Nobody
 * waits for a worker that holds no claim. */
#include "phase.h"
#include "pool.h"
#include "together.h"

/* A worker takes a shard that is another's home only after waiting (SEER_STEAL_NS), less long if
 * that other did not turn up for the last phase: moving lanes between cores costs more than a
 * short wait. */
#define ABSENT_NS 700

static void open_phase(seer_worker *w, const seer_phase *phase)
{
    seer_engine *e = w->engine;
    uint64_t number = ++e->phase_number;
    seer_bulletin *b = &e->bulletin[number & 1];
    if (phase->kind == SEER_PHASE_SWEEP) e->opened = seer_clock();
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

/* Tests: claims in an order drawn anew for every phase. */
static uint32_t run_shuffled(seer_worker *w, const seer_phase *phase, uint64_t number)
{
    uint32_t ran = 0, shards = w->engine->shards;
    for (uint32_t k = 0; k < shards; k++) {
        w->shuffle = w->shuffle * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        ran += (uint32_t)take_shard(w, (uint32_t)((w->shuffle >> 33) % shards), phase, number);
    }
    return ran;
}

/* Claims and runs the shards of this worker's home, first the one that had most to do: the others
 * can be taken over meanwhile. The number run. */
static uint32_t run_home(seer_worker *w, const seer_phase *phase, uint64_t number)
{
    seer_engine *e = w->engine;
    if (seer_unlikely(w->shuffle)) return run_shuffled(w, phase, number);
    uint32_t low = w->index * e->shards / e->threads, high = (w->index + 1) * e->shards / e->threads;
    uint32_t first = w->heaviest >= low && w->heaviest < high ? w->heaviest : low, most = 0, ran = 0;
    for (uint32_t k = low; k < high; k++) {
        uint32_t shard = k == low ? first : k == first ? low : k, before = w->handled;
        if (!take_shard(w, shard, phase, number)) continue;
        ran++;
        if (w->handled - before <= most) continue;
        most = w->handled - before;
        w->heaviest = shard;
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
    seer_tally(w, v, bid, round, handled, sent);
    e->present = present;
    v->mailed = 1;
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
            int late = now - start >= SEER_STEAL_NS;
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

void seer_help_world(seer_worker *w)
{
    for (;;) {
        seer_phase phase;
        uint64_t number = read_phase(w->engine, &phase);
        if (phase.kind <= SEER_PHASE_PAUSE) return;
        seer_clear_tally(w);
        int closer = count_done(w, run_home(w, &phase, number));
        if (!closer && !wait_or_help(w, &phase, number)) continue;
        seer_world *v = &w->engine->world[phase.world];
        gather(w, v);
        if (phase.kind == SEER_PHASE_SWEEP)
            seer_learn_sweep(w->engine, &phase, 1, seer_clock() - w->engine->opened);
        phase = seer_proceed(w, v);
        open_phase(w, &phase);
    }
}

seer_phase seer_share_world(seer_worker *w, seer_world *v, seer_phase phase)
{
    seer_engine *e = w->engine;
    /* The phases that ended other worlds had no claims. relaxed: published by the phase word; a late
     * CAS still fails, for the words only grow. */
    for (uint32_t k = 0; k < e->shards; k++)
        seer_store(&v->shards[k].claim.phase, e->phase_number, relaxed);
    open_phase(w, &phase);
    seer_count(&w->counters.wakes, seer_pool_call(e));
    seer_help_world(w);
    read_phase(e, &phase); /* how it ended */
    return phase;
}
