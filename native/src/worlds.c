/* worlds.c - several workers, each running whole worlds to the end of their step. */
#include "pool.h"
#include "together.h"

static uint32_t blocks_of(const seer_engine *e)
{
    return (e->model.worlds + e->pool.grain - 1) / e->pool.grain;
}

/* Blocks of worlds until none is left to claim. */
void seer_help_worlds(seer_worker *w)
{
    seer_engine *e = w->engine;
    uint32_t victim = w->index, tries = 0;
    uint64_t retries = 0;
    while (tries < e->threads) {
        int64_t block = seer_range_take(&e->home[victim].range, victim != w->index,
                                        &retries);
        if (block < 0) {
            if (victim == w->index && e->threads > 1 && e->pool.share) { /* let the others come */
                int64_t until = seer_clock() + SEER_STEAL_NS;
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
            if (index < e->model.worlds) seer_run_world(w, &e->world[index]);
        }
        /* [C1] seq_cst (hence release): the worlds of the block are done; pairs with [C2] and, as in
         * waiter.h, with the announcement of a sleeping caller. */
        seer_add(&e->completed.value, UINT64_C(1), seq_cst);
        if (seer_load(&e->completed.sleepers, seq_cst)) seer_wake(&e->completed);
    }
}

void seer_share_worlds(seer_worker *w)
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
    seer_help_worlds(w);
    for (uint32_t k = 0; k < e->threads; k++) left += seer_range_close(&e->home[k].range);

    int64_t start = seer_clock(), sleep_at = start + e->pool.spin_ns;
    uint64_t done;
    while ((done = seer_word_look(&e->completed)) != blocks - left) { /* [C2] acquire */
        int64_t now = seer_clock();
        /* relaxed: a request that carries nothing */
        if (now >= e->deadline) seer_store(&e->pause_wanted, 1u, relaxed);
        if (now < sleep_at) {
            for (int k = 0; k < 8; k++) seer_pause();
        } else {
            seer_count(&w->counters.sleeps, 1);
            seer_word_sleep(&e->completed, done);
        }
    }
}
