/* test_stress.c - the oracle's results while calls pause all the time and threads are held up anywhere.
 *
 * Linked with a core in which every atomic operation first calls seer_slow (atomics.h), and which
 * pauses whenever it looks at the clock (SEER_CALL_NS=0): the steps that lie between two stores of
 * one thread become long enough for all others to overtake it, call after call. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "mix.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LESS 5 /* how much less to do */
#else
#define LESS 1
#endif

/* ---- held up ------------------------------------------------------------------------- */

/* One atomic operation in so many is held up; 0: none. Relaxed, so that it orders nothing else. */
static uint32_t slowness_;
static void slowness(uint32_t often) { __atomic_store_n(&slowness_, often, __ATOMIC_RELAXED); }

void seer_slow(void);
void seer_slow(void)
{
    static _Thread_local uint64_t state;
    uint32_t often = __atomic_load_n(&slowness_, __ATOMIC_RELAXED);
    if (!often) return;
    if (!state) state = (uint64_t)(uintptr_t)&state;
    uint64_t r = dice(&state);
    if (r % often) return;
    switch (r >> 40 & 15) {
    case 0: nanosleep(&(struct timespec){.tv_nsec = 1 + (long)(r >> 44 & 0x3fff)}, NULL); break;
    case 1: case 2: case 3: sched_yield(); break;
    default: for (volatile uint32_t k = r >> 44 & 0xfff; k > 0;) k = k - 1;
    }
}

static int noisy;

/* Wants a CPU of its own, and lets go of it at odd times. */
static void *noise(void *argument)
{
    uint64_t state = (uint64_t)(uintptr_t)argument;
    while (__atomic_load_n(&noisy, __ATOMIC_RELAXED)) {
        for (volatile uint32_t k = dice(&state) & 0x7fff; k > 0;) k = k - 1;
        sched_yield();
    }
    return NULL;
}

/* ---- one run, and what it has to give -------------------------------------------------- */

typedef struct run {
    mix_options options;
    seer_pool_config pool;
    uint64_t seed;
    int steps, code, pauses;
    seer_engine *engine;
    mix_columns columns;
} run;

/* A small model that sends much from shard to shard, on several threads that share all. */
static run any_run(uint64_t *state)
{
    static const uint32_t spins[] = {0, 1000, 20000}, grains[] = {1, 2, 4, 8};
    uint64_t r = dice(state), r2 = dice(state);
    int64_t lookahead = r & 7 ? 1000 : r & 8 ? 0 : 1;
    run x = {.seed = r >> 8 & 0xffff, .steps = 2 + (int)(r >> 4 & 3)};
    x.options = (mix_options){.worlds = 1 + (r2 >> 60 == 0), .entities = 2 + (uint32_t)(r >> 32 & 31),
                              .lookahead = lookahead,
                              .step = lookahead > 1 ? 5000 + (int64_t)(r >> 40 & 0x7fff) : 40,
                              .tokens = 1 + (r >> 60 & 1), .remote = 60 + (r2 & 127), .burst = r2 >> 8 & 15,
                              .instant = r2 >> 16 & 1 ? 30 : 0, .far = r2 >> 17 & 15,
                              .death = r2 >> 21 & 3 ? 0 : 200};
    x.pool = (seer_pool_config){.threads = 2 + (uint32_t)(r2 >> 24) % 3, .axis = SEER_AXIS_LANES,
                                .grain = grains[r2 >> 32 & 3], .spin_ns = spins[(r2 >> 34) % 3],
                                .share = 1, .shuffle = r2 >> 40 & 1 ? r2 >> 41 : 0};
    return x;
}

static void hangs(int number)
{
    (void)number;
    static const char words[] = "test_stress: a run does not come to its end\n";
    _exit(write(2, words, sizeof words - 1) > 0 ? 1 : 2);
}

static void make(run *x)
{
    alarm(60); /* s: a run takes some ms, a lost wake-up for ever */
    x->engine = mix_make(&x->options, &x->pool, &x->columns);
}

static void reset(run *x)
{
    x->code = mix_reset(x->engine, &x->options, x->seed);
}

static void step(run *x)
{
    if (x->code) return;
    x->code = seer_engine_step(x->engine, NULL);
    for (; x->code == SEER_AGAIN; x->pauses++) x->code = seer_engine_continue(x->engine);
}

static void compare(run *x, const char *what)
{
    mix_columns wanted;
    mix_totals totals;
    mix_pending pending;
    char words[160];
    snprintf(words, sizeof words, "%s: seed %" PRIu64 ", %u entities, lookahead %d, %u threads, "
             "grain %u, spin %u, after %d pauses", what, x->seed, x->options.entities,
             (int)x->options.lookahead, x->pool.threads, x->pool.grain, x->pool.spin_ns, x->pauses);
    EQUAL(x->code, 0, "%s", words);
    if (x->code) return;
    mix_oracle(&x->options, x->seed, x->steps, &wanted, &totals, &pending);
    mix_pending got = mix_export(x->engine, &x->options);
    mix_compare(&x->options, &wanted, &x->columns, &pending, &got, words);
    seer_counters counters;
    seer_engine_counters(x->engine, &counters, NULL);
    EQUAL(counters.handled, totals.handled, "%s", words);
    EQUAL(counters.sent, totals.sent, "%s", words);
    mix_free_pending(&got);
    mix_free_pending(&pending);
    mix_free_columns(&wanted);
}

static void unmake(run *x)
{
    seer_engine_free(x->engine);
    mix_free_columns(&x->columns);
}

/* ---- the tests ------------------------------------------------------------------------- */

static void many_runs(uint64_t state, int runs, const char *what)
{
    int pauses = 0;
    for (int k = 0; k < runs && failures < 20; k++) {
        run x = any_run(&state);
        slowness(2u << k % 8);
        make(&x);
        reset(&x);
        for (int s = 0; s < x.steps; s++) step(&x);
        slowness(0);
        compare(&x, what);
        unmake(&x);
        pauses += x.pauses;
    }
    CHECK(pauses > runs, "only %d pauses in %d runs", pauses, runs);
    printf("  %s: %d runs, %d pauses\n", what, runs, pauses);
}

static void steps_that_pause_all_the_time_give_the_oracles_results(void)
{
    many_runs(1, 1500 / LESS, "paused");
}

static void steps_among_threads_that_take_the_cpus_give_the_oracles_results(void)
{
    pthread_t thread[3];
    __atomic_store_n(&noisy, 1, __ATOMIC_RELAXED);
    for (uintptr_t k = 0; k < 3; k++) pthread_create(&thread[k], NULL, noise, (void *)(k + 1));
    many_runs(2, 300 / LESS, "preempted");
    __atomic_store_n(&noisy, 0, __ATOMIC_RELAXED);
    for (int k = 0; k < 3; k++) pthread_join(thread[k], NULL);
}

/* Any pool after any call; in a pause none is taken. */
static void pools_changed_between_all_calls_give_the_oracles_results(void)
{
    uint64_t state = 3;
    for (int k = 0; k < 200 / LESS && failures < 20; k++) {
        run x = any_run(&state);
        slowness(4u << k % 6);
        make(&x);
        for (int s = -1; s < x.steps; s++) {
            seer_pool_config pool = any_run(&state).pool;
            pool.axis = dice(&state) & 3 ? SEER_AXIS_LANES : SEER_AXIS_WORLDS;
            if (dice(&state) % 4 == 0) pool.threads = 1;
            pool.share = dice(&state) & 1;
            if (pool.axis == SEER_AXIS_LANES && dice(&state) % 4 == 0) pool.grain = 0;
            EQUAL(seer_engine_set_pool(x.engine, &pool), 0, "before step %d", s);
            if (s < 0) {
                reset(&x);
                continue;
            }
            x.code = seer_engine_step(x.engine, NULL);
            for (; x.code == SEER_AGAIN; x.pauses++) {
                if (x.pauses % 8 == 0)
                    EQUAL(seer_engine_set_pool(x.engine, &pool), -SEER_ESTATE, "in a pause");
                x.code = seer_engine_continue(x.engine);
            }
        }
        slowness(0);
        compare(&x, "changed pools");
        unmake(&x);
    }
}

static long allocations_left = -1; /* until one fails, -1: none does */

void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    if (allocations_left > 0) allocations_left--;
    return allocations_left == 0 ? NULL : __real_aligned_alloc(alignment, bytes);
}

/* An engine that was refused memory by set_pool goes on as before, or says that it needs a reset. */
static void pools_changed_while_memory_is_short_give_the_oracles_results_or_none(void)
{
    uint64_t state = 8;
    int kept = 0, lost = 0, fine = 0;
    for (int k = 0; k < 300 / LESS && failures < 20; k++) {
        run x = any_run(&state);
        x.options.tokens = 4;
        make(&x);
        reset(&x);
        step(&x);
        seer_pool_config pool = any_run(&state).pool;
        uint64_t memory = seer_engine_memory(x.engine);
        allocations_left = 1 + k % 60;
        int code = seer_engine_set_pool(x.engine, &pool);
        allocations_left = -1;
        CHECK(code == 0 || code == -SEER_ENOMEM, "run %d: set_pool gives %d", k, code);
        seer_fault fault;
        seer_engine_fault(x.engine, &fault);
        if (code && !fault.code) EQUAL(seer_engine_memory(x.engine), memory, "run %d: bytes", k);
        int next = seer_engine_step(x.engine, NULL);
        while (next == SEER_AGAIN) next = seer_engine_continue(x.engine);
        if (next == -SEER_ESTATE) {
            EQUAL(code, -SEER_ENOMEM, "run %d: events are lost without a word", k);
            lost++;
            reset(&x);
            step(&x);
            step(&x);
        } else {
            EQUAL(next, 0, "run %d: a step", k);
            kept += code != 0;
            fine += code == 0;
        }
        x.steps = 2;
        if (next == 0) compare(&x, "short of memory");
        EQUAL(x.code, 0, "run %d: at last", k);
        unmake(&x);
    }
    CHECK(kept > 5 && lost > 0 && fine > 5, "%d kept, %d lost, %d fine", kept, lost, fine);
}

/* Few entities have one shard; when their handlers have proved to be slow, the next step makes more. */
static void shards_made_smaller_for_slow_handlers_give_the_oracles_results(void)
{
    uint64_t state = 4;
    for (int k = 0; k < 20 / LESS && failures < 20; k++) {
        run x = any_run(&state);
        x.options.entities += 20;
        x.options.lookahead = k % 4 ? 1000 : 1;
        x.options.step = k % 4 ? 60000 : 100;
        x.options.work = 3000;
        x.options.death = k % 3 ? 0 : 20;
        x.options.far = 4;
        x.steps = 8;
        x.pool.grain = x.pool.share = 0;
        make(&x);
        reset(&x);
        for (int s = 0; s < x.steps; s++) {
            seer_counters before;
            seer_engine_counters(x.engine, &before, NULL);
            if (s == 0) EQUAL(before.mailed, 0, "mail within one shard");
            step(&x);
        }
        seer_counters after;
        seer_engine_counters(x.engine, &after, NULL);
        CHECK(after.mailed > 0 && after.shared > 0, "run %d: still one shard after %" PRIu64 " events",
              k, after.handled);
        compare(&x, "refined");
        unmake(&x);
    }
}

static void engines_freed_while_helpers_linger_leave_nothing_behind(void)
{
    uint64_t state = 5;
    for (int k = 0; k < 1000 / LESS && failures < 20; k++) {
        run x = any_run(&state);
        x.pool.spin_ns = k % 2 ? 200000 : 20000;
        x.pool.axis = k % 5 ? SEER_AXIS_LANES : SEER_AXIS_WORLDS;
        x.options.step /= 8;
        if (x.options.step < 10) x.options.step = 10;
        x.steps = 1 + k % 2;
        slowness(4u << k % 6);
        make(&x);
        reset(&x);
        for (int s = 0; s < x.steps; s++) step(&x);
        if (k % 16 == 0) {
            slowness(0);
            compare(&x, "freed");
        }
        EQUAL(x.code, 0, "run %d", k);
        unmake(&x); /* its memory may be the next one's */
    }
    slowness(0);
}

static void two_engines_in_turn_do_not_disturb_each_other(void)
{
    uint64_t state = 6;
    for (int k = 0; k < 60 / LESS && failures < 20; k++) {
        run x[2] = {any_run(&state), any_run(&state)};
        x[1].pool.axis = k % 4 ? SEER_AXIS_LANES : SEER_AXIS_WORLDS;
        slowness(4u << k % 6);
        for (int i = 0; i < 2; i++) x[i].steps = 8, make(&x[i]), reset(&x[i]);
        for (int s = 0; s < 8; s++)
            for (int i = 0; i < 2; i++) step(&x[i]);
        slowness(0);
        for (int i = 0; i < 2; i++) compare(&x[i], i ? "the other" : "the one"), unmake(&x[i]);
    }
}

static void *step_all(void *argument)
{
    run *x = argument;
    for (int s = 0; s < x->steps; s++) step(x);
    return NULL;
}

static void two_engines_at_once_do_not_disturb_each_other(void)
{
    uint64_t state = 7;
    for (int k = 0; k < 60 / LESS && failures < 20; k++) {
        run x[2] = {any_run(&state), any_run(&state)};
        pthread_t thread[2];
        x[1].pool.axis = k % 4 ? SEER_AXIS_LANES : SEER_AXIS_WORLDS;
        slowness(4u << k % 6);
        for (int i = 0; i < 2; i++) x[i].steps = 8, make(&x[i]), reset(&x[i]);
        for (int i = 0; i < 2; i++) pthread_create(&thread[i], NULL, step_all, &x[i]);
        for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
        slowness(0);
        for (int i = 0; i < 2; i++) compare(&x[i], i ? "the other" : "the one"), unmake(&x[i]);
    }
}

int main(void)
{
    signal(SIGALRM, hangs);
    TEST(steps_that_pause_all_the_time_give_the_oracles_results);
    TEST(steps_among_threads_that_take_the_cpus_give_the_oracles_results);
    TEST(pools_changed_between_all_calls_give_the_oracles_results);
    TEST(pools_changed_while_memory_is_short_give_the_oracles_results_or_none);
    TEST(shards_made_smaller_for_slow_handlers_give_the_oracles_results);
    TEST(engines_freed_while_helpers_linger_leave_nothing_behind);
    TEST(two_engines_in_turn_do_not_disturb_each_other);
    TEST(two_engines_at_once_do_not_disturb_each_other);
    return failures != 0;
}
