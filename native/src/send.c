/* send.c - what handlers call: sending, drawing, failing. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "rng.h"

static int fault_before(const seer_fault *a, const seer_fault *b)
{
    if (a->world != b->world) return a->world < b->world;
    if (a->time != b->time) return a->time < b->time;
    if (a->entity != b->entity) return a->entity < b->entity;
    if (a->source != b->source) return a->source < b->source;
    return a->sequence < b->sequence;
}

void seer_merge_fault(seer_fault *kept, const seer_fault *fault)
{
    if (!fault->code) return;
    uint64_t others = kept->code ? kept->others + fault->others + 1 : fault->others;
    if (!kept->code || fault_before(fault, kept)) *kept = *fault;
    kept->others = others;
}

void seer_report(seer_worker *w, const seer_fault *fault)
{
    uint32_t tag = w->world->tag - w->rest;
    w->reported = 1;
    if (w->fault.code && w->fault.world == fault->world) {
        /* An overfull lane is found when the next phase has begun: what that phase does wrong
         * would not have happened. */
        if (tag > w->fault_tag) return;
        if (tag < w->fault_tag) w->fault.code = 0;
        /* Nor is a world too full to be told of beside a lane that is. */
        if (w->fault.code == SEER_EWORLD || w->fault.code == SEER_ESTEP) w->fault.code = 0;
    }
    w->fault_tag = tag;
    seer_fault complete = *fault;
    complete.handler = w->kind;
    seer_merge_fault(&w->fault, &complete);
    /* relaxed: the closer reads it after the agreement [G1] or [C1] */
    seer_store(&w->engine->fault_seen, 1u, relaxed);
}

/* Nothing more of a handler that failed is reported: one fault an entity and instant. */
static __attribute__((noinline, cold)) int refuse(seer_worker *w, int code, uint32_t kind, int64_t to, int64_t time, double value)
{
    if (w->refused == w->ctx.entity + 1) return 0;
    w->refused = w->ctx.entity + 1;
    const seer_model *m = &w->engine->model;
    seer_fault fault = {.code = code, .world = w->ctx.world, .entity = w->ctx.entity,
                        .source = w->ctx.entity, .sequence = w->lanes[w->ctx.entity].sequence,
                        .target = to >= 0 && to < UINT32_MAX ? (uint32_t)to : SEER_NONE,
                        .kind = kind, .sweep = w->sweep, .round = w->ctx.round,
                        .time = w->ctx.now, .event_time = time, .value = value};
    fault.limit = code == SEER_EROUNDS ? m->max_rounds : code == SEER_ECAUSALITY ? m->lookahead
                : code == SEER_ETARGET ? m->entities : code == SEER_EKIND ? m->kinds : SEER_TIME_MAX;
    seer_report(w, &fault);
    return 0;
}

/* A copy into the batch for another worker's shard. */
static __attribute__((noinline)) int mail(seer_worker *w, uint32_t shard, seer_record event,
                                          const void *wide)
{
    seer_outbox *outbox = &w->outbox[w->parity][shard];
    seer_batch *batch = &outbox->batch;
    uint32_t more = wide ? 3 : 1;
    if (seer_unlikely(batch->count + more > batch->capacity)) {
        uint32_t capacity = batch->capacity < 32 ? 64 : batch->capacity * 2;
        seer_event *events = realloc(outbox->more, capacity * sizeof *events);
        if (!events) return 0;
        if (!outbox->more) memcpy(events, outbox->first, batch->count * sizeof *events);
        batch->events = outbox->more = events;
        batch->capacity = capacity;
    }
    if (batch->count == 0) w->addressee[w->letters++] = shard;
    seer_record_put(&batch->events[batch->count++], event);
    if (wide) {
        memset(&batch->events[batch->count], 0, 2 * sizeof(seer_event));
        memcpy(&batch->events[batch->count], wide, SEER_WIDE_BYTES);
        batch->count += 2;
    }
    w->counters.mailed++;
    uint64_t key = w->engine->model.lookahead ? seer_bucket(w->engine->buckets, (int64_t)event.time)
                                              : event.time;
    seer_lower_bid(w, key, (uint32_t)(event.address >> 48));
    return 1;
}

void seer_mail_out(seer_worker *w)
{
    for (uint32_t k = 0; k < w->letters; k++) {
        uint32_t shard = w->addressee[k];
        seer_batch *batch = &w->outbox[w->parity][shard].batch;
        unsigned retries = seer_mail_push(&w->shards[shard].mailbox[w->parity], batch);
        if (seer_unlikely(retries)) seer_count(&w->counters.cas_retries, retries);
    }
    w->letters = 0;
}

static inline __attribute__((always_inline)) int post(seer_worker *w, uint32_t kind, int64_t to,
                                                      int64_t ticks, uint64_t payload,
                                                      const void *wide)
{
    const seer_model *m = &w->engine->model;
    uint32_t self = w->ctx.entity;
    int64_t time = (int64_t)((uint64_t)w->ctx.now + (uint64_t)ticks);
    if (seer_unlikely(kind >= m->kinds || !(m->kind[kind].flags & SEER_KIND_WIDE) != !wide))
        return refuse(w, SEER_EKIND, kind, to, time, 0);
    if (seer_unlikely((uint64_t)to >= m->entities)) return refuse(w, SEER_ETARGET, kind, to, time, 0);
    if (seer_unlikely((uint64_t)ticks > (uint64_t)SEER_TIME_MAX || time > SEER_TIME_MAX)) {
        if (ticks < 0) return refuse(w, SEER_EPAST, kind, to, time, 0);
        return refuse(w, SEER_ETIME, kind, to, time, (double)ticks * m->seconds_per_tick);
    }
    if (to != self && seer_unlikely(ticks < m->lookahead))
        return refuse(w, SEER_ECAUSALITY, kind, to, time, 0);
    uint64_t round = ticks ? 0 : w->ctx.round + 1;
    if (seer_unlikely(round > m->max_rounds)) return refuse(w, SEER_EROUNDS, kind, to, time, 0);
    seer_lane *own = &w->lanes[self];
    if (seer_unlikely(own->sequence == UINT32_MAX))
        return refuse(w, SEER_ESEQUENCE, kind, to, time, 0);

    seer_record event = {(uint64_t)time, self | (uint64_t)own->sequence++ << 32,
                         (uint64_t)to | (uint64_t)kind << 32 | round << 48, payload};
    w->sent++;
    seer_shard *shard = w->shard;
    uint32_t i = (uint32_t)to - shard->first;
    if (seer_unlikely(i >= shard->count)) {
        uint32_t there = (uint32_t)to >> w->shift;
        if (!w->alone)
            return mail(w, there, event, wide) ? 1 : refuse(w, SEER_ENOMEM, kind, to, time, 0);
        shard = &w->shards[there];
        i = (uint32_t)to - shard->first;
    }
    if (wide) {
        event.payload = seer_arena_wide(&shard->arena, wide);
        if (event.payload == SEER_NONE) return refuse(w, SEER_ENOMEM, kind, to, time, 0);
    }
    int filed;
    if ((uint32_t)to == w->running) {
        /* listed anew when the lane is through */
        filed = seer_lane_insert(own, &shard->arena, event);
        if (seer_unlikely(own->count >= shard->lane_capacity)) shard->crowded |= 1;
    } else {
        filed = seer_shard_file(shard, i, event);
    }
    return seer_likely(filed) ? 1 : refuse(w, SEER_ENOMEM, kind, to, time, 0);
}

/* Ticks of a delay, rounded half to even (the workers' rounding mode); INT64_MIN for no number. */
static inline int64_t ticks_of(const seer_worker *w, double delay)
{
    double ticks = delay / w->ctx.seconds_per_tick;
    if (!(ticks >= -(double)SEER_TIME_MAX && ticks <= (double)SEER_TIME_MAX)) return INT64_MIN;
    return llrint(ticks);
}

int32_t seer_send(seer_ctx *ctx, uint32_t kind, int64_t to, int64_t ticks, uint64_t payload)
{
    return post((seer_worker *)ctx, kind, to, ticks, payload, NULL);
}

int32_t seer_send_seconds(seer_ctx *ctx, uint32_t kind, int64_t to, double delay, uint64_t payload)
{
    seer_worker *w = (seer_worker *)ctx;
    int64_t ticks = ticks_of(w, delay);
    if (seer_unlikely(ticks == INT64_MIN))
        return refuse(w, SEER_ETIME, kind, to, SEER_NEVER, delay);
    return post(w, kind, to, ticks, payload, NULL);
}

int32_t seer_send_wide(seer_ctx *ctx, uint32_t kind, int64_t to, int64_t ticks, const void *payload)
{
    return post((seer_worker *)ctx, kind, to, ticks, 0, payload);
}

int32_t seer_send_wide_seconds(seer_ctx *ctx, uint32_t kind, int64_t to, double delay,
                               const void *payload)
{
    seer_worker *w = (seer_worker *)ctx;
    int64_t ticks = ticks_of(w, delay);
    if (seer_unlikely(ticks == INT64_MIN))
        return refuse(w, SEER_ETIME, kind, to, SEER_NEVER, delay);
    return post(w, kind, to, ticks, 0, payload);
}

void seer_fail(seer_ctx *ctx, int64_t entity, int32_t code)
{
    seer_worker *w = (seer_worker *)ctx;
    if (w->refused == ctx->entity + 1) return;
    w->refused = ctx->entity + 1;
    seer_fault fault = {.code = SEER_EFAIL, .user_code = code, .world = ctx->world,
                        .entity = (uint32_t)entity, .source = ctx->entity,
                        .sequence = w->lanes[ctx->entity].sequence, .target = SEER_NONE,
                        .kind = w->kind, .sweep = w->sweep, .round = ctx->round, .time = ctx->now};
    seer_report(w, &fault);
}

/* ---- random numbers, and the mathematics behind one door ----------------- */

uint64_t seer_bits(seer_ctx *ctx)
{
    seer_worker *w = (seer_worker *)ctx;
    uint64_t *draws = &w->engine->draws[(size_t)ctx->world * ctx->entities + ctx->entity];
    return seer_mix_draw(w->key, ctx->entity, (*draws)++);
}

double seer_uniform(seer_ctx *ctx)
{
    return seer_to_uniform(seer_bits(ctx));
}

double seer_normal(seer_ctx *ctx)
{
    uint64_t first = seer_bits(ctx);
    return seer_to_normal(first, seer_bits(ctx));
}

uint64_t seer_world_key(uint64_t seed, uint64_t episode) { return seer_mix_key(seed, episode); }
uint64_t seer_draw(uint64_t key, uint32_t entity, uint64_t n) { return seer_mix_draw(key, entity, n); }

double seer_to_uniform(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

double seer_to_normal(uint64_t bits1, uint64_t bits2)
{
    double u1 = (double)((bits1 >> 11) + 1) * 0x1p-53; /* (0, 1] */
    double u2 = (double)(bits2 >> 11) * 0x1p-53;
    return sqrt(-2.0 * log(u1)) * cos(6.283185307179586 * u2);
}

double seer_exp(double x) { return exp(x); }
double seer_log(double x) { return log(x); }
double seer_log10(double x) { return log10(x); }
double seer_pow(double x, double y) { return pow(x, y); }
double seer_sin(double x) { return sin(x); }
double seer_cos(double x) { return cos(x); }
double seer_atan2(double y, double x) { return atan2(y, x); }
double seer_hypot(double x, double y) { return hypot(x, y); }
