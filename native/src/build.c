/* build.c - making an engine and its worlds, giving it another pool, and taking it apart. */
#include <stdlib.h>
#include <string.h>

#include "build.h"
#include "pool.h"
#include "rng.h"

void *seer_get(seer_engine *e, size_t count, size_t size)
{
    size_t bytes = ((count ? count : 1) * size + SEER_APART - 1) & ~(size_t)(SEER_APART - 1);
    void *memory = aligned_alloc(SEER_APART, bytes);
    if (!memory) return NULL;
    e->bytes += bytes;
    return memset(memory, 0, bytes);
}

static int make_worlds(seer_engine *e)
{
    const seer_model *m = &e->model;
    if (!(e->world = seer_get(e, m->worlds, sizeof(seer_world)))) return 0;
    for (uint32_t k = 0; k < m->worlds; k++) {
        seer_world *v = &e->world[k];
        v->steps = -1; /* never reset */
        v->bid = UINT64_MAX;
        if (!(v->totals = seer_get(e, m->totals, sizeof(double)))) return 0;
        if (!(v->cells = seer_get(e, m->grids, sizeof(seer_cells)))) return 0;
        for (uint32_t g = 0; g < m->grids; g++) {
            uint32_t count = m->group[m->grid[g].group].count;
            size_t cells = (size_t)e->grids[g].nx * e->grids[g].ny + 1;
            /* the scratch of the sort lies behind the starts */
            if (!(v->cells[g].start = seer_get(e, cells + count, sizeof(uint32_t))) ||
                !(v->cells[g].item = seer_get(e, count + SEER_NEAR_WIDTH, sizeof(seer_cell_item))))
                return 0;
        }
    }
    return 1;
}

static int legal_pool(const seer_pool_config *p)
{
    return p->threads >= 1 && p->threads <= SEER_MAX_THREADS && p->axis <= SEER_AXIS_LANES &&
           (p->axis == SEER_AXIS_LANES || p->grain >= 1);
}

/* Columns whose rows are fetched ahead of a lane: what handlers write, the first few of them. */
static uint64_t rows_to_fetch(const seer_model *m)
{
    uint64_t mask = 0;
    int count = 0;
    for (uint32_t c = SEER_COL_FIRST; c < m->columns && count < 2; c++)
        if (m->handler_writes >> c & 1 && m->group[m->column[c].group].count == m->entities) {
            mask |= UINT64_C(1) << c;
            count++;
        }
    return mask;
}

static int build(seer_engine *e)
{
    const seer_model *m = &e->model;
    if (!seer_copy_model(e) || !seer_list_stops(e)) return -SEER_ENOMEM;
    int64_t width = m->lookahead == 0 ? m->step / 1024 : m->lookahead < m->step ? m->lookahead : m->step;
    e->buckets = seer_buckets_of(width > 0 ? width : 1);
    if (!(e->grids = seer_get(e, m->grids, sizeof *e->grids))) return -SEER_ENOMEM;
    for (uint32_t k = 0; k < m->grids; k++)
        if (seer_grid_plan_of(&m->grid[k], m->group[m->grid[k].group].count, &e->grids[k]))
            return -SEER_EINVAL;
    e->alive = m->column[SEER_COL_ALIVE].latest;
    e->acted = m->column[SEER_COL_ACTED].latest;
    e->draws = m->column[SEER_COL_DRAWS].latest;
    e->row_ahead = rows_to_fetch(m);
    e->threads = e->pool.threads;
    e->phase_number = 1;
    /* END: nothing to help with. relaxed: nobody knows the engine yet */
    seer_store(&e->board.phase.value, UINT64_C(1), relaxed);
    seer_store(&e->board.bulletin[1].number, UINT64_C(1), relaxed);
    e->lanes = seer_get(e, (size_t)m->worlds * m->entities, sizeof(seer_lane));
    e->sweeps = seer_get(e, m->sweeps, sizeof *e->sweeps);
    e->per_kind_before = seer_get(e, m->kinds, sizeof(uint64_t));
    if (!e->lanes || !e->sweeps || !e->per_kind_before || !make_worlds(e) || !seer_make_parts(e))
        return -SEER_ENOMEM;
    for (uint32_t k = 0; k < m->worlds; k++)
        for (uint32_t j = 0; j < e->shards; j++) seer_shard_clear(&e->world[k].shards[j], 0);
    return 0;
}

seer_engine *seer_engine_new(const seer_model *model, const seer_pool_config *pool, int *error)
{
    *error = -SEER_EINVAL;
    if (!seer_model_valid(model) || !legal_pool(pool)) return NULL;
    *error = -SEER_ENOMEM;
    seer_engine *e = aligned_alloc(SEER_APART, (sizeof *e + SEER_APART - 1) & ~(size_t)(SEER_APART - 1));
    if (!e) return NULL;
    memset(e, 0, sizeof *e);
    e->model = *model;
    e->pool = *pool;
    e->bytes = sizeof *e;
    if ((*error = build(e)) == 0) return e;
    seer_engine_free(e);
    return NULL;
}

void seer_engine_free(seer_engine *e)
{
    if (!e) return;
    seer_pool_forget(e);
    seer_free_workers(e);
    seer_free_shards(e);
    for (uint32_t k = 0; e->world && k < e->model.worlds; k++) {
        for (uint32_t g = 0; e->world[k].cells && g < e->model.grids; g++) {
            free(e->world[k].cells[g].start);
            free(e->world[k].cells[g].item);
        }
        free(e->world[k].cells);
        free(e->world[k].totals);
    }
    for (uint32_t c = 0; e->copied && e->model.column && c < e->model.columns; c++) free((void *)e->model.column[c].initial);
    const void *owned[] = {e->world, e->lanes, e->grids, e->sweeps, e->per_kind_before,
                           e->stops[0], e->stops[1]};
    for (size_t k = 0; k < sizeof owned / sizeof *owned; k++) free((void *)owned[k]);
    const void *copies[] = {e->model.group, e->model.column, e->model.kind, e->model.sweep,
                            e->model.total, e->model.grid, e->model.param};
    for (size_t k = 0; e->copied && k < sizeof copies / sizeof *copies; k++) free((void *)copies[k]);
    free(e);
}

void seer_clear_world(seer_engine *e, seer_world *v, uint64_t seed, uint64_t episode)
{
    const seer_model *m = &e->model;
    uint32_t index = seer_world_index(e, v);
    v->seed = seed;
    v->episode = episode;
    v->key = seer_mix_key(seed, episode);
    v->tick = v->steps = 0;
    v->pending = 0;
    v->failed = v->mailed = v->copied = 0;
    for (uint32_t k = 0; k < e->shards; k++) seer_shard_clear(&v->shards[k], 0);
    for (uint32_t c = 0; c < m->columns; c++) {
        const seer_column *column = &m->column[c];
        size_t count = m->group[column->group].count;
        char *row = (char *)column->latest + index * count * column->row_bytes;
        if (!column->initial) memset(row, 0, count * column->row_bytes);
        else
            for (size_t k = 0; k < count; k++, row += column->row_bytes)
                memcpy(row, column->initial, column->row_bytes);
    }
    memset(e->alive + (size_t)index * m->entities, 1, m->entities);
    memset(e->acted + (size_t)index * m->entities, 1, m->entities);
}

/* ---- another pool ------------------------------------------------------------- */

/* What is made anew. */
typedef struct parts {
    seer_pool_config pool;
    uint32_t threads, shards, shift, fine;
    seer_worker *worker;
    seer_outbox *outboxes;
    seer_shard *all_shards;
    uint64_t *maps, bytes, pool_bytes;
} parts;

static void swap_parts(seer_engine *e, parts *p)
{
    parts old = {e->pool, e->threads, e->shards, e->shift, e->fine, e->worker, e->outboxes,
                 e->all_shards, e->maps, e->bytes, e->pool_bytes};
    e->pool = p->pool, e->threads = p->threads, e->shards = p->shards, e->shift = p->shift;
    e->fine = p->fine, e->worker = p->worker, e->outboxes = p->outboxes;
    e->all_shards = p->all_shards, e->maps = p->maps, e->bytes = p->bytes, e->pool_bytes = p->pool_bytes;
    for (uint32_t k = 0; e->all_shards && k < e->model.worlds; k++)
        e->world[k].shards = e->all_shards + (size_t)k * e->shards;
    *p = old;
}

/* With the engine entered. Short of memory, the engine stays as it is, or, when its events cannot be
 * filed any more, waits for a reset. */
static int rebuild(seer_engine *e, seer_pool_config pool, uint32_t fine)
{
    const seer_model *m = &e->model;
    uint64_t pending = 0, at = 0;
    for (uint32_t k = 0; k < m->worlds; k++) pending += e->world[k].pending;
    /* the lanes' events leave the old shards' arenas and are filed in the new ones */
    size_t lanes = (size_t)m->worlds * m->entities;
    seer_event *events = malloc((pending + 1) * sizeof *events);
    char *wide = malloc((pending + 1) * SEER_WIDE_BYTES);
    uint32_t *lengths = malloc((lanes + 1) * sizeof *lengths);
    uint32_t *sequences = malloc((lanes + 1) * sizeof *sequences);
    int code = events && wide && lengths && sequences ? 0 : -SEER_ENOMEM;
    if (code) goto out;

    seer_pool_forget(e);
    parts other = {.pool = pool, .threads = pool.threads, .fine = fine, .bytes = e->bytes};
    swap_parts(e, &other);
    if (!seer_make_parts(e)) {
        seer_free_workers(e);
        seer_free_shards(e);
        code = -SEER_ENOMEM;
    }
    swap_parts(e, &other);
    if (code) goto out;
    for (uint32_t k = 0; k < m->worlds; k++) {
        size_t row = (size_t)k * m->entities;
        seer_engine_export(e, k, events + at, wide + at * SEER_WIDE_BYTES, lengths + row, sequences + row);
        at += e->world[k].pending;
        if (e->world[k].failed) /* awaits its reset, and may hold more than is legal */
            memset(lengths + row, 0, m->entities * sizeof *lengths);
    }
    seer_counters counters;
    seer_engine_counters(e, &counters, e->per_kind_before);
    e->counters_before = counters;
    seer_free_workers(e);
    seer_free_shards(e);
    swap_parts(e, &other);
    e->bytes -= other.pool_bytes;
    e->windows = (seer_tuner){0};
    memset(e->sweeps, 0, m->sweeps * sizeof *e->sweeps);
    seer_store(&e->present, UINT64_C(0), relaxed); /* relaxed: nobody helps now */
    at = 0;
    for (uint32_t k = 0; k < m->worlds; k++) {
        size_t row = (size_t)k * m->entities;
        seer_world *v = &e->world[k];
        uint64_t count = v->pending;
        int filed = seer_file_all(e, v, events + at, wide + at * SEER_WIDE_BYTES, lengths + row,
                                  sequences + row);
        at += count;
        if (!filed) continue;
        for (uint32_t j = 0; j < e->shards; j++) seer_shard_clear(&v->shards[j], 0);
        v->pending = 0;
        v->failed = e->failed = 1;
        e->fault = (seer_fault){.code = -filed, .world = k, .entity = SEER_NONE, .source = SEER_NONE,
                                .target = SEER_NONE, .kind = SEER_NONE, .sweep = SEER_NONE,
                                .handler = SEER_NONE, .time = v->tick, .event_time = v->tick};
        code = filed;
    }
out:
    free(events);
    free(wide);
    free(lengths);
    free(sequences);
    return code;
}

int seer_engine_set_pool(seer_engine *e, const seer_pool_config *pool)
{
    if (!legal_pool(pool)) return -SEER_EINVAL;
    int code = seer_engine_enter(e);
    if (code) return code;
    return seer_engine_leave(e, e->paused ? -SEER_ESTATE : rebuild(e, *pool, 0));
}

int seer_refine(seer_engine *e) { return rebuild(e, e->pool, 1); }
