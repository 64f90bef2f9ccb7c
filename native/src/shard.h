/* shard.h - the upper layer of the queue: a block of lanes, and which of them have events when.
 *
 * The calendar lists lanes, not events, by the bucket of their earliest event: 64 buckets in a
 * ring that begins at `base`, doubly linked so that a lane moves in O(1), a bitmap to find the
 * next one, and one list for all that lies beyond. All but the claim and the mailbox is touched
 * only by the holder of the claim. */
#ifndef SEER_SHARD_H
#define SEER_SHARD_H

#include "claim.h"
#include "lane.h"
#include "mailbox.h"

enum { SEER_RING = 64, SEER_SLOT_FAR = SEER_RING, SEER_SLOT_NONE = SEER_RING + 1 };

/* Which bucket a tick lies in: t * inverse >> 64, at most `lookahead` ticks wide. */
typedef struct seer_buckets {
    uint64_t inverse; /* 2^64 / width, rounded up; 0 for a width of one tick */
} seer_buckets;

static inline uint64_t seer_bucket(seer_buckets buckets, int64_t tick)
{
    if (seer_unlikely(!buckets.inverse)) return (uint64_t)tick;
    return (uint64_t)((unsigned __int128)(uint64_t)tick * buckets.inverse >> 64);
}

static inline seer_buckets seer_buckets_of(int64_t width)
{
    if (width <= 1) return (seer_buckets){0};
    uint64_t w = (uint64_t)width, inverse = UINT64_MAX / w;
    return (seer_buckets){inverse + 1};
}

/* The first tick after a bucket. */
static inline int64_t seer_bucket_end(seer_buckets buckets, uint64_t bucket)
{
    if (!buckets.inverse) return (int64_t)bucket + 1;
    unsigned __int128 edge = (unsigned __int128)(bucket + 1) << 64;
    return (int64_t)((edge + buckets.inverse - 1) / buckets.inverse);
}

typedef struct seer_link {
    uint32_t next, prev; /* lanes of the shard, SEER_NONE at either end */
} seer_link;

typedef struct seer_shard {
    /* what others write */
    _Alignas(SEER_APART) seer_claim claim;
    /* Two, used in turn: what is sent in one phase is taken in the next, never in the same. */
    _Alignas(SEER_APART) seer_mailbox mailbox[2];
    /* the holder's */
    _Alignas(SEER_APART) seer_lane *lanes; /* (count,) of this shard */
    seer_link *links;
    uint32_t first, count; /* entity ids [first, first + count) */
    seer_buckets buckets;
    uint64_t base;     /* the bucket of the last window; no event lies before it */
    uint64_t occupied; /* bit k: ring[k] lists a lane */
    uint64_t far_min;  /* no lane in far has an earlier bucket */
    uint32_t far;
    uint32_t lane_capacity;
    uint32_t crowded;  /* some lane may have passed its capacity */
    uint32_t ring[SEER_RING];
    seer_arena arena;
} seer_shard;

/* Moves the lanes of the far list that the ring has come to cover. */
void seer_shard_look_far(seer_shard *shard);

static inline void seer_shard_list(seer_shard *shard, uint32_t i, seer_lane *lane, uint64_t bucket)
{
    uint32_t *head;
    if (seer_likely(bucket - shard->base < SEER_RING)) {
        lane->slot = bucket & (SEER_RING - 1);
        shard->occupied |= UINT64_C(1) << lane->slot;
        head = &shard->ring[lane->slot];
    } else {
        lane->slot = SEER_SLOT_FAR;
        if (bucket < shard->far_min) shard->far_min = bucket;
        head = &shard->far;
    }
    shard->links[i] = (seer_link){*head, SEER_NONE};
    if (*head != SEER_NONE) shard->links[*head].prev = i;
    *head = i;
}

static inline void seer_shard_unlist(seer_shard *shard, uint32_t i, seer_lane *lane)
{
    seer_link link = shard->links[i];
    if (link.next != SEER_NONE) shard->links[link.next].prev = link.prev;
    if (link.prev != SEER_NONE) shard->links[link.prev].next = link.next;
    else if (lane->slot == SEER_SLOT_FAR) shard->far = link.next;
    else {
        shard->ring[lane->slot] = link.next;
        if (link.next == SEER_NONE) shard->occupied &= ~(UINT64_C(1) << lane->slot);
    }
    lane->slot = SEER_SLOT_NONE;
}

/* Lists a lane anew after its head has become earlier. */
static inline void seer_shard_relist(seer_shard *shard, uint32_t i, seer_lane *lane)
{
    uint64_t bucket = seer_bucket(shard->buckets, lane->head.time);
    uint64_t ahead = bucket - shard->base;
    if (lane->slot == (ahead < SEER_RING ? (bucket & (SEER_RING - 1)) : SEER_SLOT_FAR)) {
        if (ahead >= SEER_RING && bucket < shard->far_min) shard->far_min = bucket;
        return;
    }
    if (lane->slot != SEER_SLOT_NONE) seer_shard_unlist(shard, i, lane);
    seer_shard_list(shard, i, lane, bucket);
}

/* Files an event in a lane that is not running. 0 when memory is short. */
static inline int seer_shard_file(seer_shard *shard, uint32_t i, const seer_event *event)
{
    seer_lane *lane = &shard->lanes[i];
    int64_t before = lane->head.time;
    if (!seer_lane_insert(lane, &shard->arena, event)) return 0;
    if (seer_unlikely(lane->count >= shard->lane_capacity)) shard->crowded = 1;
    if (lane->head.time < before) seer_shard_relist(shard, i, lane);
    return 1;
}

/* The first bucket of the ring that lists a lane, or UINT64_MAX. */
static inline uint64_t seer_shard_near(const seer_shard *shard)
{
    if (!shard->occupied) return UINT64_MAX;
    unsigned turn = shard->base & (SEER_RING - 1);
    uint64_t turned = shard->occupied >> turn | shard->occupied << ((64 - turn) & 63);
    return shard->base + (unsigned)__builtin_ctzll(turned);
}

/* Lets the calendar begin at a bucket that nothing lies before. */
static inline void seer_shard_advance(seer_shard *shard, uint64_t bucket)
{
    shard->base = bucket;
    if (seer_unlikely(shard->far_min <= bucket)) seer_shard_look_far(shard);
}

/* The lanes of the base bucket into ids (their slots are left as they are); their number. */
static inline uint32_t seer_shard_gather(seer_shard *shard, uint32_t *ids)
{
    unsigned slot = shard->base & (SEER_RING - 1);
    uint32_t n = 0;
    for (uint32_t i = shard->ring[slot]; i != SEER_NONE; i = shard->links[i].next) ids[n++] = i;
    shard->ring[slot] = SEER_NONE;
    shard->occupied &= ~(UINT64_C(1) << slot);
    return n;
}

static inline void seer_shard_clear(seer_shard *shard, uint64_t base)
{
    seer_arena_free(&shard->arena);
    for (uint32_t i = 0; i < shard->count; i++) {
        seer_lane_clear(&shard->lanes[i]);
        shard->lanes[i].slot = SEER_SLOT_NONE;
    }
    for (int k = 0; k < SEER_RING; k++) shard->ring[k] = SEER_NONE;
    shard->far = SEER_NONE;
    shard->far_min = UINT64_MAX;
    shard->occupied = 0;
    shard->base = base;
    shard->crowded = 0;
}

#endif
