/* event.h - the total order of events within a lane: (time, round, source, sequence). */
#ifndef SEER_EVENT_H
#define SEER_EVENT_H

#include "../include/seer.h"
#include "atomics.h"

_Static_assert(sizeof(seer_event) == 32, "two events to a cache line");

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
