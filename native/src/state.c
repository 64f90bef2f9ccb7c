/* state.c - what can be asked of an engine between steps, and pending events out and in. */
#include <string.h>

#include "engine.h"
#include "rng.h"

void seer_engine_fault(const seer_engine *e, seer_fault *out) { *out = e->fault; }

void seer_engine_counters(const seer_engine *e, seer_counters *out, uint64_t *per_kind)
{
    *out = e->counters_before;
    if (per_kind && per_kind != e->per_kind_before)
        memcpy(per_kind, e->per_kind_before, e->model.kinds * sizeof *per_kind);
    for (uint32_t k = 0; k < e->threads; k++) {
        const seer_worker *w = &e->worker[k];
        const uint64_t *from = (const uint64_t *)&w->counters;
        uint64_t *to = (uint64_t *)out;
        for (size_t c = 0; c < sizeof *out / sizeof *to; c++) to[c] += seer_counted(&from[c]);
        for (uint32_t c = 0; c < e->model.kinds; c++) {
            out->handled += w->per_kind[c];
            if (per_kind) per_kind[c] += w->per_kind[c];
        }
    }
}

int64_t seer_engine_tick(const seer_engine *e, uint32_t world) { return e->world[world].tick; }

int64_t seer_engine_steps(const seer_engine *e, uint32_t world) { return e->world[world].steps; }

void seer_engine_seed(const seer_engine *e, uint32_t world, uint64_t *seed, uint64_t *episode)
{
    *seed = e->world[world].seed;
    *episode = e->world[world].episode;
}

uint64_t seer_engine_pending(const seer_engine *e, uint32_t world) { return e->world[world].pending; }

uint64_t seer_engine_memory(const seer_engine *e)
{
    uint64_t bytes = e->bytes;
    for (size_t k = 0; k < (size_t)e->model.worlds * e->shards; k++) bytes += e->all_shards[k].arena.bytes;
    return bytes;
}

void seer_engine_export(const seer_engine *e, uint32_t world, seer_event *events, char *wide,
                        uint32_t *lengths, uint32_t *sequences)
{
    const seer_world *v = &e->world[world];
    for (uint32_t k = 0; k < e->shards; k++) {
        const seer_shard *s = &v->shards[k];
        for (uint32_t i = 0; i < s->count; i++) {
            uint32_t n = seer_lane_list(&s->lanes[i], events), entity = s->first + i;
            lengths[entity] = n;
            sequences[entity] = s->lanes[i].sequence;
            for (uint32_t j = 0; j < n; j++, wide += SEER_WIDE_BYTES) {
                memset(wide, 0, SEER_WIDE_BYTES);
                if (!(e->model.kind[events[j].kind].flags & SEER_KIND_WIDE)) continue;
                memcpy(wide, seer_arena_payload(&s->arena, (uint32_t)events[j].payload), SEER_WIDE_BYTES);
                events[j].payload = 0; /* the slot is nobody's business */
            }
            events += n;
        }
    }
}

int seer_file_all(seer_engine *e, seer_world *v, const seer_event *events, const char *wide,
                  const uint32_t *lengths, const uint32_t *sequences)
{
    const seer_model *m = &e->model;
    uint64_t pending = 0;
    for (uint32_t k = 0; k < e->shards; k++) seer_shard_clear(&v->shards[k], seer_bucket(e->buckets, v->tick));
    for (uint32_t entity = 0; entity < m->entities; entity++) {
        if (lengths[entity] > m->lane_capacity) return -SEER_EINVAL;
        seer_shard *s = &v->shards[entity >> e->shift];
        s->lanes[entity - s->first].sequence = sequences[entity];
        for (uint32_t j = 0; j < lengths[entity]; j++, events++, wide += SEER_WIDE_BYTES) {
            seer_event event = *events;
            if (event.target != entity || event.kind >= m->kinds || event.source >= m->entities ||
                event.time < v->tick || event.time > SEER_TIME_MAX || event.round > m->max_rounds ||
                (j && !seer_before(events - 1, events)))
                return -SEER_EINVAL;
            if (m->kind[event.kind].flags & SEER_KIND_WIDE) {
                event.payload = seer_arena_wide(&s->arena, wide);
                if (event.payload == SEER_NONE) return -SEER_ENOMEM;
            }
            if (!seer_shard_file(s, entity - s->first, seer_record_of(&event))) return -SEER_ENOMEM;
            pending++;
        }
    }
    v->pending = pending;
    return 0;
}

int seer_engine_import(seer_engine *e, uint32_t world, const seer_event *events, const char *wide,
                       const uint32_t *lengths, const uint32_t *sequences, int64_t steps,
                       uint64_t seed, uint64_t episode)
{
    if (world >= e->model.worlds || steps < 0 || steps > SEER_TIME_MAX / e->model.step) return -SEER_EINVAL;
    int code = seer_engine_enter(e);
    if (code) return code;
    seer_world *v = &e->world[world];
    v->steps = steps;
    v->tick = steps * e->model.step;
    v->seed = seed;
    v->episode = episode;
    v->key = seer_mix_key(seed, episode);
    v->failed = v->busy = v->begun = v->mailed = 0;
    v->restored = 1;
    code = seer_file_all(e, v, events, wide, lengths, sequences);
    if (code) {
        for (uint32_t k = 0; k < e->shards; k++) seer_shard_clear(&v->shards[k], 0);
        v->pending = 0;
        v->failed = 1;
        e->failed = 1;
    } else {
        e->failed = e->paused = 0;
        for (uint32_t k = 0; k < e->model.worlds; k++) e->failed |= e->world[k].failed;
    }
    return seer_engine_leave(e, code);
}
