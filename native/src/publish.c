/* publish.c - what others may see: published columns, grids and totals. */
#include <math.h>
#include <string.h>

#include "engine.h"

#define BLOCK 256 /* entities; partial results are combined in index order */

void seer_publish_rows(seer_engine *engine, seer_world *world, uint64_t mask, uint32_t first,
                       uint32_t last)
{
    const seer_model *m = &engine->model;
    uint32_t index = seer_world_index(engine, world);
    for (uint32_t c = 0; c < m->columns; c++) {
        const seer_column *column = &m->column[c];
        if (!(mask >> c & 1) || !column->seen) continue;
        const seer_group *g = &m->group[column->group];
        uint32_t low = first > g->first ? first : g->first;
        uint32_t high = last < g->first + g->count ? last : g->first + g->count;
        if (low >= high) continue;
        size_t at = ((size_t)index * g->count + (low - g->first)) * column->row_bytes;
        memcpy((char *)column->seen + at, (char *)column->latest + at,
               (size_t)(high - low) * column->row_bytes);
    }
}

uint64_t seer_unlike_published(seer_engine *engine, seer_world *world)
{
    const seer_model *m = &engine->model;
    uint32_t index = seer_world_index(engine, world);
    uint64_t mask = 0;
    for (uint32_t c = 0; c < m->columns; c++) {
        const seer_column *column = &m->column[c];
        size_t size = (size_t)m->group[column->group].count * column->row_bytes;
        /* a private column has nothing to compare with: totals over it are redone */
        if (!column->seen || memcmp((char *)column->latest + index * size,
                                    (char *)column->seen + index * size, size))
            mask |= UINT64_C(1) << c;
    }
    return mask;
}

int seer_all_as_alive(const seer_engine *engine, const seer_world *world)
{
    size_t n = engine->model.entities, at = n * seer_world_index(engine, world);
    const uint8_t *seen = engine->model.column[SEER_COL_ALIVE].seen;
    return !memcmp(engine->alive + at, seen + at, n);
}

static double value_at(const char *row, uint32_t dtype, uint32_t item)
{
    switch (dtype) {
    case SEER_U8: return ((const uint8_t *)row)[item];
    case SEER_I32: return ((const int32_t *)row)[item];
    case SEER_I64: return (double)((const int64_t *)row)[item];
    case SEER_F32: return ((const float *)row)[item];
    default: return ((const double *)row)[item];
    }
}

/* Least and greatest ignore NaN; the argument is the first entity id, -1 over nobody. */
static double reduce(const seer_engine *engine, const seer_total *total, uint32_t index)
{
    const seer_model *m = &engine->model;
    const seer_column *column = &m->column[total->column];
    const seer_group *g = &m->group[column->group];
    const char *row = (char *)column->latest + (size_t)index * g->count * column->row_bytes;
    const uint8_t *alive = engine->alive + (size_t)index * m->entities + g->first;
    double sum = 0.0, best = NAN, argument = -1.0;
    uint64_t count = 0;
    int least = total->op == SEER_MIN || total->op == SEER_ARGMIN;
    for (uint32_t block = 0; block < g->count; block += BLOCK) {
        uint32_t end = g->count - block < BLOCK ? g->count : block + BLOCK;
        double part = 0.0;
        for (uint32_t i = block; i < end; i++, row += column->row_bytes) {
            if (total->alive_only && !alive[i]) continue;
            double value = value_at(row, total->dtype, total->item);
            count++;
            if (total->op <= SEER_MEAN) part += value;
            else if (isnan(best) ? !isnan(value) : least ? value < best : value > best) {
                best = value;
                argument = g->first + i;
            }
        }
        sum += part;
    }
    switch (total->op) {
    case SEER_SUM: return sum;
    case SEER_MEAN: return sum / (double)count; /* NaN over nobody */
    case SEER_MIN: case SEER_MAX: return best;
    default: return argument;
    }
}

void seer_publish_derived(seer_engine *engine, seer_world *world, uint64_t mask)
{
    const seer_model *m = &engine->model;
    uint64_t alive = mask >> SEER_COL_ALIVE & 1;
    for (uint32_t k = 0; k < m->grids; k++)
        if (alive || mask >> m->grid[k].column & 1) seer_grid_build(engine, world, k);
    for (uint32_t k = 0; k < m->totals; k++)
        if ((alive && m->total[k].alive_only) || mask >> m->total[k].column & 1)
            world->totals[k] = reduce(engine, &m->total[k], seer_world_index(engine, world));
}
