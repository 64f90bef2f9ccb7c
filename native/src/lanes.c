/* lanes.c - several workers on one world: phases, claims of shards, and the agreement between.
 *
 * A phase ends when all shards are done, whoever did them. The worker that completes the count is
 * the closer: it alone decides what comes next, and opens that by a bulletin. All wait for those who
 * hold a claim, and for the closer; nobody waits for anyone else. */
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
    struct seer_bulletin *b = &e->board.bulletin[number & 1];
    if (phase->kind == SEER_PHASE_SWEEP && !e->pool.share) e->opened = seer_clock();
    uint64_t value = phase->kind == SEER_PHASE_PUBLISH ? phase->mask : (uint64_t)phase->limit;
    /* relaxed: [B1] publishes it before what follows can be seen */
    seer_store(&b->number, UINT64_C(0), relaxed);
    /* [B1] release: who reads a word of this phase also sees that the bulletin no longer has the
     * number it had; pairs with [B2]. */
    seer_store(&b->what, (uint64_t)phase->kind << 60 | (uint64_t)phase->sweep << 48 |
                             (uint64_t)phase->round << 32 | phase->world, release);
    seer_store(&b->value, value, release);
    /* The word before the number: whoever has seen the number may open the next phase, and the word
     * must not go back. */
    seer_word_set(&e->board.phase, number);
    /* [B3] release: the phase, and all that was done before it; pairs with [B4]. */
    seer_store(&b->number, number, release);
    seer_count(&w->counters.shared, phase->kind > SEER_PHASE_PAUSE);
    if (seer_word_wake(&e->board.phase)) seer_count(&w->counters.wakes, 1);
}

/* Whether the phase after `number`, or a later one, is open. */
static inline int next_is_open(seer_engine *e, uint64_t number)
{
    /* relaxed: read_bulletin acquires */
    return seer_load(&e->board.bulletin[(number + 1) & 1].number, relaxed) > number;
}

/* Reads a phase; 0 if it is not that of its bulletin, or no longer. */
static int read_bulletin(seer_engine *e, uint64_t number, seer_phase *phase)
{
    struct seer_bulletin *b = &e->board.bulletin[number & 1];
    /* [B4] acquire: pairs with [B3]. */
    if (seer_load(&b->number, acquire) != number) return 0;
    /* [B2] acquire: pairs with [B1]. */
    uint64_t what = seer_load(&b->what, acquire), value = seer_load(&b->value, acquire);
    if (seer_load(&b->number, relaxed) != number) return 0; /* relaxed: ordered by [B2] */
    *phase = (seer_phase){.kind = what >> 60, .world = (uint32_t)what, .sweep = what >> 48 & 0xfff,
                          .round = what >> 32 & 0xffff, .limit = (int64_t)value, .mask = value};
    if (phase->kind == SEER_PHASE_WINDOW)
        phase->bucket = seer_bucket(e->buckets, phase->limit - (e->model.lookahead > 0));
    return 1;
}

/* The phase that is open, and its number. Waits for whoever is just opening it. */
static uint64_t read_phase(seer_engine *e, seer_phase *phase)
{
    uint64_t number;
    for (;;) {
        number = seer_word_look(&e->board.phase);
        if (read_bulletin(e, number, phase)) return number;
        seer_pause();
    }
}

static int take_shard(seer_worker *w, uint32_t k, const seer_phase *phase, uint64_t number)
{
    seer_engine *e = w->engine;
    seer_world *v = &e->world[phase->world];
    /* not through the world, which is the closer's and on its way between the cores */
    seer_shard *shard = &e->all_shards[(size_t)phase->world * e->shards + k];
    if (!seer_claim_free(&shard->claim, number)) return 0;
    if (!seer_claim_take(&shard->claim, number)) {
        seer_count(&w->counters.cas_retries, 1);
        return 0;
    }
    /* not before a claim has shown that the phase is not over */
    if (w->world != v || w->call != e->call) seer_enter_world(w, v);
    w->parity = number & 1;
    seer_run_shard(w, shard, phase);
    seer_bid(w, shard);
    if (seer_unlikely(shard->crowded)) w->left = SEER_LEFT;
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

/* Starts moving here what others have sent to the shards of a home, and the mailboxes that this
 * worker will push to: a dozen lines at a time instead of one after the other. */
static void fetch_mail(const seer_worker *w, const seer_phase *phase, uint64_t number)
{
    seer_engine *e = w->engine;
    uint32_t parity = ~number & 1;
    seer_shard *shards = e->all_shards + (size_t)phase->world * e->shards;
    for (uint32_t k = 0; k < e->shards; k++) {
        if (k % e->threads != w->index) {
            seer_prefetch(&shards[k].mailbox[number & 1]);
            continue;
        }
        seer_prefetch(&shards[k].mailbox[parity]);
        for (uint32_t other = 0; other < e->threads; other++) {
            if (other == w->index) continue;
            const char *outbox = (const char *)&e->outboxes[((size_t)other * 2 + parity) * e->shards + k];
            seer_prefetch(outbox);
            seer_prefetch(outbox + 64);
        }
    }
}

/* Claims and runs the shards of this worker's home, first the one that had most to do: the others
 * can be taken over meanwhile. Every threads-th shard is at home here, for neighbours are alike (a
 * group, say). The number run. */
static uint32_t run_home(seer_worker *w, const seer_phase *phase, uint64_t number)
{
    seer_engine *e = w->engine;
    if (seer_unlikely(w->shuffle)) return run_shuffled(w, phase, number);
    if (e->threads <= 4) fetch_mail(w, phase, number);
    uint32_t low = w->index, first = w->heaviest, ran = 0;
    uint64_t most = 0;
    for (uint32_t k = low; k < e->shards; k += e->threads) {
        uint32_t shard = k == low ? first : k == first ? low : k;
        uint64_t before = w->handled;
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
    uint64_t present = absent ? seer_load(&e->present, relaxed) : 0; /* relaxed: a hint */
    for (uint32_t k = e->shards; k-- > 0;) { /* owners begin at the low end */
        if (absent && present >> k % e->threads & 1) continue;
        if (take_shard(w, k, phase, number)) {
            seer_count(&w->counters.steals, 1);
            return 1;
        }
    }
    return 0;
}

/* A slot has room for so many events of a phase; all others are told of here. */
static __attribute__((noinline, cold)) void tell_more(seer_worker *w)
{
    seer_gather *g = &w->engine->gather;
    /* relaxed: published by [G1] */
    seer_add(&g->handled_more, w->handled, relaxed);
    seer_add(&g->sent_more, w->sent, relaxed);
    seer_store(&g->more, 1u, relaxed);
    w->handled = w->sent = 0;
}

/* Tells the closer; 1 if that is this worker now. */
static int count_done(seer_worker *w, uint32_t shards)
{
    seer_engine *e = w->engine;
    seer_gather *g = &e->gather;
    if (!shards) return 0;
    seer_prefetch(&g->done);
    if (w->letters) w->left = SEER_LEFT;
    seer_mail_out(w);
    if (seer_unlikely((w->handled | w->sent) >= SEER_TOLD_MAX)) tell_more(w);
    /* relaxed: published by [G1], and overwritten only after the next phase was opened [B3] */
    seer_store(&g->slot[w->index].key, w->bid, relaxed);
    seer_store(&g->slot[w->index].handled, (uint32_t)w->handled + 1, relaxed);
    seer_store(&g->slot[w->index].sent, (uint32_t)w->sent | w->left, relaxed);
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
    uint64_t handled = 0, sent = 0;
    uint32_t round = 0, left = 0;
    for (uint32_t k = 0; k < e->threads; k++) {
        /* relaxed: ordered by [G1]; what is reset is published by [B3] */
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
        uint32_t its_sent = seer_load(&g->slot[k].sent, relaxed);
        sent += its_sent & ~SEER_LEFT;
        left |= its_sent & SEER_LEFT;
        seer_store(&g->slot[k].key, UINT64_MAX, relaxed);
        seer_store(&g->slot[k].handled, 0u, relaxed);
        seer_store(&g->slot[k].sent, 0u, relaxed);
    }
    if (seer_unlikely(seer_load(&g->more, relaxed))) { /* relaxed, as above */
        handled += seer_exchange(&g->handled_more, UINT64_C(0), relaxed);
        sent += seer_exchange(&g->sent_more, UINT64_C(0), relaxed);
        seer_store(&g->more, 0u, relaxed);
    }
    seer_store(&g->done, UINT64_C(0), relaxed);
    seer_tally(w, v, bid, round, handled, sent);
    seer_store(&e->present, present, relaxed); /* relaxed: a hint */
    v->mailed = left != 0;
    if (seer_load(&e->fault_seen, relaxed)) v->failed = 1; /* relaxed: ordered by [G1] */
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
            if (next_is_open(e, number)) return 0;
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
    seer_word_sleep(&e->board.phase, number);
    return 0;
}

/* After a step a helper stays where it is for a while: the next one may follow at once. 1 when it
 * has begun. */
static int linger(seer_worker *w, uint64_t number)
{
    seer_engine *e = w->engine;
    if (w->index == 0) return 0;
    int64_t until = seer_clock() + e->pool.spin_ns;
    do {
        for (int k = 0; k < 16; k++) {
            if (next_is_open(e, number)) return 1;
            seer_pause();
        }
    } while (seer_pool_wants(e) && seer_clock() < until);
    return 0;
}

seer_phase seer_help_world(seer_worker *w)
{
    seer_engine *e = w->engine;
    seer_phase phase;
    for (uint64_t number = 0;; number++) {
        /* the next one where it is expected, else the one that is open now */
        if (!number || !read_bulletin(e, number, &phase)) number = read_phase(e, &phase);
        if (phase.kind <= SEER_PHASE_PAUSE) {
            if (linger(w, number)) continue;
            return phase;
        }
        seer_clear_tally(w);
        int closer = count_done(w, run_home(w, &phase, number));
        if (!closer && !wait_or_help(w, &phase, number)) continue;
        seer_world *v = &e->world[phase.world];
        gather(w, v);
        if (phase.kind == SEER_PHASE_SWEEP && !e->pool.share)
            seer_learn_sweep(e, &phase, 1, seer_clock() - e->opened);
        phase = seer_proceed(w, v);
        open_phase(w, &phase);
    }
}

seer_phase seer_share_world(seer_worker *w, seer_world *v, seer_phase phase)
{
    seer_engine *e = w->engine;
    /* The phases that ended other worlds had no claims. relaxed: published by [B3]; a late
     * CAS still fails, for the words only grow. */
    for (uint32_t k = 0; k < e->shards; k++)
        seer_store(&v->shards[k].claim.phase, e->phase_number, relaxed);
    open_phase(w, &phase);
    seer_count(&w->counters.wakes, seer_pool_call(e));
    return seer_help_world(w);
}
