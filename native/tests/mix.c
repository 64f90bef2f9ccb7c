/* mix.c - the model of mix.h, and its handlers for the engine. */
#include "mix_acts.h"

/* ---- what an entity does ---------------------------------------------------- */

/* Payload word 0: how many generations are left, 0 for ever; the rest only feeds the hash. */
static int pass_on(acts *a, uint64_t generations)
{
    const mix_options *o = a->options;
    uint64_t r = a->bits(a), r2 = a->bits(a);
    int remote = (r & 255) < o->remote && o->entities > 1;
    int instant = (r >> 8 & 255) < o->instant && a->round < 6;
    int far = (r >> 16 & 255) < o->far;
    uint32_t reach = o->entities;
    if ((r >> 24 & 255) < o->uneven && o->entities >= 16) reach /= 16;
    uint32_t to = remote ? (uint32_t)((r >> 32) % reach) : a->self;
    int64_t least = to == a->self ? 0 : o->lookahead;
    int64_t ticks = least + (int64_t)(r2 % (uint64_t)(2 * o->lookahead + 7));
    if (instant && least == 0) ticks = 0;
    /* Not for ever at one instant: time has to pass for those that did not ask for it. */
    else if (ticks == 0) ticks = 1;
    if (far) ticks += (int64_t)(r2 >> 32) % (400 * (o->lookahead + 1));
    if (r2 >> 60 == 0) ticks = ticks > o->lookahead ? ticks : o->lookahead; /* ties */
    uint32_t kind = (uint32_t)(r2 >> 50) % MIX_KINDS;
    uint64_t payload[5] = {generations, r, r2, a->self, *a->hash};
    return a->send(a, kind, to, ticks, payload);
}

int mix_on_event(acts *a, const seer_event *e, const uint64_t *payload)
{
    const mix_options *o = a->options;
    uint64_t h = *a->hash;
    h = fold(h, (uint64_t)e->time);
    h = fold(h, (uint64_t)e->round << 48 | (uint64_t)e->kind << 32 | e->source);
    h = fold(h, (uint64_t)e->sequence << 32 | e->target);
    h = fold(h, payload[0]);
    if (e->kind == MIX_LETTER) h = fold(h, fold(payload[1] ^ payload[2], payload[3] ^ payload[4]));
    h = fold(h, a->shown_seen[h % o->entities]);
    for (uint32_t i = 0; i < o->work; i++) h = mixed(h + i);
    *a->hash = h;
    if ((h & 65535) < o->death) *a->alive = 0;
    uint64_t generations = payload[0];
    if (generations != 1 && !pass_on(a, generations ? generations - 1 : 0)) return 0;
    if (generations == 0 && (h >> 16 & 255) < o->burst)
        for (int i = 0; i < 3; i++)
            if (!pass_on(a, 2)) return 0;
    return 1;
}

int mix_on_sweep(acts *a, uint32_t sweep)
{
    if (sweep == MIX_START) {
        *a->hash = a->bits(a);
        for (uint32_t i = 0; i < a->options->tokens; i++)
            if (!pass_on(a, 0)) return 0;
        return 1;
    }
    *a->hash = fold(*a->hash, (uint64_t)a->now << 2 | sweep);
    *a->hash = fold(*a->hash, a->shown_seen[*a->hash % a->options->entities]);
    *a->shown = *a->hash;
    /* One in eight also sends, and from time to time for the present instant. */
    return (*a->hash & 7) || pass_on(a, 3);
}

/* ---- on the engine ---------------------------------------------------------- */

static uint64_t engine_bits(acts *a) { return seer_bits(a->behind); }

static int engine_send(acts *a, uint32_t kind, uint32_t to, int64_t ticks, const uint64_t payload[5])
{
    if (kind == MIX_LETTER) return seer_send_wide(a->behind, kind, to, ticks, payload);
    return seer_send(a->behind, kind, to, ticks, payload[0]);
}

static acts engine_acts(seer_ctx *ctx, uint32_t entity)
{
    acts a = {.bits = engine_bits, .send = engine_send, .behind = ctx, .self = entity,
              .round = ctx->round, .now = ctx->now};
    a.options = (const mix_options *)(uintptr_t)ctx->params[0];
    a.alive = (uint8_t *)ctx->columns[2 * SEER_COL_ALIVE] + entity;
    a.hash = (uint64_t *)ctx->columns[2 * MIX_HASH] + entity;
    a.shown = (uint64_t *)ctx->columns[2 * MIX_SHOWN] + entity;
    a.shown_seen = (const uint64_t *)ctx->columns[2 * MIX_SHOWN + 1];
    return a;
}

static int32_t handle(seer_ctx *ctx, int64_t entity, const seer_event *event, const void *payload)
{
    acts a = engine_acts(ctx, (uint32_t)entity);
    uint64_t words[5] = {0};
    memcpy(words, payload, event->kind == MIX_LETTER ? sizeof words : 8);
    return mix_on_event(&a, event, words);
}

static int32_t rows(seer_ctx *ctx, int64_t first, int64_t last, uint32_t sweep)
{
    const uint8_t *alive = (const uint8_t *)ctx->columns[2 * SEER_COL_ALIVE];
    for (int64_t i = first; i < last; i++) {
        if (!alive[i]) continue;
        ctx->entity = (uint32_t)i;
        acts a = engine_acts(ctx, (uint32_t)i);
        if (!mix_on_sweep(&a, sweep)) return 0;
    }
    return 1;
}

static int32_t start(seer_ctx *c, int64_t i, int64_t n) { return rows(c, i, n, MIX_START); }
static int32_t begin(seer_ctx *c, int64_t i, int64_t n) { return rows(c, i, n, MIX_BEGIN); }
static int32_t middle(seer_ctx *c, int64_t i, int64_t n) { return rows(c, i, n, MIX_MIDDLE); }
static int32_t end(seer_ctx *c, int64_t i, int64_t n) { return rows(c, i, n, MIX_END); }

void mix_make_columns(const mix_options *o, mix_columns *c)
{
    size_t n = (size_t)o->worlds * o->entities;
    *c = (mix_columns){zeros(n), zeros(n), zeros(n), zeros(8 * n), zeros(8 * n), zeros(8 * n),
                       zeros(8 * n)};
}

void mix_free_columns(mix_columns *c)
{
    free(c->alive), free(c->alive_seen), free(c->acted), free(c->draws);
    free(c->hash), free(c->shown), free(c->shown_seen);
}

seer_engine *mix_make(const mix_options *o, const seer_pool_config *pool, mix_columns *c)
{
    static const uint8_t one = 1;
    mix_make_columns(o, c);
    seer_group group = {0, o->entities};
    seer_column column[MIX_COLUMNS] = {
        {c->alive, c->alive_seen, &one, 1, 0}, {c->acted, NULL, NULL, 1, 0},
        {c->draws, NULL, NULL, 8, 0},          {c->hash, NULL, NULL, 8, 0},
        {c->shown, c->shown_seen, NULL, 8, 0}};
    seer_kind kind[MIX_KINDS] = {
        {handle, 0}, {handle, SEER_KIND_WIDE}, {handle, SEER_KIND_EVEN_IF_DEAD}};
    uint64_t writes = 1 << MIX_HASH | 1 << MIX_SHOWN | 1 << SEER_COL_ALIVE;
    seer_sweep sweep[MIX_SWEEPS] = {{start, 0, writes, 0, SEER_SWEEP_ON_RESET},
                                    {begin, 0, writes, 0, SEER_SWEEP_ON_STEP},
                                    {middle, o->step / 3, writes, 0, SEER_SWEEP_ON_STEP},
                                    {end, o->step, writes, 0, SEER_SWEEP_ON_STEP}};
    uint64_t param = (uint64_t)(uintptr_t)o;
    seer_model model = {.layout = SEER_LAYOUT, .worlds = o->worlds, .entities = o->entities,
                        .groups = 1, .columns = MIX_COLUMNS, .kinds = MIX_KINDS,
                        .sweeps = MIX_SWEEPS, .params = 1, .group = &group, .column = column,
                        .kind = kind, .sweep = sweep, .param = &param,
                        .handler_writes = 1 << MIX_HASH | 1 << SEER_COL_ALIVE,
                        .lookahead = o->lookahead, .step = o->step, .seconds_per_tick = 1e-9,
                        .max_rounds = 64, .lane_capacity = 1 << 20, .world_capacity = 1 << 28,
                        .step_capacity = UINT64_C(1) << 40};
    int error = 0;
    seer_engine *engine = seer_engine_new(&model, pool, &error);
    CHECK(engine, "mix_make: %s", seer_strerror(error));
    if (!engine) exit(1);
    return engine;
}

int mix_reset(seer_engine *engine, const mix_options *o, uint64_t seed)
{
    uint64_t *seeds = zeros(8 * o->worlds), *episodes = zeros(8 * o->worlds);
    for (uint32_t w = 0; w < o->worlds; w++) seeds[w] = seed + w;
    int code = reset_all(engine, seeds, episodes);
    free(seeds), free(episodes);
    return code;
}

mix_pending mix_export(seer_engine *engine, const mix_options *o)
{
    mix_pending p = {0};
    for (uint32_t w = 0; w < o->worlds; w++) p.count += seer_engine_pending(engine, w);
    p.events = zeros(p.count * sizeof *p.events);
    p.wide = zeros(p.count * SEER_WIDE_BYTES);
    p.lengths = zeros(4 * (size_t)o->worlds * o->entities);
    p.sequences = zeros(4 * (size_t)o->worlds * o->entities);
    uint64_t at = 0;
    for (uint32_t w = 0; w < o->worlds; w++) {
        size_t lanes = (size_t)w * o->entities;
        seer_engine_export(engine, w, p.events + at, p.wide + at * SEER_WIDE_BYTES,
                           p.lengths + lanes, p.sequences + lanes);
        at += seer_engine_pending(engine, w);
    }
    return p;
}

void mix_free_pending(mix_pending *p)
{
    free(p->events), free(p->wide), free(p->lengths), free(p->sequences);
}

/* ---- comparing -------------------------------------------------------------- */

static uint64_t first_difference(const void *a, const void *b, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (((const char *)a)[i] != ((const char *)b)[i]) return i;
    return bytes;
}

#define SAME(field, item)                                                                         \
    do {                                                                                          \
        uint64_t at_ = first_difference(wanted->field, got->field, n * (item)) / (item);          \
        CHECK(at_ == n, "%s: %s differs first in world %" PRIu64 ", entity %" PRIu64, what,       \
              #field, at_ / o->entities, at_ % o->entities);                                      \
    } while (0)

void mix_compare(const mix_options *o, const mix_columns *wanted, const mix_columns *got,
                 const mix_pending *wp, const mix_pending *gp, const char *what)
{
    size_t n = (size_t)o->worlds * o->entities;
    SAME(hash, 8);
    SAME(shown, 8);
    SAME(shown_seen, 8);
    SAME(draws, 8);
    SAME(alive, 1);
    SAME(alive_seen, 1);
    SAME(acted, 1);
    EQUAL(gp->count, wp->count, "%s: pending events", what);
    if (gp->count != wp->count) return;
    uint64_t at = first_difference(wp->lengths, gp->lengths, 4 * n) / 4;
    CHECK(at == n, "%s: lane lengths differ first at %" PRIu64, what, at);
    at = first_difference(wp->sequences, gp->sequences, 4 * n) / 4;
    CHECK(at == n, "%s: sequences differ first at %" PRIu64, what, at);
    for (uint64_t i = 0; i < gp->count; i++) {
        seer_event a = wp->events[i], b = gp->events[i];
        if (a.kind == MIX_LETTER) {
            at = first_difference(wp->wide + i * SEER_WIDE_BYTES, gp->wide + i * SEER_WIDE_BYTES,
                                  SEER_WIDE_BYTES);
            CHECK(at == SEER_WIDE_BYTES, "%s: payload of pending event %" PRIu64, what, i);
            a.payload = b.payload = 0;
        }
        CHECK(!memcmp(&a, &b, sizeof a), "%s: pending event %" PRIu64 " of entity %u", what, i,
              a.target);
        if (failures > 20) return;
    }
}

uint64_t mix_sum(const mix_options *o, const mix_columns *c, const mix_pending *p)
{
    uint64_t sum = p->count;
    for (size_t i = 0; i < (size_t)o->worlds * o->entities; i++)
        sum = fold(sum, c->hash[i] ^ c->shown_seen[i] ^ p->sequences[i]);
    return sum;
}
