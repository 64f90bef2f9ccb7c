/* lane.h - the lower layer of the queue: the pending events of one entity, in order.
 *
 * The earliest event lies in the lane itself, so that a lane with one event is one cache line.
 * The rest is one block of the shard's arena: sorted with the earliest last (taking is O(1), an
 * insertion shifts neighbours that are already in cache) while it is short, a binary heap when
 * it is long. Touched only by the holder of the shard's claim. */
#ifndef SEER_LANE_H
#define SEER_LANE_H

#include "arena.h"

enum { SEER_SORTED_MAX = 48, SEER_HEAP_MIN = 16 }; /* sorted -> heap above, heap -> sorted below */

typedef struct seer_lane {
    seer_event head;    /* the earliest; time SEER_NEVER when the lane is empty */
    seer_event *rest;   /* in a block of the arena, whose first event is seer_no_event; or NULL */
    uint32_t count;     /* events in rest */
    uint32_t room;      /* events that rest has room for */
    uint32_t sequence;  /* events this entity has sent in this episode */
    uint8_t slot;       /* where the calendar lists the lane (shard.h) */
    uint8_t heap;       /* rest is a heap */
    uint8_t class_;     /* of rest's block */
    uint8_t pad[9];
} seer_lane;

_Static_assert(sizeof(seer_lane) == 64, "a lane at rest is one cache line");

/* The cold halves, in lane.c. seer_lane_grow returns 0 when memory is short. */
int seer_lane_grow(seer_lane *lane, seer_arena *arena);
void seer_lane_push_heap(seer_lane *lane, seer_record event);
void seer_lane_pop_heap(seer_lane *lane);
void seer_lane_to_heap(seer_lane *lane);
/* Copies all pending events in order; out has room for them. Returns their number. */
uint32_t seer_lane_list(const seer_lane *lane, seer_event *out);

static inline void seer_lane_clear(seer_lane *lane)
{
    lane->head = (seer_event){.time = SEER_NEVER};
    lane->rest = NULL;
    lane->count = lane->room = lane->sequence = 0;
    lane->heap = lane->class_ = 0;
}

static inline uint32_t seer_lane_length(const seer_lane *lane)
{
    return lane->count + (lane->head.time != SEER_NEVER);
}

/* Puts an event into rest, which has room and is sorted. rest[-1] is at SEER_NEVER and ends the
 * search. How far an event has to go in a short list is not predictable, so the first steps there are
 * taken without branches: what is copied too far is overwritten. */
static inline void seer_lane_shift_in(seer_lane *lane, seer_record event)
{
    seer_event *place = lane->rest + lane->count++;
    int on = 1;
    if (lane->count <= 3) {
        on = !seer_record_before(event, place - 1);
        place[0] = place[-1];
        place -= on;
        on &= !seer_record_before(event, place - 1);
        place[0] = place[-1];
        place -= on;
    }
    while (on && !seer_record_before(event, place - 1)) {
        place[0] = place[-1];
        place--;
    }
    seer_record_put(place, event);
}

/* Puts an event that the head comes before into a lane. 0 when memory is short. */
static inline int seer_lane_insert_behind(seer_lane *lane, seer_arena *arena, seer_record event)
{
    if (seer_unlikely(lane->count == lane->room) && !seer_lane_grow(lane, arena)) return 0;
    if (seer_likely(!lane->heap)) seer_lane_shift_in(lane, event);
    else seer_lane_push_heap(lane, event);
    if (seer_unlikely(lane->count > SEER_SORTED_MAX) && !lane->heap) seer_lane_to_heap(lane);
    return 1;
}

/* 0 when memory is short. */
static inline int seer_lane_insert(seer_lane *lane, seer_arena *arena, seer_record event)
{
    if (lane->head.time == SEER_NEVER) {
        seer_record_put(&lane->head, event);
        return 1;
    }
    if (!seer_record_before(event, &lane->head)) return seer_lane_insert_behind(lane, arena, event);
    if (seer_unlikely(lane->count == lane->room) && !seer_lane_grow(lane, arena)) return 0;
    seer_record old = seer_record_of(&lane->head); /* earlier than all of rest */
    seer_record_put(&lane->head, event);
    if (seer_likely(!lane->heap)) seer_record_put(&lane->rest[lane->count++], old);
    else seer_lane_push_heap(lane, old);
    if (seer_unlikely(lane->count > SEER_SORTED_MAX) && !lane->heap) seer_lane_to_heap(lane);
    return 1;
}

extern const seer_event seer_no_event; /* at SEER_NEVER */

/* Drops the head; the next earliest takes its place. */
static inline void seer_lane_pop(seer_lane *lane)
{
    if (lane->count == 0) lane->head.time = SEER_NEVER;
    else if (seer_likely(!lane->heap)) lane->head = lane->rest[--lane->count];
    else seer_lane_pop_heap(lane);
}

#endif
