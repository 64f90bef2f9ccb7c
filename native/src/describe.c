/* describe.c - a model's description: is it legal, a copy of it, the order of its sweeps. */
#include <math.h>
#include <string.h>

#include "build.h"

int seer_model_valid(const seer_model *m)
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
    void *copy = seer_get(e, count, size);
    if (copy && count) memcpy(copy, array, count * size);
    return copy;
}

#define COPY(field, count) (m->field = copy_of(e, given.field, given.count, sizeof *given.field))

int seer_copy_model(seer_engine *e)
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
int seer_list_stops(seer_engine *e)
{
    const seer_model *m = &e->model;
    for (int run = 0; run < 2; run++) {
        seer_stop *stops = seer_get(e, m->sweeps, sizeof *stops);
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
