/* test_calls.c - calls that overlap or take long: pauses for signals, a second caller, fork, workers
 * asleep, shards that change hands. */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "mix.h"
#include "tiny.h"

static const mix_options model = MIX_USUAL;

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* ---- a step that takes long -------------------------------------------------------------- */

static int32_t dawdle(seer_ctx *ctx, int64_t entity, const seer_event *e, const void *payload)
{
    (void)e, (void)payload;
    ++*tiny_row(ctx, TINY_COUNT);
    pause_ms((long)ctx->params[0]);
    return seer_send(ctx, 0, entity, 10, 0);
}

static int32_t dawdle_start(seer_ctx *ctx, int64_t first, int64_t last)
{
    for (int64_t i = first; i < last; i++) {
        ctx->entity = (uint32_t)i;
        if (!seer_send(ctx, 0, i, 10, 0)) return 0;
    }
    return 1;
}

static tiny slow_model(uint32_t worlds, uint64_t ms)
{
    tiny t = {.worlds = worlds, .entities = 4, .kinds = 1, .sweeps = 1, .step = 200, .param = {ms}};
    t.kind[0].handler = dawdle;
    t.sweep[0] = (seer_sweep){dawdle_start, 0, 0, 0, SEER_SWEEP_ON_RESET};
    return t;
}

static void step_that_takes_long_pauses_and_goes_on(void)
{
    seer_pool_config pools[64];
    uint32_t n = tiny_pools(pools);
    for (uint32_t k = 0; k < n; k += 3) {
        tiny t = slow_model(2, 2);
        tiny_make(&t, &pools[k]);
        EQUAL(tiny_reset(&t, 1), 0, "reset");
        int pauses = 0, code = seer_engine_step(t.engine, NULL);
        while (code == SEER_AGAIN && pauses < 1000) {
            if (pauses++ == 0) { /* what is not legal meanwhile */
                EQUAL(seer_engine_step(t.engine, NULL), -SEER_ESTATE, "a step in a pause");
                EQUAL(seer_engine_set_pool(t.engine, &pools[0]), -SEER_ESTATE, "set_pool in a pause");
            }
            code = seer_engine_continue(t.engine);
        }
        EQUAL(code, 0, "pool %u", k);
        /* 160 events of 2 ms on at most 4 threads: 80 ms at least */
        CHECK(pauses >= 1, "pool %u: no pause", k);
        for (int i = 0; i < 8; i++) EQUAL(t.count[i], 19, "pool %u, entity %d", k, i);
        tiny_free(&t);
    }
}

/* The mail of the last phase before a pause must not be lost, nor its buffers be filled again. */
static void paused_steps_with_mail_give_the_oracles_results(void)
{
    mix_options heavy = {.worlds = 2, .entities = 64, .lookahead = 1000, .step = 30000, .tokens = 1,
                         .remote = 200, .burst = 8, .work = 15000};
    mix_columns wanted;
    mix_totals totals;
    mix_pending pending;
    mix_oracle(&heavy, 4, 4, &wanted, &totals, &pending);
    for (uint32_t threads = 1; threads <= 4; threads++) {
        seer_pool_config pool = {.threads = threads, .axis = SEER_AXIS_LANES, .grain = 4, .share = 1,
                                 .spin_ns = 20000};
        mix_columns columns;
        seer_engine *engine = mix_make(&heavy, &pool, &columns);
        EQUAL(mix_reset(engine, &heavy, 4), 0, "reset");
        int pauses = 0;
        for (int s = 0; s < 4; s++) {
            int code = seer_engine_step(engine, NULL);
            for (; code == SEER_AGAIN; pauses++) code = seer_engine_continue(engine);
            EQUAL(code, 0, "step");
        }
        CHECK(pauses > 0, "%u threads: no pause in %" PRIu64 " events", threads, totals.handled);
        mix_pending got = mix_export(engine, &heavy);
        mix_compare(&heavy, &wanted, &columns, &pending, &got, "with pauses");
        mix_free_pending(&got);
        seer_engine_free(engine);
        mix_free_columns(&columns);
    }
    mix_free_pending(&pending);
    mix_free_columns(&wanted);
}

static void step_given_up_in_a_pause_can_be_reset(void)
{
    seer_pool_config pools[64];
    uint32_t n = tiny_pools(pools);
    for (uint32_t k = 0; k < n; k += 5) {
        tiny t = slow_model(2, 4);
        tiny_make(&t, &pools[k]);
        EQUAL(tiny_reset(&t, 1), 0, "reset");
        EQUAL(seer_engine_step(t.engine, NULL), SEER_AGAIN, "pool %u: a pause", k);
        seer_engine_abandon(t.engine);
        EQUAL(seer_engine_step(t.engine, NULL), -SEER_ESTATE, "a step after giving up");
        EQUAL(tiny_reset(&t, 1), 0, "reset after giving up");
        EQUAL(seer_engine_pending(t.engine, 1), 4, "pending");
        EQUAL(seer_engine_tick(t.engine, 1), 0, "tick");
        tiny_free(&t);
    }
}

/* A step in a thread of its own; between its pauses another call may get in, and is waited for. */
static void *step_it(void *argument)
{
    tiny *t = argument;
    int code;
    do code = seer_engine_step(t->engine, NULL);
    while (code == -SEER_EBUSY);
    while (code == SEER_AGAIN || code == -SEER_EBUSY) code = seer_engine_continue(t->engine);
    return (void *)(intptr_t)code;
}

static void second_call_into_a_stepping_engine_is_busy(void)
{
    seer_pool_config pool = {.threads = 2, .axis = SEER_AXIS_LANES, .grain = 1};
    tiny t = slow_model(1, 10);
    tiny_make(&t, &pool);
    EQUAL(tiny_reset(&t, 1), 0, "reset");
    pthread_t thread;
    pthread_create(&thread, NULL, step_it, &t);
    int busy = 0;
    for (int k = 0; k < 200 && !busy; k++) { /* between pauses there are short gaps: not ours */
        pause_ms(1);
        int code = seer_engine_set_pool(t.engine, &pool);
        busy = code == -SEER_EBUSY;
        CHECK(busy || code == -SEER_ESTATE || code == 0, "set_pool gives %d", code);
    }
    CHECK(busy, "never busy");
    void *result;
    pthread_join(thread, &result);
    EQUAL((intptr_t)result, 0, "the step itself");
    tiny_free(&t);
}

/* ---- fork ---------------------------------------------------------------------------------- */

static int exit_code_of(pid_t child)
{
    int status = 0;
    for (int k = 0; k < 20000; k++) { /* 20 s, then it hangs */
        if (waitpid(child, &status, WNOHANG) == child)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
        pause_ms(1);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return 99;
}

static void fork_with_an_idle_pool_works_in_both_processes(void)
{
    seer_pool_config pool = {.threads = 3, .axis = SEER_AXIS_LANES, .grain = 4, .share = 1};
    mix_columns columns;
    seer_engine *engine = mix_make(&model, &pool, &columns);
    EQUAL(mix_reset(engine, &model, 3), 0, "reset");
    EQUAL(stepped(engine), 0, "step");
    int ends[2];
    if (pipe(ends)) exit(2);
    pid_t child = fork();
    int code = stepped(engine);
    mix_pending pending = mix_export(engine, &model);
    uint64_t sum = code ? 0 : mix_sum(&model, &columns, &pending);
    mix_free_pending(&pending);
    seer_engine_free(engine);
    if (child == 0) {
        if (write(ends[1], &sum, sizeof sum) != sizeof sum) _exit(3);
        _exit(code != 0);
    }
    EQUAL(exit_code_of(child), 0, "the child");
    uint64_t its = 0;
    EQUAL(read(ends[0], &its, sizeof its), sizeof its, "what the child wrote");
    CHECK(sum && its == sum, "parent and child differ");
    close(ends[0]), close(ends[1]);
    mix_free_columns(&columns);
}

static void fork_during_a_step_spoils_the_childs_engine_only(void)
{
    seer_pool_config pool = {.threads = 2, .axis = SEER_AXIS_LANES, .grain = 1, .share = 1};
    tiny t = slow_model(1, 10), fresh = {.kinds = 1};
    tiny_make(&t, &pool);
    EQUAL(tiny_reset(&t, 1), 0, "reset");
    pthread_t thread;
    pthread_create(&thread, NULL, step_it, &t);
    int forked = 0;
    for (int k = 0; k < 100 && !forked; k++) {
        pause_ms(3);
        if (seer_engine_set_pool(t.engine, &pool) != -SEER_EBUSY) continue;
        pid_t child = fork();
        if (child == 0) {
            int code = seer_engine_step(t.engine, NULL);
            /* Unless the fork hit a gap between two pauses, the engine is unusable here. */
            if (code != -SEER_EFORKED) _exit(code == -SEER_ESTATE ? 40 : 41);
            fresh.kind[0].handler = NULL;
            tiny_make(&fresh, &pool);
            if (tiny_reset(&fresh, 1) || stepped(fresh.engine)) _exit(42);
            tiny_free(&fresh);
            _exit(0);
        }
        int code = exit_code_of(child);
        CHECK(code == 0 || code == 40, "the child ended with %d", code);
        forked = code == 0;
    }
    CHECK(forked, "no fork hit a running step");
    void *result;
    pthread_join(thread, &result);
    EQUAL((intptr_t)result, 0, "the parent's step");
    for (int i = 0; i < 4; i++) EQUAL(t.count[i], 19, "the parent's entity %d", i);
    tiny_free(&t);
}

/* ---- asleep and woken -------------------------------------------------------------------------- */

static void workers_that_never_spin_are_woken_for_every_phase(void)
{
    for (uint32_t threads = 2; threads <= 4; threads++)
        for (uint32_t axis = 0; axis < 2; axis++) {
            seer_pool_config pool = {.threads = threads, .axis = axis, .grain = 1, .share = 1};
            mix_options quick = model;
            quick.entities = 12;
            quick.death = 0;
            mix_columns columns;
            seer_engine *engine = mix_make(&quick, &pool, &columns);
            EQUAL(mix_reset(engine, &quick, 3), 0, "reset");
            for (int s = 0; s < 300 / SLOW; s++) {
                EQUAL(stepped(engine), 0, "step");
                if (s % 50 == 0) pause_ms(2); /* until all are asleep */
            }
            seer_counters c;
            seer_engine_counters(engine, &c, NULL);
            CHECK(c.shared > 0 && c.wakes > 0, "nobody was woken on %u threads, axis %u", threads,
                  axis);
            seer_engine_free(engine);
            mix_free_columns(&columns);
        }
}

/* Nearly all work is in four shards, all of them worker 0's home: others have to take them. */
static void uneven_load_changes_hands_and_gives_the_same(void)
{
    mix_options uneven = {.worlds = 1, .entities = 256, .lookahead = 500, .step = 20000, .tokens = 2,
                          .remote = 60, .burst = 8, .uneven = 240, .work = 2000};
    mix_columns wanted;
    mix_totals totals;
    mix_pending pending;
    int steps = SLOW == 1 ? 6 : 2;
    mix_oracle(&uneven, 8, steps, &wanted, &totals, &pending);
    for (uint32_t spin = 0; spin < 2; spin++) {
        seer_pool_config pool = {.threads = 4, .axis = SEER_AXIS_LANES, .grain = 4, .share = 1,
                                 .spin_ns = spin ? 20000 : 0};
        mix_columns columns;
        seer_engine *engine = mix_make(&uneven, &pool, &columns);
        EQUAL(mix_reset(engine, &uneven, 8), 0, "reset");
        for (int s = 0; s < steps; s++) EQUAL(stepped(engine), 0, "step");
        mix_pending got = mix_export(engine, &uneven);
        mix_compare(&uneven, &wanted, &columns, &pending, &got, "uneven");
        seer_counters c;
        seer_engine_counters(engine, &c, NULL);
        CHECK(c.steals > 50, "only %" PRIu64 " shards changed hands in %" PRIu64 " phases", c.steals,
              c.shared);
        printf("  %" PRIu64 " events, %" PRIu64 " shared phases, %" PRIu64 " steals, %" PRIu64
               " CAS retries, %" PRIu64 " sleeps\n", c.handled, c.shared, c.steals, c.cas_retries,
               c.sleeps);
        mix_free_pending(&got);
        seer_engine_free(engine);
        mix_free_columns(&columns);
    }
    mix_free_pending(&pending);
    mix_free_columns(&wanted);
}

int main(void)
{
    TEST(uneven_load_changes_hands_and_gives_the_same);
    TEST(workers_that_never_spin_are_woken_for_every_phase);
    TEST(step_that_takes_long_pauses_and_goes_on);
    TEST(paused_steps_with_mail_give_the_oracles_results);
    TEST(step_given_up_in_a_pause_can_be_reset);
    TEST(second_call_into_a_stepping_engine_is_busy);
    TEST(fork_with_an_idle_pool_works_in_both_processes);
    TEST(fork_during_a_step_spoils_the_childs_engine_only);
    return failures != 0;
}
