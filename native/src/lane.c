#include "lane.h"

#include <stdlib.h>
#include <string.h>

const seer_event seer_no_event = {.time = SEER_NEVER};

int seer_lane_grow(seer_lane *lane, seer_arena *arena)
{
    unsigned class_ = lane->rest ? lane->class_ + 1u : 0;
    if (class_ >= SEER_CLASSES) return 0;
    seer_event *block = seer_arena_block(arena, class_);
    if (!block) return 0;
    *block++ = seer_no_event;
    if (lane->rest) {
        memcpy(block, lane->rest, lane->count * sizeof *block);
        seer_arena_give(arena, lane->rest - 1, lane->class_);
    }
    lane->rest = block;
    lane->class_ = (uint8_t)class_;
    lane->room = (2u << class_) - 1;
    return 1;
}

void seer_lane_push_heap(seer_lane *lane, seer_record event)
{
    seer_event *a = lane->rest;
    uint32_t i = lane->count++;
    while (i > 0) {
        uint32_t parent = (i - 1) / 2;
        if (!seer_record_before(event, &a[parent])) break;
        a[i] = a[parent];
        i = parent;
    }
    seer_record_put(&a[i], event);
}

/* Sorts a short rest, earliest last. */
static void to_sorted(seer_lane *lane)
{
    uint32_t n = lane->count;
    lane->count = 0;
    lane->heap = 0;
    for (uint32_t k = 0; k < n; k++) {
        seer_lane_shift_in(lane, seer_record_of(&lane->rest[k]));
    }
}

void seer_lane_pop_heap(seer_lane *lane)
{
    seer_event *a = lane->rest;
    lane->head = a[0];
    uint32_t n = --lane->count, i = 0;
    seer_event last = a[n];
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= n) break;
        if (child + 1 < n && seer_before(&a[child + 1], &a[child])) child++;
        if (!seer_before(&a[child], &last)) break;
        a[i] = a[child];
        i = child;
    }
    a[i] = last;
    if (n <= SEER_HEAP_MIN) to_sorted(lane);
}

void seer_lane_to_heap(seer_lane *lane)
{
    /* reversed, a sorted rest is a heap */
    seer_event *a = lane->rest;
    for (uint32_t i = 0, j = lane->count - 1; i < j; i++, j--) {
        seer_event swap = a[i];
        a[i] = a[j];
        a[j] = swap;
    }
    lane->heap = 1;
}

static int by_order(const void *a, const void *b)
{
    return seer_before(a, b) ? -1 : 1;
}

uint32_t seer_lane_list(const seer_lane *lane, seer_event *out)
{
    if (lane->head.time == SEER_NEVER) return 0;
    out[0] = lane->head;
    if (lane->count) {
        memcpy(out + 1, lane->rest, lane->count * sizeof *out);
        qsort(out + 1, lane->count, sizeof *out, by_order);
    }
    return lane->count + 1;
}
