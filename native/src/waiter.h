/* waiter.h - a word that grows, and waiting for it: bounded spin, then sleep.
 *
 * A hand-over by spinning takes a fraction of a microsecond, one by futex some twenty; but
 * spinning with more threads than cores keeps the awaited thread from running. The store of the
 * word and the read of sleepers are seq_cst, and so are a sleeper's announcement and its second
 * look at the word: one of the two sees the other, so no wake-up is lost. */
#ifndef SEER_WAITER_H
#define SEER_WAITER_H

#include <stdint.h>

#include "atomics.h"

typedef struct seer_word {
    SEER_ATOMIC(uint64_t) value;    /* W: whoever may advance it */
    SEER_ATOMIC(uint32_t) sleepers; /* W: waiters */
} seer_word;

/* Sleep while the word's low half is `low`; may return early. Wake all that sleep on it. */
void seer_sleep(seer_word *word, uint32_t low);
void seer_wake(seer_word *word);

static inline uint64_t seer_word_look(seer_word *word)
{
    /* [P2] acquire: pairs with [P1]; what was written before the word advanced is visible. */
    return seer_load(&word->value, acquire);
}

static inline void seer_word_set(seer_word *word, uint64_t value)
{
    /* [P1] seq_cst (hence release): publishes all that was written before; pairs with [P2], and
     * with [S1] so that one side sees the other. */
    seer_store(&word->value, value, seq_cst);
}

/* After seer_word_set; returns 1 if somebody had to be woken. */
static inline int seer_word_wake(seer_word *word)
{
    /* [S2] seq_cst: pairs with [S1]. */
    if (seer_likely(seer_load(&word->sleepers, seq_cst) == 0)) return 0;
    seer_wake(word);
    return 1;
}

static inline int seer_word_advance(seer_word *word, uint64_t value)
{
    seer_word_set(word, value);
    return seer_word_wake(word);
}

/* Sleeps until the word is no longer `seen`. */
static inline uint64_t seer_word_sleep(seer_word *word, uint64_t seen)
{
    uint64_t value;
    /* [S1] seq_cst: announces the sleeper before its second look; pairs with [S2]. */
    seer_add(&word->sleepers, 1u, seq_cst);
    while ((value = seer_load(&word->value, seq_cst)) == seen) seer_sleep(word, (uint32_t)seen);
    seer_add(&word->sleepers, (uint32_t)-1, relaxed); /* relaxed: at worst one wake-up too many */
    return value;
}

#endif
