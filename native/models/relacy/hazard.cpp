/* hazard.cpp - an engine is freed while the pool's workers may look at it, under relacy. What pool.c
 * does (thread_main, seer_pool_call, seer_pool_forget) is repeated here with the same orders.
 *
 * One thread makes an engine, calls the workers to it twice, forgets it and frees it, and does so again
 * with a second one in the same place; two workers come early, late or not at all, and linger in the
 * engine while the pool works for it (seer_pool_wants). The job is stored only when it changes.
 *
 * Broken variants:
 *   BUG_ANNOUNCE the announcement is a release store: it may pass the second look
 *   BUG_LOOK     no second look at the job
 *   BUG_FORGET   frees without looking at the workers' slots
 *   BUG_SAME     the job is not taken away before the slots are looked at, so that the second engine,
 *                in the same place, is taken for the first */
#include "model.h"

#include "futex.h"

#ifdef BUG_ANNOUNCE
#define H1 release
#else
#define H1 seq_cst
#endif
#define STORE_(p, v, order) seer_store(p, v, order)

namespace {

enum { WORKERS = 2, ENGINES = 2, CALLS = 2 };

struct engine {
    rl::var<int> alive;
};

struct hazard_test : rl::test_suite<hazard_test, WORKERS + 1> {
    engine place;
    SEER_ATOMIC(engine *) job;
    SEER_ATOMIC(engine *) looks_at[WORKERS];
    SEER_ATOMIC(uint32_t) stop;
    seer_word epoch;
    seer_futex mine;

    void before()
    {
        futex = &mine;
        place.alive($) = 0;
        seer_store(&job, (engine *)0, relaxed);
        for (int i = 0; i < WORKERS; i++) seer_store(&looks_at[i], (engine *)0, relaxed);
        seer_store(&stop, 0u, relaxed);
        seer_store(&epoch.value, (uint64_t)0, relaxed);
        seer_store(&epoch.sleepers, 0u, relaxed);
    }

    void call(engine *e)
    {
        if (seer_load(&job, relaxed) != e) seer_store(&job, e, seq_cst);
        seer_word_advance(&epoch, seer_load(&epoch.value, relaxed) + 1);
    }

    bool wants(engine *e) { return seer_load(&job, relaxed) == e && !seer_load(&stop, relaxed); }

    void forget(engine *e)
    {
#ifndef BUG_SAME
        engine *expected = e;
        seer_cas(&job, &expected, (engine *)0, seq_cst, seq_cst);
#endif
#ifndef BUG_FORGET
        for (int k = 0; k < WORKERS; k++)
            while (seer_load(&looks_at[k], seq_cst) == e) rl::yield(1, $);
#endif
    }

    void thread(unsigned me)
    {
        if (me == WORKERS) {
            for (int k = 0; k < ENGINES; k++) {
                place.alive($) = k + 1;
                for (int c = 0; c < CALLS; c++) call(&place);
                forget(&place);
                place.alive($) = 0;
            }
            seer_store(&stop, 1u, release);
            seer_word_advance(&epoch, seer_load(&epoch.value, relaxed) + 1);
            return;
        }
        uint64_t seen = 0;
        for (;;) {
            uint64_t value = seer_word_look(&epoch);
            seen = value != seen ? value : seer_word_sleep(&epoch, seen);
            if (seer_load(&stop, acquire)) return;
            engine *e = seer_load(&job, relaxed);
            if (!e) continue;
            STORE_(&looks_at[me], e, H1);
#ifdef BUG_LOOK
            bool same = true;
#else
            bool same = seer_load(&job, seq_cst) == e;
#endif
            for (int k = 0; same && k < 3; k++) { /* helps, and lingers */
                RL_ASSERT((int)e->alive($) > 0);
                if (!wants(e)) break;
                rl::yield(1, $);
            }
            seer_store(&looks_at[me], (engine *)0, release);
        }
    }
};

} // namespace

int main(int argc, char **argv)
{
    return seer_model_main<hazard_test>(argc, argv, 50000);
}
