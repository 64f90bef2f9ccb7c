/* phold.c - PHOLD on a binary heap and on the engine, in turn, in one process.
 *
 * cc -O3 -ffp-contract=off -std=c11 -D_GNU_SOURCE -Inative/include benchmarks/native/phold.c \
 *    native/src/(every file).c -o phold -lm -lpthread
 * ./phold --entities 1024 --each 16 --threads 1,2
 *
 * Prints one JSON line for each number of threads: medians and quartiles over the repetitions,
 * and the ratio of each repetition's heap run to its engine run. Exits with 1 when the
 * checksums differ.
 */
#include "phold.h"

#include "bench.h"

typedef struct phold_row {
    _Alignas(64) uint64_t rng;
    uint64_t sum, count, sequence; /* sequence: of the heap's run; the engine keeps its own */
} phold_row;

_Static_assert(sizeof(phold_row) == 64, "one row, one cache line");
_Static_assert(sizeof(seer_event) == 32, "both queues hold 32-byte records");

/* ---- the workload: the same inlined code on either queue ------------------ */

static struct {
    uint32_t entities, hot, work, hot_work;
    uint64_t remote, hot_share; /* probabilities, of 2^24 */
    int64_t lookahead;
    int64_t delay[4096]; /* quantiles of the exponential distribution, ticks */
} M;

static inline uint64_t phold_next(phold_row *row)
{
    uint64_t x = row->rng; /* xorshift64, Marsaglia 2003 */
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return row->rng = x;
}

static inline int64_t phold_delay(phold_row *row)
{
    return M.lookahead + 1 + M.delay[phold_next(row) >> 52];
}

static inline uint64_t phold_work(uint64_t sum, uint32_t rounds)
{
    for (uint32_t k = 0; k < rounds; k++)
        sum = sum * 6364136223846793005u + 1;
    return sum;
}

static inline uint32_t phold_target(phold_row *row, uint32_t entity)
{
    uint64_t r = phold_next(row);
    if (r >> 40 >= M.remote)
        return entity;
    if (M.hot_share && (phold_next(row) >> 40) < M.hot_share)
        return (uint32_t)((r & 0xffffffffu) * M.hot >> 32);
    return (uint32_t)((r & 0xffffffffu) * M.entities >> 32);
}

static inline void phold_count(phold_row *row, uint32_t entity, const seer_event *e)
{
    row->count++;
    row->sum = row->sum * 6364136223846793005u +
               ((uint64_t)e->time ^ (uint64_t)e->source << 40 ^ e->sequence);
    row->sum = phold_work(row->sum, entity < M.hot ? M.hot_work : M.work);
}

static void phold_seed(phold_row *row, uint32_t entity)
{
    *row = (phold_row){.rng = 0x9E3779B97F4A7C15u * (entity + 1u)};
    for (int k = 0; k < 5; k++)
        phold_next(row);
}

static void phold_setup(const phold_params *p)
{
    M.entities = p->entities;
    M.hot = p->hot < p->entities ? p->hot : p->entities;
    M.work = M.hot_work = p->work;
    if (p->skew > 0 && M.hot < M.entities) {
        /* The hot block's rounds, so that hot * hot_work is `skew` of the sum and the sum the same. */
        double total = (double)p->work * M.entities;
        M.hot_work = (uint32_t)lrint(total * p->skew / M.hot);
        M.work = (uint32_t)lrint(total * (1 - p->skew) / (M.entities - M.hot));
    }
    M.remote = (uint64_t)(p->remote * (1 << 24));
    M.hot_share = (uint64_t)(p->skew_events * (1 << 24));
    M.lookahead = (int64_t)(p->lookahead * PHOLD_UNIT);
    for (int k = 0; k < 4096; k++)
        M.delay[k] = (int64_t)(-log((k + 0.5) / 4096) * PHOLD_UNIT);
}

static void phold_finish(const phold_row *row, phold_result *result)
{
    result->events = result->checksum = 0;
    for (uint32_t i = 0; i < M.entities; i++) {
        result->events += row[i].count;
        result->checksum = result->checksum * 31 + row[i].sum;
    }
}

static int64_t phold_step(const phold_params *p) { return (int64_t)(p->step * PHOLD_UNIT); }

double phold_round_ns(void)
{
    double best = INFINITY;
    for (int k = 0; k < 7; k++) {
        volatile uint64_t x = 1;
        double start = bench_now();
        x = phold_work(x, 1000000);
        double ns = (bench_now() - start) / 1e6;
        best = ns < best ? ns : best;
    }
    return best;
}

/* ---- sequential: a binary heap --------------------------------------------- */

typedef struct phold_queue {
    seer_event *at;
    size_t n;
} phold_queue;

static inline int phold_before(const seer_event *a, const seer_event *b)
{
    if (a->time != b->time)
        return a->time < b->time;
    if (a->source != b->source)
        return a->source < b->source;
    return a->sequence < b->sequence;
}

static void heap_push(phold_queue *q, const seer_event *e)
{
    seer_event x = *e;
    size_t i = q->n++;
    while (i && phold_before(&x, &q->at[(i - 1) / 2])) {
        q->at[i] = q->at[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    q->at[i] = x;
}

/* Puts e in the place of the least event: half the cost of a pop and a push. */
static inline void heap_replace(phold_queue *q, const seer_event *e)
{
    seer_event x = *e;
    size_t i = 0, n = q->n;
    for (;;) {
        size_t c = 2 * i + 1;
        if (c >= n)
            break;
        if (c + 1 < n && phold_before(&q->at[c + 1], &q->at[c]))
            c++;
        if (!phold_before(&q->at[c], &x))
            break;
        q->at[i] = q->at[c];
        i = c;
    }
    q->at[i] = x;
}

void phold_heap(const phold_params *p, phold_result *result)
{
    phold_setup(p);
    phold_row *rows = bench_alloc(sizeof *rows * p->entities);
    phold_queue q = {bench_alloc(sizeof *q.at * p->entities * p->each), 0};
    for (uint32_t i = 0; i < p->entities; i++) {
        phold_seed(&rows[i], i);
        for (uint32_t k = 0; k < p->each; k++) {
            seer_event e = {.time = phold_delay(&rows[i]), .source = i, .target = i,
                            .sequence = (uint32_t)rows[i].sequence++};
            heap_push(&q, &e);
        }
    }
    int64_t end = phold_step(p) * p->steps;
    double start = bench_now(), cpu = bench_cpu();
    while (q.at[0].time < end) {
        seer_event e = q.at[0];
        uint32_t entity = e.target;
        phold_row *row = &rows[entity];
        phold_count(row, entity, &e);
        e.target = phold_target(row, entity);
        e.time += phold_delay(row);
        e.source = entity;
        e.sequence = (uint32_t)row->sequence++;
        heap_replace(&q, &e);
    }
    memset(result, 0, sizeof *result);
    result->cpu_ns = bench_cpu() - cpu;
    result->ns = bench_now() - start;
    phold_finish(rows, result);
    free(rows);
    free(q.at);
}

/* ---- on the engine ----------------------------------------------------------- */

static int32_t phold_place(seer_ctx *ctx, int64_t first, int64_t last)
{
    phold_row *rows = (phold_row *)ctx->columns[2 * SEER_COL_FIRST];
    uint32_t each = (uint32_t)ctx->params[0];
    for (int64_t i = first; i < last; i++) {
        ctx->entity = (uint32_t)i;
        phold_seed(&rows[i], (uint32_t)i);
        for (uint32_t k = 0; k < each; k++)
            if (!seer_send(ctx, 0, i, phold_delay(&rows[i]), 0))
                return 0;
    }
    return 1;
}

static int32_t phold_handle(seer_ctx *ctx, int64_t entity, const seer_event *event,
                            const void *payload)
{
    (void)payload;
    phold_row *row = (phold_row *)ctx->columns[2 * SEER_COL_FIRST] + entity;
    phold_count(row, (uint32_t)entity, event);
    uint32_t to = phold_target(row, (uint32_t)entity);
    return seer_send(ctx, 0, to, phold_delay(row), 0);
}

struct phold_engine {
    phold_params params;
    seer_engine *engine;
    phold_row *rows;
    void *builtin[4];
};

static void phold_error(const phold_engine *e, const char *what, int code)
{
    seer_fault f = {0};
    if (e->engine)
        seer_engine_fault(e->engine, &f);
    fprintf(stderr, "%s: %s (code %d, entity %u, target %u, time %lld, limit %lld)\n", what,
            seer_strerror(code), code, f.entity, f.target, (long long)f.time, (long long)f.limit);
}

phold_engine *phold_engine_new(const phold_params *p, const seer_pool_config *pool)
{
    phold_engine *e = bench_alloc(sizeof *e);
    e->params = *p;
    phold_setup(p);
    size_t n = p->entities;
    static const uint8_t one = 1;
    e->rows = bench_alloc(sizeof *e->rows * n);
    e->builtin[0] = bench_alloc(n);
    e->builtin[1] = bench_alloc(n);
    e->builtin[2] = bench_alloc(n);
    e->builtin[3] = bench_alloc(8 * n);
    seer_column columns[] = {
        {.latest = e->builtin[0], .seen = e->builtin[1], .initial = &one, .row_bytes = 1},
        {.latest = e->builtin[2], .row_bytes = 1},
        {.latest = e->builtin[3], .row_bytes = 8},
        {.latest = e->rows, .row_bytes = sizeof(phold_row)},
    };
    seer_group group = {0, p->entities};
    seer_kind kind = {.handler = phold_handle};
    seer_sweep sweep = {.fn = phold_place, .writes = 1u << SEER_COL_FIRST,
                        .flags = SEER_SWEEP_ON_RESET};
    uint64_t param = p->each;
    seer_model model = {
        .layout = SEER_LAYOUT, .worlds = 1, .entities = p->entities,
        .groups = 1, .columns = 4, .kinds = 1, .sweeps = 1, .params = 1,
        .group = &group, .column = columns, .kind = &kind, .sweep = &sweep, .param = &param,
        .handler_writes = 1u << SEER_COL_FIRST,
        .lookahead = M.lookahead, .step = phold_step(p),
        .seconds_per_tick = 1.0 / PHOLD_UNIT, .max_rounds = 64,
        .lane_capacity = 1u << 20, .world_capacity = UINT64_C(1) << 40,
        .step_capacity = UINT64_C(1) << 50,
    };
    int code = 0;
    e->engine = seer_engine_new(&model, pool, &code);
    if (!e->engine) {
        phold_error(e, "seer_engine_new", code);
        phold_engine_free(e);
        return NULL;
    }
    return e;
}

void phold_engine_free(phold_engine *e)
{
    if (!e)
        return;
    if (e->engine)
        seer_engine_free(e->engine);
    for (int k = 0; k < 4; k++)
        free(e->builtin[k]);
    free(e->rows);
    free(e);
}

int phold_engine_run(phold_engine *e, phold_result *result)
{
    uint64_t zero = 0;
    phold_setup(&e->params);
    memset(result, 0, sizeof *result);
    int code = seer_engine_reset(e->engine, NULL, &zero, &zero);
    while (code == SEER_AGAIN)
        code = seer_engine_continue(e->engine);
    if (code < 0) {
        phold_error(e, "seer_engine_reset", code);
        return code;
    }
    seer_counters before, after;
    seer_engine_counters(e->engine, &before, NULL);
    double start = bench_now(), cpu = bench_cpu();
    for (uint32_t k = 0; k < e->params.steps; k++) {
        code = seer_engine_step(e->engine, NULL);
        while (code == SEER_AGAIN)
            code = seer_engine_continue(e->engine);
        if (code < 0) {
            phold_error(e, "seer_engine_step", code);
            return code;
        }
    }
    result->cpu_ns = bench_cpu() - cpu;
    result->ns = bench_now() - start;
    seer_engine_counters(e->engine, &after, NULL);
    result->windows = after.windows - before.windows;
    result->shared = after.shared - before.shared;
    result->steals = after.steals - before.steals;
    result->cas_retries = after.cas_retries - before.cas_retries;
    result->sleeps = after.sleeps - before.sleeps;
    result->wakes = after.wakes - before.wakes;
    phold_finish(e->rows, result);
    return 0;
}

#ifndef PHOLD_LIBRARY
#include "phold_main.h"
#endif
