/* grid.c - neighbours by cells: a counting sort of a group's published positions. */
#include <math.h>
#include <string.h>

#include "engine.h"

int seer_grid_plan_of(const seer_grid *grid, uint32_t count, seer_grid_plan *plan)
{
    double wide = grid->high[0] - grid->low[0], deep = grid->high[1] - grid->low[1];
    double cell = grid->cell;
    if (!(wide >= 0 && deep >= 0 && cell > 0) || !isfinite(wide) || !isfinite(deep) || !isfinite(cell))
        return -SEER_EINVAL;
    double most = 4.0 * (count ? count : 1), nx, ny;
    for (;; cell *= 1.25) {
        nx = fmax(1.0, ceil(wide / cell));
        ny = fmax(1.0, ceil(deep / cell));
        if (nx * ny <= most || nx * ny <= 1.0) break;
    }
    *plan = (seer_grid_plan){.of = *grid, .nx = (uint32_t)nx, .ny = (uint32_t)ny,
                             .inverse = 1.0 / cell, .pad = 1e-9 * cell};
    return 0;
}

/* The cell along one axis; outsiders and NaN go to the border. */
static inline uint32_t cell_of(double x, double low, double inverse, uint32_t cells)
{
    double k = (x - low) * inverse;
    if (!(k > 0)) return 0;
    return k >= cells ? cells - 1 : (uint32_t)k;
}

void seer_grid_build(seer_engine *engine, seer_world *world, uint32_t grid)
{
    const seer_grid_plan *plan = &engine->grids[grid];
    const seer_grid *g = &plan->of;
    const seer_group *group = &engine->model.group[g->group];
    seer_cells *cells = &world->cells[grid];
    uint32_t n = plan->nx * plan->ny, index = seer_world_index(engine, world);
    const double *seen = engine->model.column[g->column].seen;
    seen += (size_t)index * group->count * g->components;
    const uint8_t *alive = engine->alive + (size_t)index * engine->model.entities + group->first;
    uint32_t *start = cells->start;

    /* start[c + 1] counts cell c, then becomes where it begins, then where it ends */
    memset(start, 0, (n + 1) * sizeof *start);
    uint32_t *cell = cells->start + n + 1; /* (group count,) scratch behind it */
    for (uint32_t i = 0; i < group->count; i++) {
        if (!alive[i]) continue;
        const double *at = seen + (size_t)i * g->components;
        cell[i] = cell_of(at[1], g->low[1], plan->inverse, plan->ny) * plan->nx +
                  cell_of(at[0], g->low[0], plan->inverse, plan->nx);
        start[cell[i] + 1]++;
    }
    uint32_t sum = 0;
    for (uint32_t c = 1; c <= n; c++) {
        uint32_t count = start[c];
        start[c] = sum;
        sum += count;
    }
    for (uint32_t i = 0; i < group->count; i++) {
        if (!alive[i]) continue;
        const double *at = seen + (size_t)i * g->components;
        cells->item[start[cell[i] + 1]++] = (seer_cell_item){
            .at = {at[0], at[1], g->components > 2 ? at[2] : 0.0}, .entity = group->first + i};
    }
}

int64_t seer_near(seer_ctx *ctx, uint32_t grid, double x, double y, double z, double radius)
{
    seer_worker *w = (seer_worker *)ctx;
    const seer_engine *engine = w->engine;
    if (grid >= engine->model.grids || !(radius >= 0)) return 0;
    const seer_grid_plan *plan = &engine->grids[grid];
    const seer_cells *cells = &w->cells[grid];
    double reach = radius + plan->pad, square = radius * radius;
    const double *low = plan->of.low;
    uint32_t x0 = cell_of(x - reach, low[0], plan->inverse, plan->nx);
    uint32_t x1 = cell_of(x + reach, low[0], plan->inverse, plan->nx);
    uint32_t y0 = cell_of(y - reach, low[1], plan->inverse, plan->ny);
    uint32_t y1 = cell_of(y + reach, low[1], plan->inverse, plan->ny);
    if (plan->of.components < 3) z = 0.0;
    uint32_t n = 0, *found = w->found;
    for (uint32_t row = y0; row <= y1; row++) {
        /* the cells of a row lie side by side */
        uint32_t k = cells->start[row * plan->nx + x0], end = cells->start[row * plan->nx + x1 + 1];
        /* Four at a time, those behind the end too: how many a row has is not predictable. Each is
         * written, and kept by being counted. */
        for (; k < end; k += SEER_NEAR_WIDTH)
            for (uint32_t j = k; j < k + SEER_NEAR_WIDTH; j++) {
                const seer_cell_item *item = &cells->item[j];
                double dx = item->at[0] - x, dy = item->at[1] - y, dz = item->at[2] - z;
                found[n] = item->entity;
                n += ((dx * dx + dy * dy) + dz * dz <= square) & (j < end);
            }
    }
    return n;
}
