/* build.c - making an engine, its worlds and shards, and taking them apart. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "pool.h"
#include "rng.h"

static void *get(seer_engine *e, size_t count, size_t size)
{
    size_t bytes = ((count ? count : 1) * size + SEER_APART - 1) & ~(size_t)(SEER_APART - 1);
    void *memory = aligned_alloc(SEER_APART, bytes);
    if (!memory) return NULL;
    e->bytes += bytes;
    return memset(memory, 0, bytes);
}

/* ---- the description ------------------------------------------------------ */

static int valid(const seer_model *m)
{
    if (m->layout != SEER_LAYOUT || !m->worlds || m->columns < SEER_COL_FIRST ||
        m->columns > SEER_COLUMNS_MAX || !m->groups || m->lookahead < 0 || m->step < 1 ||
        m->step > SEER_TIME_MAX || m->lookahead > SEER_TIME_MAX || !(m->seconds_per_tick > 0) ||
        m->kinds > UINT16_MAX || m->sweeps >= SEER_SWEEPS_MAX || m->max_rounds >= UINT16_MAX || !m->lane_capacity ||
        m->entities == SEER_NONE)
        return 0;
    for (uint32_t k = 0; k < m->groups; k++)
        if (m->group[k].first > m->entities || m->group[k].count > m->entities - m->group[k].first)
            return 0;
    for (uint32_t k = 0; k < m->columns; k++)
        if (!m->column[k].latest || m->column[k].group >= m->groups) return 0;
    for (uint32_t k = 0; k < SEER_COL_FIRST; k++)
        if (m->group[m->column[k].group].count != m->entities) return 0;
    for (uint32_t k = 0; k < m->sweeps; k++)
        if (!m->sweep[k].fn || m->sweep[k].group >= m->groups || m->sweep[k].offset < 0 ||
            m->sweep[k].offset > m->step)
            return 0;
    for (uint32_t k = 0; k < m->totals; k++)
        if (m->total[k].column >= m->columns || m->total[k].op > SEER_ARGMAX ||
            m->total[k].dtype > SEER_F64)
            return 0;
    for (uint32_t k = 0; k < m->grids; k++) {
        const seer_grid *g = &m->grid[k];
        if (g->column >= m->columns || !m->column[g->column].seen || g->components < 2 ||
            g->components > 3 || m->column[g->column].row_bytes != g->components * sizeof(double) ||
            g->group != m->column[g->column].group)
            return 0;
    }
    return 1;
}

static void *copy_of(seer_engine *e, const void *array, size_t count, size_t size)
{
    void *copy = get(e, count, size);
    if (copy && count) memcpy(copy, array, count * size);
    return copy;
}

#define COPY(field, count) (m->field = copy_of(e, given.field, given.count, sizeof *given.field))

static int copy_model(seer_engine *e)
{
    seer_model *m = &e->model, given = *m;
    m->group = NULL, m->column = NULL, m->kind = NULL, m->sweep = NULL;
    m->total = NULL, m->grid = NULL, m->param = NULL;
    e->copied = 1;
    if (!(COPY(group, groups) && COPY(column, columns) && COPY(kind, kinds) && COPY(sweep, sweeps) &&
          COPY(total, totals) && COPY(grid, grids) && COPY(param, params)))
        return 0;
    for (uint32_t k = 0; k < m->columns; k++) /* now copies are freed with the engine: none twice */
        ((seer_column *)m->column)[k].initial = NULL;
    for (uint32_t k = 0; k < m->columns; k++) {
        seer_column *c = (seer_column *)&m->column[k];
        const void *row = given.column[k].initial;
        if (row && !(c->initial = copy_of(e, row, c->row_bytes, 1))) return 0;
    }
    return 1;
}

/* In which order sweeps come: by offset in a step, in a reset those of resets alone come first. */
static int list_stops(seer_engine *e)
{
    const seer_model *m = &e->model;
    for (int run = 0; run < 2; run++) {
        seer_stop *stops = get(e, m->sweeps, sizeof *stops);
        if (!(e->stops[run] = stops)) return 0;
        uint32_t n = 0;
        for (uint32_t k = 0; k < m->sweeps; k++) {
            const seer_sweep *s = &m->sweep[k];
            if (!(s->flags & (run == SEER_RUN_STEP ? SEER_SWEEP_ON_STEP : SEER_SWEEP_ON_RESET))) continue;
            int64_t offset = run == SEER_RUN_RESET && !(s->flags & SEER_SWEEP_ON_STEP) ? -1 : s->offset;
            uint32_t at = n++;
            for (; at > 0 && stops[at - 1].offset > offset; at--) stops[at] = stops[at - 1];
            stops[at] = (seer_stop){offset, k};
        }
        e->stop_count[run] = n;
    }
    return 1;
}

/* ---- worlds and shards ------------------------------------------------------ */

static void free_shards(seer_engine *e)
{
    if (e->all_shards)
        for (size_t k = 0; k < (size_t)e->model.worlds * e->shards; k++)
            seer_arena_free(&e->all_shards[k].arena);
    free(e->all_shards);
    free(e->maps);
    e->all_shards = NULL;
    e->maps = NULL;
}

static void free_workers(seer_engine *e)
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
    if (!(e->all_shards = get(e, count, sizeof(seer_shard))) || !(e->maps = get(e, maps, 1))) return 0;
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
    if (!(e->worker = get(e, e->threads, sizeof(seer_worker)))) return 0;
    if (!(e->outboxes = get(e, outboxes, sizeof(seer_outbox)))) return 0;
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
        w->ids = get(e, e->shards > 1 ? (size_t)1 << e->shift : m->entities, sizeof *w->ids);
        w->found = get(e, m->grids ? m->entities + SEER_NEAR_WIDTH : 0, sizeof *w->found);
        w->table = get(e, 2 * m->columns, sizeof *w->table);
        w->per_kind = get(e, m->kinds, sizeof *w->per_kind);
        w->addressee = get(e, e->shards, sizeof *w->addressee);
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
static int make_parts(seer_engine *e)
{
    uint64_t before = e->bytes;
    plan_shards(e);
    int made = make_shards(e) && make_workers(e);
    e->pool_bytes = e->bytes - before;
    return made;
}

static int make_worlds(seer_engine *e)
{
    const seer_model *m = &e->model;
    if (!(e->world = get(e, m->worlds, sizeof(seer_world)))) return 0;
    for (uint32_t k = 0; k < m->worlds; k++) {
        seer_world *v = &e->world[k];
        v->steps = -1; /* never reset */
        v->bid = UINT64_MAX;
        if (!(v->totals = get(e, m->totals, sizeof(double)))) return 0;
        if (!(v->cells = get(e, m->grids, sizeof(seer_cells)))) return 0;
        for (uint32_t g = 0; g < m->grids; g++) {
            uint32_t count = m->group[m->grid[g].group].count;
            size_t cells = (size_t)e->grids[g].nx * e->grids[g].ny + 1;
            /* the scratch of the sort lies behind the starts */
            if (!(v->cells[g].start = get(e, cells + count, sizeof(uint32_t))) ||
                !(v->cells[g].item = get(e, count + SEER_NEAR_WIDTH, sizeof(seer_cell_item))))
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
    if (!copy_model(e) || !list_stops(e)) return -SEER_ENOMEM;
    int64_t width = m->lookahead == 0 ? m->step / 1024 : m->lookahead < m->step ? m->lookahead : m->step;
    e->buckets = seer_buckets_of(width > 0 ? width : 1);
    if (!(e->grids = get(e, m->grids, sizeof *e->grids))) return -SEER_ENOMEM;
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
    e->lanes = get(e, (size_t)m->worlds * m->entities, sizeof(seer_lane));
    e->sweeps = get(e, m->sweeps, sizeof *e->sweeps);
    e->per_kind_before = get(e, m->kinds, sizeof(uint64_t));
    if (!e->lanes || !e->sweeps || !e->per_kind_before || !make_worlds(e) || !make_parts(e))
        return -SEER_ENOMEM;
    for (uint32_t k = 0; k < m->worlds; k++)
        for (uint32_t j = 0; j < e->shards; j++) seer_shard_clear(&e->world[k].shards[j], 0);
    return 0;
}

seer_engine *seer_engine_new(const seer_model *model, const seer_pool_config *pool, int *error)
{
    *error = -SEER_EINVAL;
    if (!valid(model) || !legal_pool(pool)) return NULL;
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
    free_workers(e);
    free_shards(e);
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
    for (uint32_t k = 0; k < e->shards; k++) {
        seer_shard_clear(&v->shards[k], 0);
    }
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
    if (!make_parts(e)) {
        free_workers(e);
        free_shards(e);
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
    free_workers(e);
    free_shards(e);
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
