/* mix_oracle.c - the model of mix.h by a heap: no lanes, windows, threads or mail. */
#include "mix_acts.h"

typedef struct entry {
    seer_event event;
    uint64_t payload[5];
} entry;

typedef struct oracle {
    const mix_options *options;
    mix_totals *totals;
    uint64_t key;
    uint64_t *draws;
    uint32_t *sequence;
    entry *heap;
    size_t count, room;
} oracle;

static int earlier(const entry *x, const entry *y)
{
    const seer_event *a = &x->event, *b = &y->event;
    if (a->time != b->time) return a->time < b->time;
    if (a->round != b->round) return a->round < b->round;
    if (a->source != b->source) return a->source < b->source;
    return a->sequence < b->sequence;
}

static void push(oracle *o, const entry *e)
{
    if (o->count == o->room) o->heap = realloc(o->heap, (o->room = 2 * o->room + 64) * sizeof *e);
    if (!o->heap) exit(2);
    size_t i = o->count++;
    for (; i && earlier(e, &o->heap[(i - 1) / 2]); i = (i - 1) / 2) o->heap[i] = o->heap[(i - 1) / 2];
    o->heap[i] = *e;
}

static entry pop(oracle *o)
{
    entry top = o->heap[0], e = o->heap[--o->count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < o->count; i = child) {
        if (child + 1 < o->count && earlier(&o->heap[child + 1], &o->heap[child])) child++;
        if (!earlier(&o->heap[child], &e)) break;
        o->heap[i] = o->heap[child];
    }
    if (o->count) o->heap[i] = e;
    return top;
}

static uint64_t oracle_bits(acts *a)
{
    oracle *o = a->behind;
    return seer_draw(o->key, a->self, o->draws[a->self]++);
}

static int oracle_send(acts *a, uint32_t kind, uint32_t to, int64_t ticks, const uint64_t payload[5])
{
    oracle *o = a->behind;
    entry e = {.event = {.time = a->now + ticks, .source = a->self, .target = to,
                         .sequence = o->sequence[a->self]++, .kind = (uint16_t)kind,
                         .round = (uint16_t)(ticks ? 0 : a->round + 1)}};
    memcpy(e.payload, payload, kind == MIX_LETTER ? sizeof e.payload : 8);
    if (kind != MIX_LETTER) e.event.payload = payload[0];
    CHECK(to == a->self ? ticks >= 0 : ticks >= o->options->lookahead, "the test's model is wrong");
    o->totals->sent++;
    push(o, &e);
    return 1;
}

static acts oracle_acts(oracle *o, const mix_columns *c, size_t row, uint32_t self, int64_t now)
{
    return (acts){.bits = oracle_bits, .send = oracle_send, .options = o->options, .behind = o,
                  .self = self, .now = now, .alive = &c->alive[row + self],
                  .hash = &c->hash[row + self], .shown = &c->shown[row + self],
                  .shown_seen = &c->shown_seen[row]};
}

static void oracle_publish(const mix_options *o, const mix_columns *c, size_t row)
{
    memcpy(c->alive_seen + row, c->alive + row, o->entities);
    memcpy(c->shown_seen + row, c->shown + row, 8 * (size_t)o->entities);
}

static void oracle_sweep(oracle *o, const mix_columns *c, size_t row, uint32_t sweep, int64_t now)
{
    oracle_publish(o->options, c, row);
    for (uint32_t i = 0; i < o->options->entities; i++) {
        if (!c->alive[row + i]) continue;
        acts a = oracle_acts(o, c, row, i, now);
        mix_on_sweep(&a, sweep);
    }
    oracle_publish(o->options, c, row);
}

static void oracle_until(oracle *o, const mix_columns *c, size_t row, int64_t limit)
{
    while (o->count && o->heap[0].event.time < limit) {
        entry e = pop(o);
        uint32_t self = e.event.target;
        if (!c->alive[row + self] && e.event.kind != MIX_GHOST) {
            o->totals->unhandled++;
            continue;
        }
        acts a = oracle_acts(o, c, row, self, e.event.time);
        a.round = e.event.round;
        o->totals->handled++;
        o->totals->per_kind[e.event.kind]++;
        mix_on_event(&a, &e.event, e.payload);
    }
}

static int by_lane(const void *x, const void *y)
{
    const entry *a = x, *b = y;
    if (a->event.target != b->event.target) return a->event.target < b->event.target ? -1 : 1;
    return earlier(a, b) ? -1 : earlier(b, a);
}

void mix_oracle(const mix_options *options, uint64_t seed, int steps, mix_columns *c,
                mix_totals *totals, mix_pending *pending)
{
    uint32_t n = options->entities;
    mix_make_columns(options, c);
    *totals = (mix_totals){0};
    *pending = (mix_pending){.lengths = zeros(4 * (size_t)options->worlds * n),
                             .sequences = zeros(4 * (size_t)options->worlds * n)};
    for (uint32_t w = 0; w < options->worlds; w++) {
        size_t row = (size_t)w * n;
        oracle o = {.options = options, .totals = totals, .key = seer_world_key(seed + w, 0),
                    .draws = c->draws + row, .sequence = pending->sequences + row};
        memset(c->alive + row, 1, n);
        oracle_sweep(&o, c, row, MIX_START, 0);
        for (int s = 0; s < steps; s++) {
            int64_t tick = s * options->step;
            memcpy(c->acted + row, c->alive + row, n);
            oracle_sweep(&o, c, row, MIX_BEGIN, tick);
            oracle_until(&o, c, row, tick + options->step / 3);
            oracle_sweep(&o, c, row, MIX_MIDDLE, tick + options->step / 3);
            oracle_until(&o, c, row, tick + options->step);
            oracle_sweep(&o, c, row, MIX_END, tick + options->step);
        }
        qsort(o.heap, o.count, sizeof *o.heap, by_lane);
        uint64_t at = pending->count;
        pending->count += o.count;
        pending->events = realloc(pending->events, pending->count * sizeof *pending->events + 1);
        pending->wide = realloc(pending->wide, pending->count * SEER_WIDE_BYTES + 1);
        for (size_t i = 0; i < o.count; i++) {
            pending->events[at + i] = o.heap[i].event;
            pending->lengths[row + o.heap[i].event.target]++;
            memcpy(pending->wide + (at + i) * SEER_WIDE_BYTES, o.heap[i].payload, SEER_WIDE_BYTES);
        }
        free(o.heap);
    }
}
