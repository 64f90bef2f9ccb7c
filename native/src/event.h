/* event.h - the total order of events within a lane: (time, round, source, sequence). */
#ifndef SEER_EVENT_H
#define SEER_EVENT_H

#include "../include/seer.h"
#include "atomics.h"

_Static_assert(sizeof(seer_event) == 32, "two events to a cache line");

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "seer_record lays the fields of an event out for little-endian machines"
#endif

/* An event as four words that stay in registers. Written field by field and read back as a vector,
 * a fresh event would wait for the store buffer each time. */
typedef struct seer_record {
    uint64_t time, origin, address, payload; /* origin: source, sequence   address: target, kind, round */
} seer_record;

static inline seer_record seer_record_of(const seer_event *event)
{
    return (seer_record){(uint64_t)event->time,
                         event->source | (uint64_t)event->sequence << 32,
                         event->target | (uint64_t)event->kind << 32 | (uint64_t)event->round << 48,
                         event->payload};
}

static inline void seer_record_put(seer_event *place, seer_record r)
{
    seer_record *to = (seer_record *)(void *)place;
    __builtin_memcpy(&to->time, &r.time, 8);
    __builtin_memcpy(&to->origin, &r.origin, 8);
    __builtin_memcpy(&to->address, &r.address, 8);
    __builtin_memcpy(&to->payload, &r.payload, 8);
}

/* Whether a record comes before an event. */
static inline int seer_record_before(seer_record r, const seer_event *event)
{
    if (seer_likely((int64_t)r.time != event->time)) return (int64_t)r.time < event->time;
    uint64_t round = r.address >> 48, source = (uint32_t)r.origin;
    if (round != event->round) return round < event->round;
    if (source != event->source) return source < event->source;
    return (uint32_t)(r.origin >> 32) < event->sequence;
}

static inline int seer_tie_before(const seer_event *a, const seer_event *b)
{
    if (a->round != b->round) return a->round < b->round;
    if (a->source != b->source) return a->source < b->source;
    return a->sequence < b->sequence;
}

static inline int seer_before(const seer_event *a, const seer_event *b)
{
    if (seer_likely(a->time != b->time)) return a->time < b->time;
    return seer_tie_before(a, b);
}

#endif
