/* claim.h - who runs what: claims of shards, and ranges of worlds.
 *
 * Claiming is one CAS and lock-free. A claim word holds the number of the last phase in which
 * its shard was claimed. All words hold P when phase P ends, so the CAS of a worker that comes
 * late with an older number fails, and nobody has to wait for such a worker. */
#ifndef SEER_CLAIM_H
#define SEER_CLAIM_H

#include <stdint.h>

#include "atomics.h"

typedef struct seer_claim {
    SEER_ATOMIC(uint64_t) phase; /* W: whoever claims */
} seer_claim;

static inline int seer_claim_free(seer_claim *claim, uint64_t phase)
{
    return seer_load(&claim->phase, relaxed) == phase - 1; /* relaxed: a hint, the CAS decides */
}

/* 1 if the shard is now the caller's until it counts it as done. */
static inline int seer_claim_take(seer_claim *claim, uint64_t phase)
{
    uint64_t expected = phase - 1;
    /* relaxed: the shard's contents were handed over by the bulletin ([B3], [B4]); this CAS only
     * chooses one among those who have read it. */
    return seer_cas(&claim->phase, &expected, phase, relaxed, relaxed);
}

/* A range of blocks [low, high), its owner taking from the low end and others from the high end.
 * A CAS that succeeds late, in another step that began with the same range, is a rightful claim
 * of that step: the claimer reads everything else after it. */
typedef struct seer_range {
    SEER_ATOMIC(uint64_t) word; /* high << 32 | low   W: owner, thieves (CAS), caller between steps */
} seer_range;

static inline void seer_range_fill(seer_range *range, uint32_t low, uint32_t high)
{
    /* [R1] release: publishes the step's description; pairs with [R2]. */
    seer_store(&range->word, (uint64_t)high << 32 | low, release);
}

/* The block taken, or -1 when the range is empty. */
static inline int64_t seer_range_take(seer_range *range, int steal, uint64_t *retries)
{
    uint64_t word = seer_load(&range->word, relaxed); /* relaxed: the CAS decides */
    for (;; ++*retries) {
        uint32_t low = (uint32_t)word, high = (uint32_t)(word >> 32);
        if (low >= high) return -1;
        uint64_t rest = steal ? (uint64_t)(high - 1) << 32 | low : (uint64_t)high << 32 | (low + 1);
        /* [R2] acquire: pairs with [R1]. */
        if (seer_cas(&range->word, &word, rest, acquire, relaxed)) return steal ? high - 1 : low;
    }
}

/* Empties the range; the number of blocks that nobody will take. */
static inline uint32_t seer_range_close(seer_range *range)
{
    uint64_t word = seer_exchange(&range->word, (uint64_t)0, relaxed); /* relaxed: only counted */
    return (uint32_t)(word >> 32) - (uint32_t)word;
}

#endif
