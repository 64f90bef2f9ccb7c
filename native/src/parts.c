/* parts.c - what an engine has for its pool: shards, workers and their outboxes. */
#include <stdlib.h>
#include <string.h>

#include "build.h"

void seer_free_shards(seer_engine *e)
{
    if (e->all_shards)
        for (size_t k = 0; k < (size_t)e->model.worlds * e->shards; k++)
            seer_arena_free(&e->all_shards[k].arena);
    free(e->all_shards);
    free(e->maps);
    e->all_shards = NULL;
    e->maps = NULL;
}

void seer_free_workers(seer_engine *e)
{
    for (uint32_t k = 0; e->worker && k < e->threads; k++) {
        seer_worker *w = &e->worker[k];
        free(w->addressee);
        free(w->ids);
        free(w->found);
        free(w->table);
        free(w->per_kind);
    }
    for (size_t k = 0; e->outboxes && k < (size_t)e->threads * 2 * e->shards; k++) free(e->outboxes[k].more);
    free(e->outboxes);
    free(e->worker);
    e->outboxes = NULL;
    e->worker = NULL;
}

static void plan_shards(seer_engine *e)
{
    uint32_t n = e->model.entities, lanes = n;
    if (e->pool.axis == SEER_AXIS_LANES) {
        lanes = e->pool.grain;
        if (!lanes) {
            /* Each shard costs a few cache lines and mispredictions a window: one where windows may
             * be short, several where there is enough to share out, or work has proved to be long;
             * then at least one for each worker of the largest group. */
            uint32_t largest = 0, fewest = e->fine || e->pool.share ? n / (4 * e->threads) : 512;
            for (uint32_t k = 0; k < e->model.groups; k++)
                if (e->model.group[k].count > largest && e->model.group[k].count < n)
                    largest = e->model.group[k].count;
            if (!largest) largest = n;
            lanes = n / (8 * e->threads) > fewest ? n / (8 * e->threads) : fewest;
            if (lanes > largest / e->threads) lanes = largest / e->threads;
            if (e->threads == 1 || (n < 1024 && !e->fine && !e->pool.share)) lanes = n;
        }
    }
    if (lanes == 0) lanes = 1;
    uint32_t rounded = e->pool.grain || lanes == n;
    e->shift = 0;
    while (e->shift < 31 && (UINT32_C(1) << e->shift) < lanes) e->shift++;
    if (!rounded && (UINT32_C(1) << e->shift) > lanes && e->shift) e->shift--; /* down, not up */
    e->shards = n ? ((n - 1) >> e->shift) + 1 : 1;
}

static int make_shards(seer_engine *e)
{
    const seer_model *m = &e->model;
    size_t count = (size_t)m->worlds * e->shards;
    size_t maps = seer_shard_map_bytes(UINT32_C(1) << e->shift) * count;
    if (e->shards == 1) maps = seer_shard_map_bytes(m->entities) * count;
    if (!(e->all_shards = seer_get(e, count, sizeof(seer_shard))) || !(e->maps = seer_get(e, maps, 1))) return 0;
    uint64_t *map = e->maps;
    for (uint32_t world = 0; world < m->worlds; world++) {
        seer_world *v = &e->world[world];
        v->shards = e->all_shards + (size_t)world * e->shards;
        for (uint32_t k = 0; k < e->shards; k++) {
            seer_shard *s = &v->shards[k];
            uint32_t first = k << e->shift, end = first + (UINT32_C(1) << e->shift);
            if (end > m->entities) end = m->entities;
            s->first = first;
            s->count = end - first;
            s->lanes = e->lanes + (size_t)world * m->entities + first;
            s->map = map;
            map += seer_shard_map_bytes(s->count) / sizeof *map;
            s->map_stride = (uint32_t)(map - s->map) / (SEER_RING + 1);
            s->map_summary = s->map_stride - (s->count + 63) / 64;
            s->buckets = e->buckets;
            s->lane_capacity = m->lane_capacity;
            seer_store(&s->claim.phase, e->phase_number, relaxed); /* relaxed: nobody helps now */
        }
    }
    return 1;
}

static int make_workers(seer_engine *e)
{
    const seer_model *m = &e->model;
    size_t outboxes = (size_t)e->threads * 2 * e->shards;
    if (!(e->worker = seer_get(e, e->threads, sizeof(seer_worker)))) return 0;
    if (!(e->outboxes = seer_get(e, outboxes, sizeof(seer_outbox)))) return 0;
    for (size_t k = 0; k < outboxes; k++) {
        e->outboxes[k].batch.events = e->outboxes[k].first;
        e->outboxes[k].batch.capacity = sizeof e->outboxes[k].first / sizeof(seer_event);
    }
    for (uint32_t k = 0; k < e->threads; k++) {
        seer_worker *w = &e->worker[k];
        w->engine = e;
        w->index = k;
        w->running = w->sweep = w->kind = SEER_NONE;
        w->shift = e->shift;
        w->heaviest = k;
        w->shuffle = e->pool.shuffle ? e->pool.shuffle + k * 7919u : 0;
        w->ids = seer_get(e, e->shards > 1 ? (size_t)1 << e->shift : m->entities, sizeof *w->ids);
        w->found = seer_get(e, m->grids ? m->entities + SEER_NEAR_WIDTH : 0, sizeof *w->found);
        w->table = seer_get(e, 2 * m->columns, sizeof *w->table);
        w->per_kind = seer_get(e, m->kinds, sizeof *w->per_kind);
        w->addressee = seer_get(e, e->shards, sizeof *w->addressee);
        for (uint32_t parity = 0; parity < 2; parity++)
            w->outbox[parity] = e->outboxes + ((size_t)k * 2 + parity) * e->shards;
        if (!w->ids || !w->found || !w->table || !w->per_kind || !w->addressee) return 0;
        w->ctx = (seer_ctx){.entities = m->entities, .columns = (char *const *)w->table,
                            .params = m->param, .found = w->found,
                            .seconds_per_tick = m->seconds_per_tick};
        seer_store(&e->gather.slot[k].key, UINT64_MAX, relaxed); /* relaxed: nobody helps now */
    }
    return 1;
}

/* Makes what the pool decides: shards, whose lanes are still to be cleared, and workers. */
int seer_make_parts(seer_engine *e)
{
    uint64_t before = e->bytes;
    plan_shards(e);
    int made = make_shards(e) && make_workers(e);
    e->pool_bytes = e->bytes - before;
    return made;
}
