/* window.c - one phase on one shard: its events before a limit, or its rows of a sweep. */
#include <stdlib.h>
#include <string.h>

#include "engine.h"

/* How many lanes ahead of the running one are fetched into the cache. */
#define AHEAD 8
#define AHEAD_FROM 256 /* lanes of a shard from which it pays */

void seer_enter_world(seer_worker *w, seer_world *world)
{
    const seer_engine *engine = w->engine;
    const seer_model *m = &engine->model;
    uint32_t index = seer_world_index(engine, world);
    w->world = world;
    w->call = engine->call;
    w->shards = world->shards;
    w->cells = world->cells;
    w->key = world->key;
    w->lanes = engine->lanes + (size_t)index * m->entities;
    for (uint32_t c = 0; c < m->columns; c++) {
        w->table[2 * c] = seer_rows(engine, index, c, m->column[c].latest);
        w->table[2 * c + 1] = m->column[c].seen ? seer_rows(engine, index, c, m->column[c].seen) : NULL;
    }
    int ahead = 0;
    for (uint64_t rest = engine->row_ahead; rest; rest &= rest - 1, ahead++) {
        unsigned c = (unsigned)__builtin_ctzll(rest);
        w->ahead[ahead] = w->table[2 * c];
        w->ahead_bytes[ahead] = m->column[c].row_bytes;
    }
    for (; ahead < 2; ahead++) { /* the lane itself, once more */
        w->ahead[ahead] = (char *)w->lanes;
        w->ahead_bytes[ahead] = sizeof(seer_lane);
    }
    w->ctx.world = index;
    w->ctx.totals = world->totals;
    w->ctx.step = world->steps;
}

/* Files what other shards have sent here. */
static void take_mail(seer_worker *w, seer_shard *shard, uint32_t parity)
{
    for (seer_batch *batch = seer_mail_take(&shard->mailbox[parity]); batch; batch = batch->next) {
        for (uint32_t k = 0; k < batch->count; k++) {
            seer_event event = batch->events[k];
            int room = 1;
            if (w->engine->model.kind[event.kind].flags & SEER_KIND_WIDE) {
                event.payload = seer_arena_wide(&shard->arena, &batch->events[k + 1]);
                room = event.payload != SEER_NONE;
                k += 2;
            }
            if (seer_likely(room && seer_shard_file(shard, event.target - shard->first,
                                                    seer_record_of(&event))))
                continue;
            seer_report(w, &(seer_fault){.code = SEER_ENOMEM, .world = w->ctx.world,
                                         .entity = event.target, .source = event.source,
                                         .sequence = event.sequence, .target = event.target,
                                         .kind = event.kind, .sweep = SEER_NONE,
                                         .time = event.time, .event_time = event.time});
        }
        batch->count = 0;
    }
}

void seer_find_crowded(seer_worker *w, seer_shard *shard, uint32_t rest)
{
    if (shard->crowded & SEER_CROWDED_TOLD) return;
    w->rest = rest;
    shard->crowded = 0;
    for (uint32_t i = 0; i < shard->count; i++) {
        seer_lane *lane = &shard->lanes[i];
        uint32_t length = seer_lane_length(lane);
        if (length <= shard->lane_capacity) continue;
        shard->crowded = SEER_CROWDED_TOLD;
        seer_event *events = malloc(length * sizeof *events);
        seer_fault fault = {.code = events ? SEER_ELANE : SEER_ENOMEM, .world = w->ctx.world,
                            .entity = shard->first + i, .target = shard->first + i,
                            .kind = SEER_NONE, .sweep = SEER_NONE, .limit = shard->lane_capacity};
        if (events) {
            seer_lane_list(lane, events);
            const seer_event *over = &events[shard->lane_capacity]; /* the first there is no room for */
            fault.time = fault.event_time = over->time;
            fault.source = over->source;
            fault.sequence = over->sequence;
            fault.kind = over->kind;
            fault.round = over->round;
            free(events);
        }
        seer_report(w, &fault);
    }
    w->rest = 0;
}

static inline void fetch_ahead(const seer_worker *w, const seer_shard *shard, uint32_t i)
{
    seer_prefetch(&shard->lanes[i]);
    seer_prefetch(w->ahead[0] + (size_t)(shard->first + i) * w->ahead_bytes[0]);
    seer_prefetch(w->ahead[1] + (size_t)(shard->first + i) * w->ahead_bytes[1]);
}

/* When the lane itself has arrived: where its next event lies. */
static inline void fetch_rest(const seer_shard *shard, uint32_t i)
{
    const seer_lane *lane = &shard->lanes[i];
    /* in numbers: rest may be NULL */
    seer_prefetch((void *)((uintptr_t)lane->rest + (lane->count - (size_t)1) * sizeof *lane->rest));
}

static void handler_failed(seer_worker *w, const seer_event *event)
{
    if (w->refused) return; /* reported when it was refused */
    seer_report(w, &(seer_fault){.code = SEER_EHANDLER, .world = w->ctx.world,
                                 .entity = event->target, .source = event->source,
                                 .sequence = event->sequence, .target = event->target,
                                 .kind = event->kind, .sweep = SEER_NONE, .round = event->round,
                                 .time = event->time, .event_time = event->time});
}

/* Handles the events of one lane that the window covers. */
static inline void run_lane(seer_worker *w, seer_shard *shard, uint32_t i, int64_t limit,
                            int instant, uint32_t round)
{
    seer_lane *lane = &shard->lanes[i];
    uint32_t entity = shard->first + i;
    const seer_kind *kinds = w->engine->model.kind;
    const uint8_t *alive = (const uint8_t *)w->table[2 * SEER_COL_ALIVE] + entity;
    lane->slot = SEER_SLOT_NONE;
    w->running = w->ctx.entity = entity;
    uint64_t handled = 0;
    while (instant ? lane->head.time == limit && lane->head.round == round : lane->head.time < limit) {
        seer_event copy; /* the lane changes while it is handled */
        const seer_event *event = &copy;
        seer_record_put(&copy, seer_record_of(&lane->head));
        const seer_kind *kind = &kinds[event->kind];
        seer_lane_pop(lane);
        handled++;
        int wide = kind->flags & SEER_KIND_WIDE;
        const void *payload = &event->payload;
        if (seer_unlikely(wide)) payload = seer_arena_payload(&shard->arena, (uint32_t)event->payload);
        if (seer_likely((*alive || kind->flags & SEER_KIND_EVEN_IF_DEAD) && kind->handler)) {
            w->ctx.now = event->time;
            w->ctx.round = event->round;
            w->kind = event->kind;
            w->per_kind[event->kind]++;
            int32_t ok = kind->handler(&w->ctx, entity, event, payload);
            if (seer_unlikely(!ok || w->refused)) {
                handler_failed(w, event);
                w->refused = 0;
                limit = INT64_MIN; /* this lane stops here, all others go on */
            }
        } else {
            w->counters.unhandled++;
        }
        if (seer_unlikely(wide)) seer_arena_give_wide(&shard->arena, (uint32_t)event->payload);
    }
    w->handled += handled;
    if (lane->head.time != SEER_NEVER)
        seer_shard_list(shard, i, lane, seer_bucket(shard->buckets, lane->head.time));
}

static void run_window(seer_worker *w, seer_shard *shard, const seer_phase *phase)
{
    seer_shard_advance(shard, phase->bucket, w->ids);
    if (!(shard->occupied >> (shard->base & (SEER_RING - 1)) & 1)) return;
    uint32_t *ids = w->ids;
    uint32_t n = seer_shard_gather(shard, shard->base & (SEER_RING - 1), ids);
    uint32_t fetched = shard->count >= AHEAD_FROM && n > AHEAD ? n - AHEAD : 0, k = 0;
    if (seer_unlikely(w->engine->model.lookahead == 0)) {
        for (; k < n; k++) run_lane(w, shard, ids[k], phase->limit, 1, phase->round);
    } else {
        for (; k < fetched; k++) {
            fetch_ahead(w, shard, ids[k + AHEAD]);
            fetch_rest(shard, ids[k + AHEAD / 2]);
            run_lane(w, shard, ids[k], phase->limit, 0, 0);
        }
        for (; k < n; k++) run_lane(w, shard, ids[k], phase->limit, 0, 0);
    }
    w->running = w->kind = SEER_NONE;
}

/* The shard's rows of a sweep. A row that fails is reported, and the rest goes on behind it, so
 * that what is reported does not depend on where shards begin. */
static void run_sweep(seer_worker *w, seer_shard *shard, const seer_phase *phase)
{
    const seer_sweep *sweep = &w->engine->model.sweep[phase->sweep];
    const seer_group *group = &w->engine->model.group[sweep->group];
    int64_t first = shard->first, last = first + shard->count, end = (int64_t)group->first + group->count;
    if (first < group->first) first = group->first;
    if (last > end) last = end;
    w->running = SEER_NONE;
    w->sweep = phase->sweep;
    w->ctx.now = phase->limit;
    w->ctx.round = 0;
    while (first < last) {
        w->ctx.entity = (uint32_t)first;
        int32_t ok = sweep->fn(&w->ctx, first, last);
        if (seer_likely(ok)) break;
        if (w->refused != w->ctx.entity + 1)
            seer_report(w, &(seer_fault){.code = SEER_EHANDLER, .world = w->ctx.world,
                                         .entity = w->ctx.entity, .source = w->ctx.entity,
                                         .target = SEER_NONE, .kind = SEER_NONE,
                                         .sweep = phase->sweep, .time = phase->limit});
        first = (int64_t)w->ctx.entity + 1;
    }
    w->refused = 0;
    w->sweep = SEER_NONE;
}

static void bid_least(seer_worker *w, const seer_shard *shard, unsigned slot)
{
    const uint64_t *bits = shard->map + (size_t)slot * shard->map_stride + shard->map_summary;
    for (uint32_t k = 0; k < (shard->count + 63) / 64; k++)
        for (uint64_t word = bits[k]; word; word &= word - 1) {
            const seer_event *head = &shard->lanes[k * 64 + (uint32_t)__builtin_ctzll(word)].head;
            seer_lower_bid(w, (uint64_t)head->time, head->round);
        }
}

/* With lookahead 0 a bid names the very instant and round. */
static void bid_instant(seer_worker *w, const seer_shard *shard)
{
    uint64_t near = seer_shard_near(shard);
    if (near != UINT64_MAX) bid_least(w, shard, near & (SEER_RING - 1));
    if (shard->far_min <= near) bid_least(w, shard, SEER_SLOT_FAR);
}

void seer_bid(seer_worker *w, const seer_shard *shard)
{
    if (seer_unlikely(!w->engine->model.lookahead)) {
        bid_instant(w, shard);
        return;
    }
    uint64_t near = seer_shard_near(shard), next = shard->far_min < near ? shard->far_min : near;
    if (next < w->bid) w->bid = next;
}

void seer_run_shard(seer_worker *w, seer_shard *shard, const seer_phase *phase)
{
    w->shard = shard;
    if (!w->alone) {
        take_mail(w, shard, !w->parity);
    } else if (seer_unlikely(w->world->mailed)) { /* either parity: phases were shared before */
        take_mail(w, shard, 0);
        take_mail(w, shard, 1);
    }
    /* Alone, other shards of this phase may already have sent here: looked at when all are done. */
    if (seer_unlikely(shard->crowded) && !w->alone) seer_find_crowded(w, shard, seer_moves(phase));
    switch (phase->kind) {
    case SEER_PHASE_WINDOW: run_window(w, shard, phase); break;
    case SEER_PHASE_SWEEP: run_sweep(w, shard, phase); break;
    case SEER_PHASE_PUBLISH:
        seer_publish_rows(w->engine, w->world, phase->mask, shard->first, shard->first + shard->count);
        break;
    default: break; /* SEER_PHASE_FILE: only the mail */
    }
}
