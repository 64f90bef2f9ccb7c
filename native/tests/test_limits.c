/* test_limits.c - what is refused, and that it is refused alike on every pool. */
#include <math.h>

#include "tiny.h"

enum deed { SOON, PAST, TOO_FAR, NOT_A_NUMBER, INFINITE, NOBODY, NEGATIVE, NO_KIND, ROUNDS, RETURNS_0,
            FAILS, CROWDS_LANE, CROWDS_WORLD, NEVER_ENDS, DEEDS };

static const int code_of[DEEDS] = {SEER_ECAUSALITY, SEER_EPAST, SEER_ETIME, SEER_ETIME, SEER_ETIME,
                                   SEER_ETARGET, SEER_ETARGET, SEER_EKIND, SEER_EROUNDS,
                                   SEER_EHANDLER, SEER_EFAIL, SEER_ELANE, SEER_EWORLD, SEER_ESTEP};

/* What the culprits do at their tick; all else only counts. param: deed, period of culprits. */
static int32_t misbehave(seer_ctx *ctx, const seer_event *e)
{
    int64_t self = ctx->entity, other = (self + 1) % ctx->entities;
    switch ((enum deed)ctx->params[0]) {
    case SOON: return seer_send(ctx, 0, other, 9, 0);
    case PAST: return seer_send(ctx, 0, self, -1, 0);
    case TOO_FAR: return seer_send(ctx, 0, self, INT64_MAX, 0);
    case NOT_A_NUMBER: return seer_send_seconds(ctx, 0, self, NAN, 0);
    case INFINITE: return seer_send_seconds(ctx, 0, self, INFINITY, 0);
    case NOBODY: return seer_send(ctx, 0, ctx->entities, 50, 0);
    case NEGATIVE: return seer_send(ctx, 0, -1, 50, 0);
    case NO_KIND: return seer_send(ctx, 7, self, 50, 0);
    case ROUNDS: return seer_send(ctx, 0, self, 0, 1);
    case RETURNS_0: return 0;
    case FAILS: seer_fail(ctx, self, 123); return 1;
    case CROWDS_LANE:
    case CROWDS_WORLD:
        for (int i = 0; i < 12; i++)
            if (!seer_send(ctx, 0, self, 30 + i, 0)) return 0;
        return 1;
    case NEVER_ENDS:
        for (int i = 0; i < 2; i++)
            if (!seer_send(ctx, 0, self, 1, 1)) return 0;
        return 1;
    default: break;
    }
    (void)e;
    return 1;
}

static int32_t count_or_misbehave(seer_ctx *ctx, int64_t entity, const seer_event *e, const void *p)
{
    uint64_t one;
    memcpy(&one, p, sizeof one);
    ++*tiny_row(ctx, TINY_COUNT);
    (void)entity;
    return one ? misbehave(ctx, e) : 1;
}

/* Everyone gets a harmless event; every third entity from 5 on a fatal one, later for lower ones. */
static int32_t prepare(seer_ctx *ctx, int64_t first, int64_t last)
{
    for (int64_t i = first; i < last; i++) {
        ctx->entity = (uint32_t)i;
        if (!seer_send(ctx, 0, i, 5, 0) || !seer_send(ctx, 0, i, 95, 0)) return 0;
        int fatal = i >= 5 && i % 3 == 2 && (ctx->world != 0 || ctx->params[1]);
        if (fatal && !seer_send(ctx, 0, i, i < 20 ? 40 : 41, 1)) return 0;
    }
    return 1;
}

static tiny culprits(enum deed deed)
{
    tiny t = {.worlds = 3, .entities = 32, .kinds = 1, .sweeps = 1};
    t.kind[0].handler = count_or_misbehave;
    t.sweep[0] = (seer_sweep){prepare, 0, 0, 0, SEER_SWEEP_ON_RESET};
    t.param[0] = deed;
    if (deed == CROWDS_LANE) t.lane_capacity = 10;
    if (deed == CROWDS_WORLD) t.world_capacity = 90;
    if (deed == NEVER_ENDS) t.step_capacity = 100;
    return t;
}

static void fault_of_each_sort_is_named_alike_on_every_pool(void)
{
    seer_pool_config pools[64];
    uint32_t n = tiny_pools(pools);
    for (int deed = 0; deed < DEEDS; deed++) {
        seer_fault first = {0};
        for (uint32_t k = 0; k < n; k++) {
            tiny t = culprits((enum deed)deed);
            tiny_make(&t, &pools[k]);
            EQUAL(tiny_reset(&t, 1), 0, "reset");
            EQUAL(stepped(t.engine), -code_of[deed], "deed %d, pool %u", deed, k);
            seer_fault f;
            seer_engine_fault(t.engine, &f);
            EQUAL(f.code, code_of[deed], "deed %d, pool %u", deed, k);
            EQUAL(f.world, 1, "deed %d, pool %u: the smallest world", deed, k);
            if (deed < CROWDS_WORLD) EQUAL(f.entity, 5, "deed %d, pool %u: entity", deed, k);
            if (deed < CROWDS_LANE) EQUAL(f.time, 40, "deed %d, pool %u: time", deed, k);
            if (deed < CROWDS_LANE) EQUAL(f.kind, deed == NO_KIND ? 7 : 0, "deed %d", deed);
            if (k == 0) first = f;
            CHECK(f.entity == first.entity && f.source == first.source && f.target == first.target &&
                  f.time == first.time && f.event_time == first.event_time && f.kind == first.kind &&
                  f.sequence == first.sequence && f.round == first.round && f.limit == first.limit &&
                  f.user_code == first.user_code,
                  "deed %d: pool %u of %u threads names another fault", deed, k, pools[k].threads);
            EQUAL(f.others, first.others, "deed %d, pool %u: others", deed, k);
            EQUAL(seer_engine_step(t.engine, NULL), -SEER_ESTATE, "a step after a fault");
            /* All others were finished: nobody else's count depends on the culprits. */
            EQUAL(t.count[32 + 6], t.count[32 + 7], "deed %d: bystanders", deed);
            /* Reset works, and so does what comes after when the deed is left out. */
            EQUAL(tiny_reset(&t, 2), 0, "reset after a fault");
            seer_engine_fault(t.engine, &f);
            EQUAL(f.code, 0, "the fault is gone after reset");
            tiny_free(&t);
            if (failures > 20) return;
        }
        if (deed == SOON) EQUAL(first.limit, 10, "lookahead");
        if (deed == SOON) EQUAL(first.event_time, 49, "time of the refused event");
        if (deed == SOON) EQUAL(first.target, 6, "target");
        if (deed == ROUNDS) EQUAL(first.limit, 16, "max_rounds");
        if (deed == CROWDS_LANE) EQUAL(first.limit, 10, "lane_capacity");
        if (deed == CROWDS_WORLD) EQUAL(first.limit, 90, "world_capacity");
        if (deed == NEVER_ENDS) EQUAL(first.limit, 100, "step_capacity");
        if (deed == FAILS) EQUAL(first.user_code, 123, "code of seer_fail");
        /* 9 culprits a world at 40 and 41; the first world has none, the others stop at 40. */
        if (deed <= FAILS) EQUAL(first.others, 17, "deed %d: 9 culprits in each of 2 worlds", deed);
    }
}

/* ---- sweeps ---------------------------------------------------------------------- */

static int32_t sweep_fails(seer_ctx *ctx, int64_t first, int64_t last)
{
    for (int64_t i = first; i < last; i++) {
        ctx->entity = (uint32_t)i;
        ++*tiny_row(ctx, TINY_COUNT);
        if (i % 5 != 3) continue;
        if (ctx->params[0] == 0) return 0; /* this row failed */
        if (ctx->params[0] == 1) seer_fail(ctx, i, 7);
        if (ctx->params[0] == 2) seer_send(ctx, 9, i, 1, 0); /* refused, and not looked at */
    }
    return 1;
}

static void sweep_that_fails_names_its_first_row_on_every_pool(void)
{
    seer_pool_config pools[64];
    uint32_t n = tiny_pools(pools);
    const int codes[] = {SEER_EHANDLER, SEER_EFAIL, SEER_EKIND};
    for (uint64_t how = 0; how < 3; how++)
        for (uint32_t k = 0; k < n; k++) {
            tiny t = {.entities = 32, .sweeps = 1, .param = {how}};
            t.sweep[0] = (seer_sweep){sweep_fails, 30, 1 << TINY_COUNT, 0, SEER_SWEEP_ON_STEP};
            tiny_make(&t, &pools[k]);
            EQUAL(tiny_reset(&t, 1), 0, "reset");
            EQUAL(stepped(t.engine), -codes[how], "how %d, pool %u", (int)how, k);
            seer_fault f;
            seer_engine_fault(t.engine, &f);
            EQUAL(f.entity, 3, "how %d, pool %u", (int)how, k);
            EQUAL(f.sweep, 0, "how %d, pool %u", (int)how, k);
            EQUAL(f.time, 30, "how %d, pool %u", (int)how, k);
            EQUAL(f.others, 5, "how %d, pool %u: rows 8, 13, 18, 23, 28", (int)how, k);
            for (int i = 0; i < 32; i++) EQUAL(t.count[i], 1, "how %d: row %d runs once", (int)how, i);
            tiny_free(&t);
        }
}

/* ---- capacity at rest --------------------------------------------------------------- */

/* Four senders refill the last entity's lane while it handles what they sent before: at rest it
 * holds 4 events and never more, whoever runs first. */
static int32_t refill(seer_ctx *ctx, int64_t entity, const seer_event *e, const void *payload)
{
    ++*tiny_row(ctx, TINY_COUNT);
    (void)e, (void)payload;
    if (entity >= 4) return 1;
    return seer_send(ctx, 0, entity, 10, 0) && seer_send(ctx, 0, ctx->entities - 1, 10, 0);
}

static int32_t refill_start(seer_ctx *ctx, int64_t first, int64_t last)
{
    for (int64_t i = first; i < last && i < 4; i++) {
        ctx->entity = (uint32_t)i;
        if (!seer_send(ctx, 0, i, 10, 0) || !seer_send(ctx, 0, ctx->entities - 1, 10, 0)) return 0;
    }
    return 1;
}

static void lane_that_is_full_at_rest_is_no_fault_on_any_pool(void)
{
    seer_pool_config pools[64];
    uint32_t n = tiny_pools(pools);
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t capacity = 3; capacity <= 4; capacity++) {
            tiny t = {.entities = 16, .kinds = 1, .sweeps = 1, .lane_capacity = capacity,
                      .step = 3000};
            t.kind[0].handler = refill;
            t.sweep[0] = (seer_sweep){refill_start, 0, 0, 0, SEER_SWEEP_ON_RESET};
            tiny_make(&t, &pools[k]);
            int code = tiny_reset(&t, 1);
            if (!code) code = stepped(t.engine);
            EQUAL(code, capacity == 4 ? 0 : -SEER_ELANE, "capacity %u, %u threads, grain %u, share %u",
                  capacity, pools[k].threads, pools[k].grain, pools[k].share);
            if (capacity == 4) EQUAL(t.count[15], 4 * 299, "pool %u", k);
            tiny_free(&t);
        }
}

/* ---- descriptions that are not legal ------------------------------------------------ */

static void description_that_is_not_legal_is_refused(void)
{
    seer_pool_config good = {.threads = 2, .axis = SEER_AXIS_LANES};
    for (int spoil = 0; spoil <= 19; spoil++) {
        tiny t = {.kinds = 1, .sweeps = 1};
        tiny_fill fill;
        t.kind[0].handler = count_or_misbehave;
        t.sweep[0] = (seer_sweep){prepare, 0, 0, 0, SEER_SWEEP_ON_STEP};
        seer_model m = tiny_describe(&t, &fill);
        seer_pool_config pool = good;
        seer_grid grid = {TINY_WORD, 0, 2, {0, 0}, {1, 1}, 0.5};
        seer_total total = {SEER_SUM, TINY_COUNT, SEER_I64, 0, 0};
        switch (spoil) {
        case 0: break; /* nothing: this one is legal */
        case 1: m.layout++; break;
        case 2: m.worlds = 0; break;
        case 3: m.lookahead = -1; break;
        case 4: m.step = 0; break;
        case 5: m.seconds_per_tick = 0; break;
        case 6: m.seconds_per_tick = NAN; break;
        case 7: t.sweep[0].offset = 101; break;
        case 8: t.sweep[0].offset = -1; break;
        case 9: t.sweep[0].group = 1; break;
        case 10: t.sweep[0].fn = NULL; break;
        case 11: fill.group.count = 9; break;
        case 12: fill.column[TINY_COUNT].group = 4; break;
        case 13: fill.column[TINY_COUNT].latest = NULL; break;
        case 14: m.columns = 2; break;
        case 15: pool.threads = 0; break;
        case 16: pool.threads = SEER_MAX_THREADS + 1; break;
        case 17: pool.axis = 2; break;
        case 18: m.grids = 1, m.grid = &grid, grid.cell = 0; break;
        case 19: m.totals = 1, m.total = &total, total.op = 9; break;
        }
        int error = 0;
        t.engine = seer_engine_new(&m, &pool, &error);
        if (spoil == 0) CHECK(t.engine, "a legal description is refused: %d", error);
        else CHECK(!t.engine, "spoilt in way %d, and taken", spoil);
        if (spoil) CHECK(error == SEER_EINVAL || error == -SEER_EINVAL, "way %d: error %d", spoil, error);
        tiny_free(&t);
    }
}

static void call_out_of_order_is_refused(void)
{
    seer_pool_config pool = {.threads = 1, .grain = 1};
    tiny t = {.kinds = 1};
    tiny_make(&t, &pool);
    EQUAL(seer_engine_step(t.engine, NULL), -SEER_ESTATE, "a step before any reset");
    EQUAL(seer_engine_continue(t.engine), -SEER_ESTATE, "continue without a pause");
    EQUAL(tiny_reset(&t, 1), 0, "reset");
    EQUAL(stepped(t.engine), 0, "step");
    EQUAL(seer_engine_continue(t.engine), -SEER_ESTATE, "continue after the end");
    pool.threads = 0;
    EQUAL(seer_engine_set_pool(t.engine, &pool), -SEER_EINVAL, "no threads");
    EQUAL(seer_engine_tick(t.engine, 0), 100, "the refused pool changes nothing");
    EQUAL(stepped(t.engine), 0, "step");
    for (int code = 0; code < SEER_ECOUNT; code++)
        CHECK(seer_strerror(code) && *seer_strerror(code), "code %d has no text", code);
    CHECK(seer_strerror(-5) && seer_strerror(9999), "unknown codes have a text, too");
    tiny_free(&t);
}

int main(void)
{
    TEST(fault_of_each_sort_is_named_alike_on_every_pool);
    TEST(sweep_that_fails_names_its_first_row_on_every_pool);
    TEST(lane_that_is_full_at_rest_is_no_fault_on_any_pool);
    TEST(description_that_is_not_legal_is_refused);
    TEST(call_out_of_order_is_refused);
    return failures != 0;
}
