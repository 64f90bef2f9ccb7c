/* shard.h - the upper layer of the queue: a block of lanes, and which of them have events when.
 *
 * The calendar lists lanes, not events, by the bucket of their earliest event: 64 buckets in a
 * ring that begins at `base`, and one for all that lies beyond. A bucket is a bitmap of lanes, so
 * that a lane moves in O(1), is found in the order of its memory, and costs a bit (lists with links
 * took a quarter longer per event); large bitmaps have a summary with a bit for each word. All but
 * the claim and the mailboxes is touched only by the holder of the claim. */
#ifndef SEER_SHARD_H
#define SEER_SHARD_H

#include <string.h>

#include "claim.h"
#include "lane.h"
#include "mailbox.h"

enum { SEER_RING = 64, SEER_SLOT_FAR = SEER_RING, SEER_SLOT_NONE = SEER_RING + 1,
       SEER_CROWDED_TOLD = 2 /* it has, and that was reported */ };

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

typedef struct seer_shard {
    /* what others write */
    _Alignas(SEER_APART) seer_claim claim;
    /* Two, used in turn: what is sent in one phase is taken in the next, never in the same. */
    _Alignas(SEER_APART) seer_mailbox mailbox[2];
    /* the holder's */
    _Alignas(SEER_APART) seer_lane *lanes; /* (count,) of this shard */
    uint64_t *map;         /* (SEER_RING + 1, map_stride): summary, then a bit for each lane */
    uint32_t map_stride, map_summary; /* words; words of the summary, 0 for a small map */
    uint32_t first, count; /* entity ids [first, first + count) */
    seer_buckets buckets;
    uint64_t base;     /* the bucket of the last window; no event lies before it */
    uint64_t occupied; /* bit k: bucket k of the ring lists a lane */
    uint64_t far_min;  /* no lane beyond the ring has an earlier bucket */
    uint32_t lane_capacity;
    uint32_t crowded;  /* 1: some lane may have passed its capacity; SEER_CROWDED_TOLD */
    uint32_t listed[SEER_RING + 1]; /* how many lanes a bucket lists */
    seer_arena arena;
} seer_shard;

enum { SEER_SMALL_MAP = 32 }; /* words that are looked through without a summary */

static inline size_t seer_shard_map_bytes(uint32_t lanes)
{
    size_t words = (lanes + 63) / 64, summary = words > SEER_SMALL_MAP ? (words + 63) / 64 : 0;
    return (SEER_RING + 1) * (words + summary) * sizeof(uint64_t);
}

/* Moves the lanes beyond the ring that it has come to cover. */
void seer_shard_look_far(seer_shard *shard, uint32_t *ids);

static inline void seer_shard_list(seer_shard *shard, uint32_t i, seer_lane *lane, uint64_t bucket)
{
    unsigned slot = bucket & (SEER_RING - 1);
    if (seer_likely(bucket - shard->base < SEER_RING)) {
        shard->occupied |= UINT64_C(1) << slot;
    } else {
        slot = SEER_SLOT_FAR;
        if (bucket < shard->far_min) shard->far_min = bucket;
    }
    uint64_t *map = shard->map + (size_t)slot * shard->map_stride;
    if (shard->map_summary) map[i >> 12] |= UINT64_C(1) << (i >> 6 & 63);
    map[shard->map_summary + (i >> 6)] |= UINT64_C(1) << (i & 63);
    shard->listed[slot]++;
    lane->slot = (uint8_t)slot;
}

static inline void seer_shard_unlist(seer_shard *shard, uint32_t i, seer_lane *lane)
{
    unsigned slot = lane->slot;
    uint64_t *map = shard->map + (size_t)slot * shard->map_stride;
    map[shard->map_summary + (i >> 6)] &= ~(UINT64_C(1) << (i & 63)); /* the summary may stay */
    if (--shard->listed[slot] == 0 && slot < SEER_RING) shard->occupied &= ~(UINT64_C(1) << slot);
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
static inline int seer_shard_file(seer_shard *shard, uint32_t i, seer_record event)
{
    seer_lane *lane = &shard->lanes[i];
    int64_t before = lane->head.time;
    if (!seer_lane_insert(lane, &shard->arena, event)) return 0;
    if (seer_unlikely(lane->count >= shard->lane_capacity)) shard->crowded |= 1;
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

/* The lanes of 64 into ids, in order. */
static inline uint32_t seer_shard_word(uint64_t word, uint32_t first, uint32_t *ids, uint32_t n)
{
    for (; word; word &= word - 1) ids[n++] = first + (uint32_t)__builtin_ctzll(word);
    return n;
}

/* Takes the lanes of a bucket out into ids, in order; their slots are left as they are. */
static inline uint32_t seer_shard_gather(seer_shard *shard, unsigned slot, uint32_t *ids)
{
    uint64_t *map = shard->map + (size_t)slot * shard->map_stride, *bits = map + shard->map_summary;
    uint32_t n = 0;
    if (!shard->map_summary) {
        for (uint32_t k = 0; k < shard->map_stride; k++) {
            n = seer_shard_word(bits[k], k * 64, ids, n);
            bits[k] = 0;
        }
    } else {
        for (uint32_t k = 0; k < shard->map_summary; k++) {
            for (uint64_t some = map[k]; some; some &= some - 1) {
                uint32_t at = k * 64 + (uint32_t)__builtin_ctzll(some);
                n = seer_shard_word(bits[at], at * 64, ids, n);
                bits[at] = 0;
            }
            map[k] = 0;
        }
    }
    shard->listed[slot] = 0;
    if (slot < SEER_RING) shard->occupied &= ~(UINT64_C(1) << slot);
    return n;
}

/* Lets the calendar begin at a bucket that nothing lies before; ids is scratch for its lanes. */
static inline void seer_shard_advance(seer_shard *shard, uint64_t bucket, uint32_t *ids)
{
    shard->base = bucket;
    if (seer_unlikely(shard->far_min <= bucket)) seer_shard_look_far(shard, ids);
}

static inline void seer_shard_clear(seer_shard *shard, uint64_t base)
{
    seer_arena_free(&shard->arena);
    for (uint32_t i = 0; i < shard->count; i++) {
        seer_lane_clear(&shard->lanes[i]);
        shard->lanes[i].slot = SEER_SLOT_NONE;
    }
    memset(shard->map, 0, seer_shard_map_bytes(shard->count));
    memset(shard->listed, 0, sizeof shard->listed);
    shard->far_min = UINT64_MAX;
    shard->occupied = 0;
    shard->base = base;
    shard->crowded = 0;
}

#endif
