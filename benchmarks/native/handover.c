/* handover.c - what it costs to hand an empty step to other threads.
 *
 * cc -O3 -ffp-contract=off -std=c11 -D_GNU_SOURCE -fopenmp -Inative/include \
 *    benchmarks/native/handover.c native/src/(every file).c -o handover -lm -lpthread
 * ./handover --threads 2
 *
 * An engine whose step is one sweep that does nothing, over one shard of one world for each thread
 * (--axis lanes) or one world for each (worlds), every thread taking part (share = 1), back to
 * back: the threads stay hot. The same engine on one thread
 * gives the cost of the call without a hand-over; an empty parallel region of libgomp (with
 * -fopenmp) is the baseline. Batches of the three in turn, each after some steps untimed that
 * warm its threads up; medians and quartiles over batches. libgomp's threads go on spinning for
 * some milliseconds, so the next batch begins when they have gone to sleep.
 */
#include "bench.h"
#include "seer.h"

enum { WARM = 500, BATCH = 2000, REPEATS = 501, PAUSE_US = 20000 };

static int32_t nothing(seer_ctx *ctx, int64_t first, int64_t last)
{
    (void)ctx, (void)first, (void)last;
    return 1;
}

static seer_engine *engine_new(uint32_t axis, uint32_t width, uint32_t threads, uint32_t spin_us)
{
    /* The columns outlive the engine: kept until the program ends. */
    static const uint8_t one = 1;
    uint32_t worlds = axis == SEER_AXIS_WORLDS ? width : 1, entities = width / worlds;
    seer_column column[] = {
        {.latest = bench_alloc(width), .seen = bench_alloc(width), .initial = &one, .row_bytes = 1},
        {.latest = bench_alloc(width), .row_bytes = 1},
        {.latest = bench_alloc(8 * width), .row_bytes = 8},
    };
    seer_group group = {0, entities};
    seer_kind kind = {0};
    seer_sweep sweep = {.fn = nothing, .flags = SEER_SWEEP_ON_STEP};
    seer_model model = {
        .layout = SEER_LAYOUT, .worlds = worlds, .entities = entities,
        .groups = 1, .columns = 3, .kinds = 1, .sweeps = 1,
        .group = &group, .column = column, .kind = &kind, .sweep = &sweep,
        .lookahead = 1000, .step = 1000000, .seconds_per_tick = 1e-9, .max_rounds = 64,
        .lane_capacity = 64, .world_capacity = 64, .step_capacity = 64};
    seer_pool_config pool = {.threads = threads, .axis = axis, .grain = 1,
                             .spin_ns = spin_us * 1000, .share = 1};
    int code = 0;
    seer_engine *engine = seer_engine_new(&model, &pool, &code);
    uint64_t seeds[SEER_MAX_THREADS] = {0};
    if (engine)
        code = seer_engine_reset(engine, NULL, seeds, seeds);
    if (!engine || code) {
        fprintf(stderr, "handover: %s\n", seer_strerror(code));
        exit(1);
    }
    return engine;
}

static double step_ns(seer_engine *engine)
{
    double start = 0;
    for (int k = -WARM; k < BATCH; k++) {
        if (k == 0)
            start = bench_now();
        int code = seer_engine_step(engine, NULL);
        while (code == SEER_AGAIN)
            code = seer_engine_continue(engine);
        if (code) {
            fprintf(stderr, "handover: %s\n", seer_strerror(code));
            exit(1);
        }
    }
    return (bench_now() - start) / BATCH;
}

static double region_ns(uint32_t threads)
{
    double start = 0;
    for (int k = -WARM; k < BATCH; k++) {
        if (k == 0)
            start = bench_now();
#pragma omp parallel num_threads(threads)
        __asm__ volatile("" ::: "memory");
    }
    double ns = (bench_now() - start) / BATCH;
    usleep(PAUSE_US);
    return ns;
}

static long number(const char *name, const char *text, long low, long high)
{
    char *end = NULL;
    long x = text ? strtol(text, &end, 10) : 0;
    if (!text || end == text || *end || x < low || x > high) {
        fprintf(stderr, "handover: %s takes a number from %ld to %ld\n"
                "handover [--threads 2] [--axis lanes|worlds] [--spin us] [--repeat 101]\n", name, low, high);
        exit(2);
    }
    return x;
}

int main(int argc, char **argv)
{
    uint32_t threads = 2, spin_us = 100, axis = SEER_AXIS_LANES;
    int repeat = 101;
    for (int k = 1; k < argc; k += 2) {
        const char *value = k + 1 < argc ? argv[k + 1] : NULL;
        if (!strcmp(argv[k], "--threads"))
            threads = (uint32_t)number(argv[k], value, 2, SEER_MAX_THREADS);
        else if (!strcmp(argv[k], "--spin"))
            spin_us = (uint32_t)number(argv[k], value, 0, 1000000);
        else if (!strcmp(argv[k], "--axis") && value && !strcmp(value, "worlds"))
            axis = SEER_AXIS_WORLDS;
        else if (!strcmp(argv[k], "--axis") && value && !strcmp(value, "lanes"))
            axis = SEER_AXIS_LANES;
        else
            repeat = (int)number("--repeat", !strcmp(argv[k], "--repeat") ? value : NULL, 1, REPEATS);
    }
    seer_engine *one = engine_new(axis, threads, 1, spin_us),
                *many = engine_new(axis, threads, threads, spin_us);
    static double alone[REPEATS], shared[REPEATS], region[REPEATS], ratio[REPEATS], added[REPEATS];
    seer_counters counters;
    bench_moment start = bench_mark();
    for (int r = -1; r < repeat; r++) { /* the first round warms up */
        int k = r < 0 ? 0 : r;
        alone[k] = step_ns(one);
        shared[k] = step_ns(many);
        region[k] = region_ns(threads);
        ratio[k] = region[k] / shared[k];
        added[k] = shared[k] - alone[k];
    }
    seer_engine_counters(many, &counters, NULL);
    printf("{\"bench\":\"handover\",\"threads\":%u,\"axis\":\"%s\",\"spin_us\":%u,\"batch\":%d,"
           "\"repeat\":%d,\"cpus\":%ld,\"others\":%.3f,\"shared\":%llu,\"sleeps\":%llu,\"wakes\":%llu",
           threads, axis == SEER_AXIS_LANES ? "lanes" : "worlds", spin_us, BATCH, repeat, sysconf(_SC_NPROCESSORS_ONLN), bench_others(start),
           (unsigned long long)counters.shared, (unsigned long long)counters.sleeps,
           (unsigned long long)counters.wakes);
    bench_field("step_ns", bench_summary(shared, repeat));
    bench_field("one_thread_ns", bench_summary(alone, repeat));
    bench_field("added_ns", bench_summary(added, repeat));
#ifdef _OPENMP
    bench_field("libgomp_ns", bench_summary(region, repeat));
    bench_field("libgomp_over_step", bench_summary(ratio, repeat));
#endif
    printf("}\n");
    seer_engine_free(many);
    seer_engine_free(one);
    return 0;
}
