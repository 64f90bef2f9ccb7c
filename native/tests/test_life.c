/* test_life.c - engines over their lifetime: saved and restored, reset in part, made and freed by
 * the thousand, stepped from several threads. */
#include <pthread.h>
#include <unistd.h>

#include "mix.h"
#include "tiny.h"

static const mix_options model = MIX_USUAL;

/* ---- saved and restored ----------------------------------------------------------- */

static void copy_columns(const mix_options *o, mix_columns *to, const mix_columns *from)
{
    size_t n = (size_t)o->worlds * o->entities;
    memcpy(to->alive, from->alive, n);
    memcpy(to->alive_seen, from->alive_seen, n);
    memcpy(to->acted, from->acted, n);
    memcpy(to->draws, from->draws, 8 * n);
    memcpy(to->hash, from->hash, 8 * n);
    memcpy(to->shown, from->shown, 8 * n);
    memcpy(to->shown_seen, from->shown_seen, 8 * n);
}

static int restore(seer_engine *engine, const mix_options *o, const mix_pending *p, int64_t steps,
                   uint64_t seed)
{
    uint64_t at = 0;
    for (uint32_t w = 0; w < o->worlds; w++) {
        size_t row = (size_t)w * o->entities;
        int code = seer_engine_import(engine, w, p->events + at, p->wide + at * SEER_WIDE_BYTES,
                                      p->lengths + row, p->sequences + row, steps, seed + w, 0);
        if (code) return code;
        for (uint32_t i = 0; i < o->entities; i++) at += p->lengths[row + i];
    }
    return 0;
}

static void engine_restored_elsewhere_goes_on_alike(void)
{
    seer_pool_config pools[64];
    uint32_t n = tiny_pools(pools);
    for (uint32_t k = 0; k < n; k++) {
        mix_columns a, b;
        seer_engine *one = mix_make(&model, &pools[0], &a), *two = mix_make(&model, &pools[k], &b);
        EQUAL(mix_reset(one, &model, 3), 0, "reset");
        for (int s = 0; s < 2; s++) EQUAL(stepped(one), 0, "step");
        mix_pending saved = mix_export(one, &model);
        EQUAL(restore(two, &model, &saved, 2, 3), 0, "restore on pool %u", k);
        copy_columns(&model, &b, &a);
        mix_pending again = mix_export(two, &model);
        mix_compare(&model, &a, &b, &saved, &again, "restored");
        mix_free_pending(&again);
        EQUAL(seer_engine_tick(two, 1), 2 * model.step, "tick");
        EQUAL(seer_engine_steps(two, 1), 2, "steps");
        for (int s = 0; s < 2; s++) {
            EQUAL(stepped(one), 0, "step");
            EQUAL(stepped(two), 0, "step");
        }
        mix_pending x = mix_export(one, &model), y = mix_export(two, &model);
        mix_compare(&model, &a, &b, &x, &y, "continued");
        mix_free_pending(&saved), mix_free_pending(&x), mix_free_pending(&y);
        seer_engine_free(one), seer_engine_free(two);
        mix_free_columns(&a), mix_free_columns(&b);
    }
}

static void import_of_a_spoilt_record_is_refused_and_reset_helps(void)
{
    mix_columns columns;
    seer_pool_config pool = {.threads = 2, .axis = SEER_AXIS_LANES, .grain = 8};
    seer_engine *engine = mix_make(&model, &pool, &columns);
    EQUAL(mix_reset(engine, &model, 3), 0, "reset");
    EQUAL(stepped(engine), 0, "step");
    mix_pending saved = mix_export(engine, &model);
    uint32_t lane = 0; /* whose events are spoilt: the first with two of them */
    uint64_t at = 0;
    while (saved.lengths[lane] < 2) at += saved.lengths[lane++];
    for (int how = 0; how < 7; how++) {
        seer_event first = saved.events[at], second = saved.events[at + 1];
        switch (how) {
        case 0: saved.events[at] = second, saved.events[at + 1] = first; break; /* out of order */
        case 1: saved.events[at].time = -1; break;
        case 2: saved.events[at].time = 14999; break; /* before the clock of 15000 */
        case 3: saved.events[at].target++; break;
        case 4: saved.events[at].source = model.entities; break;
        case 5: saved.events[at].kind = MIX_KINDS; break;
        case 6: saved.events[at + 1] = first; break; /* twice the same */
        }
        EQUAL(restore(engine, &model, &saved, 1, 3), -SEER_EINVAL, "spoilt in way %d", how);
        EQUAL(seer_engine_pending(engine, 0), 0, "way %d: the world is left empty", how);
        EQUAL(seer_engine_step(engine, NULL), -SEER_ESTATE, "way %d: a step now", how);
        saved.events[at] = first, saved.events[at + 1] = second;
        EQUAL(mix_reset(engine, &model, 3), 0, "reset after way %d", how);
    }
    EQUAL(seer_engine_import(engine, model.worlds, NULL, NULL, NULL, NULL, 0, 0, 0), -SEER_EINVAL,
          "no such world");
    EQUAL(restore(engine, &model, &saved, 1, 3), 0, "the record itself is fine");
    EQUAL(stepped(engine), 0, "and can be stepped");
    mix_free_pending(&saved);
    seer_engine_free(engine);
    mix_free_columns(&columns);
}

static void reset_of_some_worlds_leaves_the_others_alone(void)
{
    mix_columns columns;
    seer_pool_config pool = {.threads = 3, .axis = SEER_AXIS_WORLDS, .grain = 1};
    seer_engine *engine = mix_make(&model, &pool, &columns);
    uint64_t seeds[3] = {3, 4, 5}, episodes[3] = {0, 0, 0};
    EQUAL(reset_all(engine, seeds, episodes), 0, "reset");
    for (int s = 0; s < 2; s++) EQUAL(stepped(engine), 0, "step");
    size_t n = model.entities;
    uint64_t *before = zeros(8 * 3 * n);
    memcpy(before, columns.hash, 8 * 3 * n);
    uint8_t mask[3] = {0, 1, 0};
    EQUAL(seer_engine_reset(engine, mask, seeds, episodes), 0, "reset of world 1");
    EQUAL(seer_engine_tick(engine, 0), 2 * model.step, "world 0's clock");
    EQUAL(seer_engine_tick(engine, 1), 0, "world 1's clock");
    CHECK(!memcmp(before, columns.hash, 8 * n), "world 0 was touched");
    CHECK(!memcmp(before + 2 * n, columns.hash + 2 * n, 8 * n), "world 2 was touched");
    for (int s = 0; s < 2; s++) EQUAL(seer_engine_step(engine, mask), 0, "step of world 1");
    CHECK(!memcmp(before, columns.hash, 8 * 3 * n), "world 1 does not repeat itself");
    uint64_t seed, episode;
    seer_engine_seed(engine, 2, &seed, &episode);
    EQUAL(seed, 5, "seed");
    episodes[1] = 1;
    EQUAL(seer_engine_reset(engine, mask, seeds, episodes), 0, "another episode");
    for (int s = 0; s < 2; s++) EQUAL(seer_engine_step(engine, mask), 0, "step of world 1");
    CHECK(memcmp(before + n, columns.hash + n, 8 * n), "another episode gives the same numbers");
    free(before);
    seer_engine_free(engine);
    mix_free_columns(&columns);
}

/* ---- many, and at once --------------------------------------------------------------- */

static long entries(const char *path)
{
    long n = 0;
    char command[64];
    snprintf(command, sizeof command, "ls %s | wc -l", path);
    FILE *pipe = popen(command, "r");
    if (!pipe || fscanf(pipe, "%ld", &n) != 1) n = -1;
    if (pipe) pclose(pipe);
    return n;
}

static long resident_kib(void)
{
    long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &size, &resident) != 2) resident = 0;
    if (file) fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static void engine_made_and_freed_ten_thousand_times_leaks_nothing(void)
{
    seer_pool_config pools[64];
    uint32_t n = tiny_pools(pools);
    mix_options small = model;
    small.entities = 12;
    long threads = 0, files = 0, memory = 0;
    for (int k = 0; k < 10000 / SLOW; k++) {
        mix_columns columns;
        seer_engine *engine = mix_make(&small, &pools[k % n], &columns);
        if (k % 2 == 0) EQUAL(mix_reset(engine, &small, k), 0, "reset");
        if (k % 4 == 0) EQUAL(stepped(engine), 0, "step");
        seer_engine_free(engine);
        mix_free_columns(&columns);
        if (k == 1000 / SLOW) {
            threads = entries("/proc/self/task"), files = entries("/proc/self/fd");
            memory = resident_kib();
        }
    }
    EQUAL(entries("/proc/self/task"), threads, "threads");
    EQUAL(entries("/proc/self/fd"), files, "descriptors");
    if (SLOW == 1)
        CHECK(resident_kib() < memory + 4096, "%ld KiB grew to %ld", memory, resident_kib());
}

typedef struct own_engine {
    uint64_t seed, sum;
    int turns, code;
} own_engine;

/* Each thread has an engine; both want the pool, and either may run alone. */
static void *run_own(void *argument)
{
    own_engine *own = argument;
    mix_columns columns;
    seer_pool_config pool = {.threads = 3, .axis = own->seed % 2, .grain = 4, .share = 1};
    seer_engine *engine = mix_make(&model, &pool, &columns);
    for (int turn = 0; turn < own->turns && !own->code; turn++) {
        own->code = mix_reset(engine, &model, own->seed);
        for (int s = 0; s < 3 && !own->code; s++) own->code = stepped(engine);
        mix_pending pending = mix_export(engine, &model);
        own->sum = fold(own->sum, mix_sum(&model, &columns, &pending));
        mix_free_pending(&pending);
    }
    seer_engine_free(engine);
    mix_free_columns(&columns);
    return NULL;
}

static void engines_on_two_threads_do_not_disturb_each_other(void)
{
    own_engine alone[4], together[4];
    for (uint64_t k = 0; k < 4; k++) {
        alone[k] = together[k] = (own_engine){.seed = 20 + k, .turns = 40 / SLOW};
        run_own(&alone[k]);
    }
    pthread_t thread[4];
    for (int k = 0; k < 4; k++) pthread_create(&thread[k], NULL, run_own, &together[k]);
    for (int k = 0; k < 4; k++) pthread_join(thread[k], NULL);
    for (int k = 0; k < 4; k++) {
        EQUAL(alone[k].code, 0, "alone");
        EQUAL(together[k].code, 0, "together");
        CHECK(alone[k].sum == together[k].sum, "engine %d has another result", k);
    }
}

/* ---- what a caller is given a copy of ------------------------------------------------- */

static int32_t count_on(seer_ctx *ctx, int64_t entity, const seer_event *e, const void *payload)
{
    (void)e, (void)payload;
    *tiny_row(ctx, TINY_COUNT) += 1 + (uint64_t)entity;
    return seer_send(ctx, 0, entity, 10, 0);
}

static int32_t start_counting(seer_ctx *ctx, int64_t first, int64_t last)
{
    for (int64_t i = first; i < last; i++) {
        ctx->entity = (uint32_t)i;
        if (!seer_send(ctx, 0, i, 10, 0)) return 0;
    }
    return 1;
}

static int step_some(seer_engine *engine, const uint8_t *mask)
{
    int code = seer_engine_step(engine, mask);
    while (code == SEER_AGAIN) code = seer_engine_continue(engine);
    return code;
}

/* Worlds that take part are in the copy as they are in the column, the others as they were. */
static void mirror_shows_what_the_column_shows(void)
{
    seer_pool_config pools[64];
    uint32_t n = tiny_pools(pools);
    for (uint32_t k = 0; k < n; k++) {
        tiny t = {.worlds = 5, .entities = 6, .kinds = 1, .sweeps = 1};
        t.kind[0].handler = count_on;
        t.sweep[0] = (seer_sweep){start_counting, 0, 0, 0, SEER_SWEEP_ON_RESET};
        tiny_make(&t, &pools[k]);
        uint64_t *copy = zeros(8 * 30), before[30];
        EQUAL(seer_engine_mirror(t.engine, TINY_COLUMNS, copy, NULL, NULL), -SEER_EINVAL, "no such column");
        EQUAL(seer_engine_mirror(t.engine, TINY_COUNT, copy, NULL, NULL), 0, "mirror");
        for (int i = 0; i < 30; i++) copy[i] = 99;
        EQUAL(tiny_reset(&t, 1), 0, "reset");
        for (int i = 0; i < 30; i++) EQUAL(copy[i], 0, "pool %u, entity %d after a reset", k, i);
        EQUAL(step_some(t.engine, NULL), 0, "step");
        for (int i = 0; i < 30; i++) {
            CHECK(t.count[i] > 0, "pool %u: nothing was counted", k);
            EQUAL(copy[i], t.count[i], "pool %u, entity %d", k, i);
            before[i] = copy[i];
        }
        const uint8_t some[5] = {0, 1, 0, 0, 1};
        EQUAL(step_some(t.engine, some), 0, "step of some");
        for (int i = 0; i < 30; i++)
            EQUAL(copy[i], some[i / 6] ? t.count[i] : before[i], "pool %u, entity %d of some", k, i);
        uint8_t present[30];
        const uint64_t filler = 77;
        for (int i = 0; i < 30; i++) present[i] = i % 4 != 1;
        EQUAL(seer_engine_mirror(t.engine, TINY_COUNT, copy, present, NULL), -SEER_EINVAL, "no filler");
        EQUAL(seer_engine_mirror(t.engine, TINY_COUNT, copy, present, &filler), 0, "fillers");
        EQUAL(step_some(t.engine, NULL), 0, "step");
        for (int i = 0; i < 30; i++)
            EQUAL(copy[i], present[i] ? t.count[i] : filler, "pool %u, entity %d with fillers", k, i);
        memcpy(before, copy, sizeof before);
        EQUAL(seer_engine_mirror(t.engine, TINY_COUNT, NULL, NULL, NULL), 0, "no mirror");
        EQUAL(step_some(t.engine, NULL), 0, "step");
        for (int i = 0; i < 30; i++) EQUAL(copy[i], before[i], "pool %u, entity %d without", k, i);
        tiny_free(&t);
        free(copy);
    }
}

int main(void)
{
    TEST(mirror_shows_what_the_column_shows);
    TEST(engine_restored_elsewhere_goes_on_alike);
    TEST(import_of_a_spoilt_record_is_refused_and_reset_helps);
    TEST(reset_of_some_worlds_leaves_the_others_alone);
    TEST(engines_on_two_threads_do_not_disturb_each_other);
    TEST(engine_made_and_freed_ten_thousand_times_leaks_nothing);
    return failures != 0;
}
