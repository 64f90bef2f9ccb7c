/* tiny.h - a model of one group with a count and a word for each entity, for tests of one thing. */
#ifndef SEER_TINY_H
#define SEER_TINY_H

#include "check.h"

enum { TINY_COUNT = SEER_COL_FIRST, TINY_WORD, TINY_COLUMNS };
enum { TINY_KINDS_MAX = 3, TINY_SWEEPS_MAX = 3 };

typedef struct tiny {
    /* set before tiny_make; what is 0 gets a default */
    uint32_t worlds, entities, max_rounds, lane_capacity;
    uint64_t world_capacity, step_capacity;
    int64_t lookahead, step; /* lookahead -1: none */
    seer_kind kind[TINY_KINDS_MAX];
    uint32_t kinds;
    seer_sweep sweep[TINY_SWEEPS_MAX];
    uint32_t sweeps;
    uint64_t param[4];
    /* the engine and its columns, (worlds, entities) each */
    seer_engine *engine;
    uint8_t *alive, *alive_seen, *acted;
    uint64_t *draws, *count, *word, *word_seen;
} tiny;

static const uint8_t tiny_alive = 1;

/* The description that is ready to be spoiled; `fill` keeps what it points to. */
typedef struct tiny_fill {
    seer_group group;
    seer_column column[TINY_COLUMNS];
} tiny_fill;

static inline seer_model tiny_describe(tiny *t, tiny_fill *fill)
{
    if (!t->worlds) t->worlds = 1;
    if (!t->entities) t->entities = 8;
    size_t n = (size_t)t->worlds * t->entities;
    if (!t->alive) {
        t->alive = zeros(n), t->alive_seen = zeros(n), t->acted = zeros(n);
        t->draws = zeros(8 * n), t->count = zeros(8 * n);
        t->word = zeros(8 * n), t->word_seen = zeros(8 * n);
    }
    fill->group = (seer_group){0, t->entities};
    seer_column column[TINY_COLUMNS] = {
        {t->alive, t->alive_seen, &tiny_alive, 1, 0}, {t->acted, NULL, NULL, 1, 0},
        {t->draws, NULL, NULL, 8, 0},                 {t->count, NULL, NULL, 8, 0},
        {t->word, t->word_seen, NULL, 8, 0}};
    memcpy(fill->column, column, sizeof column);
    return (seer_model){
        .layout = SEER_LAYOUT, .worlds = t->worlds, .entities = t->entities, .groups = 1,
        .columns = TINY_COLUMNS, .kinds = t->kinds, .sweeps = t->sweeps, .params = 4,
        .group = &fill->group, .column = fill->column, .kind = t->kind, .sweep = t->sweep,
        .param = t->param, .handler_writes = 1 << TINY_COUNT | 1 << TINY_WORD | 1,
        .lookahead = t->lookahead < 0 ? 0 : t->lookahead ? t->lookahead : 10,
        .step = t->step ? t->step : 100, .seconds_per_tick = 1e-9,
        .max_rounds = t->max_rounds ? t->max_rounds : 16,
        .lane_capacity = t->lane_capacity ? t->lane_capacity : 4096,
        .world_capacity = t->world_capacity ? t->world_capacity : 1 << 24,
        .step_capacity = t->step_capacity ? t->step_capacity : UINT64_C(1) << 31};
}

static inline void tiny_make(tiny *t, const seer_pool_config *pool)
{
    tiny_fill fill;
    seer_model model = tiny_describe(t, &fill);
    int error = 0;
    t->engine = seer_engine_new(&model, pool, &error);
    CHECK(t->engine, "seer_engine_new: %s", seer_strerror(error));
    if (!t->engine) exit(1);
}

static inline int tiny_reset(tiny *t, uint64_t seed)
{
    uint64_t *seeds = zeros(8 * t->worlds), *episodes = zeros(8 * t->worlds);
    for (uint32_t w = 0; w < t->worlds; w++) seeds[w] = seed + w;
    int code = reset_all(t->engine, seeds, episodes);
    free(seeds), free(episodes);
    return code;
}

static inline void tiny_free(tiny *t)
{
    seer_engine_free(t->engine);
    free(t->alive), free(t->alive_seen), free(t->acted), free(t->draws);
    free(t->count), free(t->word), free(t->word_seen);
    t->alive = NULL;
}

static inline uint64_t *tiny_row(seer_ctx *ctx, int column)
{
    return (uint64_t *)ctx->columns[2 * column] + ctx->entity;
}

/* The pools that every verdict must be the same on. */
static inline uint32_t tiny_pools(seer_pool_config out[64])
{
    uint32_t n = 0;
    for (uint32_t threads = 1; threads <= 4; threads++)
        for (uint32_t axis = 0; axis < 2; axis++)
            for (uint32_t grain = 1; grain <= 4; grain += 3)
                for (uint32_t share = 0; share < (threads > 1 ? 2 : 1); share++)
                    out[n++] = (seer_pool_config){.threads = threads, .axis = axis, .grain = grain,
                                                  .spin_ns = share ? 0 : 20000, .share = share,
                                                  .shuffle = share * (threads + grain)};
    return n;
}

#endif
